import { type CanActivate, type ExecutionContext, ForbiddenException, Injectable, UseGuards } from '@nestjs/common';
import { McpRegistry, Tool } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { createMcpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterEach, expect, it } from 'vitest';
import { gate, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { eventually } from '../support/test-apps.js';

const inputSchema = {
  type: 'object',
  properties: {
    count: { type: 'number' },
    key: { type: 'string' },
    region: { type: 'string', 'x-mcp-header': 'Region' },
  },
  required: ['count'],
} as const;

let app: TestApp;
let held: ReturnType<typeof gate<void>>;
/** How often the method has run, and the client was asked to confirm. */
let runs = 0;
let asked = 0;

@Injectable()
class NotDenied implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    if (headers['x-denied']) throw new ForbiddenException('Not you.');
    return true;
  }
}

@Injectable()
class Tools {
  @Tool({
    name: 'pay',
    inputSchema,
    task: 'required',
    idempotency: { argument: 'key' },
  })
  @UseGuards(NotDenied)
  pay(): string {
    return 'paid';
  }
  @Tool({
    name: 'charge',
    inputSchema,
    idempotency: { argument: 'key' },
    confirm: 'Sure?',
    maxConcurrent: 1,
  })
  async charge(): Promise<string> {
    runs++;
    await held.promise;
    return 'charged';
  }
}

afterEach(async () => {
  held.open();
  await app.close();
  app.log.release();
});

it('D2: what refuses a call is asked in one order: each fault is answered when those before it are mended', async () => {
  held = gate();
  let auditFails = true;
  const sink = {
    write: () => {
      if (auditFails) throw new Error('The disk is full.');
    },
  };
  app = await TestApp.start({
    adapter: 'fastify',
    server: undefined,
    providers: [NotDenied, Tools],
    module: { imports: [McpTasksModule.forRoot(), McpAuditModule.forRoot({ required: true, sink })] },
  });
  const registry = app.app.get(McpRegistry);
  await registry.disable('pay', { reason: 'Not now.' });
  const client = new ModernClient(app.url);

  const faults = { method: 'no/such', name: 7 as unknown, denied: true, header: 'us', state: 'forged' };
  const args = { count: 'many' as unknown, key: 'k'.repeat(300), region: 'eu' };
  const refusal = async (): Promise<string> => {
    const { method, name, denied, header, state } = faults;
    const headers = { ...(denied && { 'x-denied': '1' }), 'mcp-param-region': header, 'mcp-name': String(name) };
    const params = { name, arguments: args, ...(state && { requestState: state }) };
    const response = await client.request(method, params, { headers });
    const { error, result } = await response.json();
    return error ? `${response.status} ${error.code} ${error.message}` : result.content[0].text;
  };
  const asking = await createMcpTestClient(app.app, {
    era: 'modern',
    tasks: false,
    elicit: () => {
      asked++;
      return { action: 'accept', content: {} };
    },
  });
  const charge = async (key: string) => (await asking.callTool('charge', { count: 1, key })).text;
  const mends: [RegExp, () => unknown][] = [
    [/^503 -32000 This server records each call before it serves it/, () => (auditFails = false)],
    [/^404 -32601/, () => (faults.method = 'tools/call')],
    [/^200 -32602 .*parameters.*name/, () => (faults.name = 'none')],
    [/^200 -32602 .*none.*not found/, () => (faults.name = 'pay')],
    [/^200 -32602 .*pay.*not found/, () => (faults.denied = false)],
    [/switched off: Not now\./, () => registry.enable('pay')],
    [/^400 -32020/, () => (faults.header = 'eu')],
    [/^200 -32602 .*requestState/, () => (faults.state = '')],
    [/count/, () => (args.count = 1)],
    [/^400 -32021/, () => (faults.name = 'charge')],
    [/"key" must be a text of 1 to 256 characters/, () => (args.key = 'one')],
  ];
  for (const [answer, mend] of mends) {
    expect(await refusal()).toMatch(answer);
    await mend();
  }
  const first = charge('first');
  await eventually(() => expect(runs).toBe(1));
  expect(await refusal()).toMatch(/confirm/);
  const second = charge('second');
  await eventually(() => expect(asked).toBe(2));
  expect(runs).toBe(1);
  held.open();
  expect([await first, await second, runs]).toEqual(['charged', 'charged', 2]);
});
