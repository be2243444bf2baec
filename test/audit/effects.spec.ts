import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { McpExecutionContext, McpRegistry, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { as, trustingGuard } from '../support/users.js';
import { Records } from './audit-app.js';

@Injectable()
class Closed implements CanActivate {
  static is = false;
  canActivate(context: ExecutionContext): boolean {
    return !McpExecutionContext.isMcp(context) || !Closed.is;
  }
}

@Injectable()
class Bank {
  paid = 0;

  @Tool({
    name: 'pay',
    inputSchema: z.object({ id: z.string() }),
    idempotency: { argument: 'id' },
    confirm: 'Pay?',
  })
  pay(): string {
    return `paid ${++this.paid}`;
  }
}

describe('an audit that is required', () => {
  let app: TestApp;
  let records: Records;
  beforeEach(async () => {
    Closed.is = false;
    records = new Records();
    app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard] }),
        McpAuditModule.forRoot({ sink: records, required: true }),
      ],
      providers: [Bank, { provide: APP_GUARD, useClass: Closed }],
    });
  });
  afterEach(() => app.close());

  const ask = async (name: string, params: object = {}) => {
    records.all.length = 0;
    const client = new ModernClient(app.url, as('ann'));
    const { result } = await client.ask('tools/call', { name, ...params }, { capabilities: { elicitation: {} } });
    return result;
  };

  it('an audit that is required has an attempt and an outcome for the question, the answer, each repeat, and a denied one', async () => {
    const params = { arguments: { id: 'a' } };
    const asked = await ask('pay', params);
    expect(records.gists).toEqual(['attempt pay', 'asked pay']);
    const [key] = Object.keys(asked.inputRequests as object);
    const answered = { requestState: asked.requestState, inputResponses: { [key!]: { action: 'accept' } } };
    for (const more of [answered, answered, {}]) {
      expect((await ask('pay', { ...params, ...more })).content[0].text).toBe('paid 1');
      expect(records.gists).toEqual(['attempt pay', 'served pay']);
      expect(new Set(records.all.map(({ id }) => id)).size).toBe(1);
    }
    Closed.is = true;
    expect((await ask('pay', params)).content[0].text).toBe('Forbidden resource');
    expect(records.gists).toEqual(['attempt pay', 'denied pay']);
  });

  it('an audit that is required has calls of what is registered, denied by a guard of the app, and switched off', async () => {
    const registry = app.app.get(McpRegistry);
    registry.registerTool({ name: 'late', handler: () => 'done' });
    await ask('late');
    expect(records.gists).toEqual(['attempt late', 'served late']);
    Closed.is = true;
    await ask('late');
    expect(records.gists).toEqual(['attempt late', 'denied late']);
    Closed.is = false;
    await registry.disable('late');
    await ask('late');
    expect(records.gists).toEqual(['attempt late', 'failed late']);
  });
});
