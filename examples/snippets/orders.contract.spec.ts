/// <reference types="vitest/globals" />
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  diagnose,
  expectContract,
  expectHealthy,
  expectNothingLeft,
  toolRouting,
} from 'nestjs-mcp-streamable/testing';
import { OrdersModule } from './orders.module.js';

describe('the tools of OrdersModule', () => {
  let app: INestApplication;

  beforeEach(async () => {
    const fixture = await Test.createTestingModule({ imports: [OrdersModule] }).compile();
    app = fixture.createNestApplication();
  });

  // #region contract
  it('are those that the contract lists', async () => {
    // The path begins at the folder in which you start the tests.
    await expectContract(app, 'orders.contract.json');
  });
  // #endregion

  it('are accepted by clients', async () => {
    await expectHealthy(app);
    const { tokens } = await diagnose(app);
    expect(tokens).toBeLessThan(1_000);
  });

  it('are chosen by a model', async () => {
    const cases = [{ ask: 'Where is my order A-1042?', expect: 'find_order' }];
    const model = ({ ask }: { ask: string }) =>
      /order/.test(ask) ? 'find_order' : undefined;
    await toolRouting(app, cases, model);
  });

  afterEach(async () => {
    await expectNothingLeft(app);
    await app.close();
  });
});
