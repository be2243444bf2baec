import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  expectContract,
  expectHealthy,
  expectNothingLeft,
  McpTestAuth,
  type McpRoutingModel,
  mintTestToken,
  toolRouting,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { AccessTokens, ParcelsModule } from './parcels.module.js';

let app: INestApplication;

beforeEach(async () => {
  const testing = Test.createTestingModule({ imports: [ParcelsModule] });
  app = (
    await testing.overrideProvider(AccessTokens).useValue(new McpTestAuth()).compile()
  ).createNestApplication();
});

afterEach(async () => {
  await expectNothingLeft(app);
  await app.close();
});

// #region contract
it('lists what the contract says', async () => {
  const clerk = mintTestToken({ sub: 'anna', scopes: ['parcels:write'] });
  const file = new URL('../mcp.contract.json', import.meta.url);
  await expectContract(app, file, { as: { clerk, stranger: undefined } });
});
// #endregion

// #region healthy
it('serves tools that clients accept and models tell apart', async () => {
  await expectHealthy(app, { except: ['no-title'] });
});
// #endregion

// #region model
/**
 * Replaces a model in this example. Your function sends `ask` and `tools` to the API of
 * your model, and returns the name of the tool that the model calls.
 */
const model: McpRoutingModel = ({ ask, tools }) =>
  tools.find(({ name }) => ask.toLowerCase().includes(name.slice(0, 4)))?.name;
// #endregion

// #region routing
it('lets a model choose the right tool', async () => {
  const as = mintTestToken({ sub: 'anna', scopes: ['parcels:write'] });
  const cases = [
    { ask: 'Weigh P-17, please', expect: 'weigh', never: ['destroy'] },
    { ask: 'Send P-17 back to the shop', expect: 'send_back', never: ['destroy'] },
    { ask: 'What is the weather?', expect: undefined },
  ];
  const { table } = await toolRouting(app, cases, model, { as, atLeast: 0.9 });
  expect(table).toContain('3 of 3');
});
// #endregion
