import { setImmediate as nextTurn } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import {
  McpCatalogue,
  type McpCatalogueTool,
  McpRegistry,
  McpStreamableModule,
  McpToolCaller,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { gate, TestApp, serverInfo } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { eventually } from '../support/test-apps.js';
import { Records } from './audit-app.js';

const SECRET = '4000-1234';
/** Lets `list()` answer. */
let listing = gate();
let asked = 0;
const pin = { type: 'string', 'x-mcp-sensitive': true };

@McpCatalogue()
@Injectable()
class Plugins {
  async list(): Promise<McpCatalogueTool[]> {
    asked++;
    await listing.promise;
    return [{ name: 'pay', inputSchema: { type: 'object', properties: { pin } } }, { name: 'note' }];
  }
  call(name: string, args: Record<string, unknown>): string {
    args['order'] = 'changed by the handler';
    return `${name} done`;
  }
}

/** Cancels another call: that ends in the context of this one. */
let stop: () => void;

@Injectable()
class Operators {
  @Tool({ name: 'stop', inputSchema: { type: 'object' } })
  stop(): string {
    stop();
    return 'stopped';
  }
}

describe('tools of a catalogue', () => {
  let app: TestApp;
  let client: ModernClient;
  let records: Records;
  beforeEach(async () => {
    listing.open();
    asked = 0;
    records = new Records();
    app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo }), McpAuditModule.forRoot({ sink: records, required: true })],
      providers: [Plugins, Operators],
    });
    client = new ModernClient(app.url);
  });
  afterEach(() => app.close());
  const pay = async () => client.ask('tools/call', { name: 'pay', arguments: { pin: SECRET, order: 'A' } });

  it('tools of a catalogue are audited, before the call and after it, without what their schemas mark, as the client sent the rest', async () => {
    expect((await pay()).result).toMatchObject({ content: [{ text: 'pay done' }] });
    const recorded = { name: 'pay', arguments: { pin: '[redacted]', order: 'A' } };
    expect(records.all).toMatchObject([
      { outcome: 'attempt', ...recorded },
      { outcome: 'served', ...recorded },
    ]);
    expect(JSON.stringify(records.all)).not.toContain(SECRET);
  });

  it('tools of a catalogue are audited when a call is cancelled while their list is asked for, and do not run', async () => {
    listing = gate();
    const gone = new AbortController();
    const call = app.app
      .get(McpToolCaller)
      .callTool('pay', { pin: SECRET }, { signal: gone.signal })
      .catch((error: Error) => error.name);
    await eventually(() => expect(asked).toBe(1));
    stop = () => gone.abort();
    await client.ask('tools/call', { name: 'stop' });
    expect(await call).toBe('AbortError');
    const outcomes = () => records.all.map(({ name, outcome }) => `${name} ${outcome}`);
    expect(outcomes()).toEqual(['stop attempt', 'pay cancelled', 'stop served']);
    listing.open();
    await nextTurn();
    expect(outcomes()).toHaveLength(3);
    expect(JSON.stringify(records.all)).not.toContain(SECRET);
  });

  it('tools of a catalogue are switched off by name', async () => {
    const registry = app.app.get(McpRegistry);
    await registry.disable('pay', { reason: 'Not now.' });
    expect((await pay()).result).toMatchObject({
      isError: true,
      content: [{ text: 'The tool "pay" is switched off: Not now.' }],
    });
    const { result } = await client.ask('tools/list');
    expect(result.tools).toMatchObject([{ name: 'stop' }, { name: 'note' }]);
    expect(JSON.stringify(records.all)).not.toContain(SECRET);
    await registry.enable('pay');
    expect((await pay()).result).toMatchObject({ content: [{ text: 'pay done' }] });
  });
});
