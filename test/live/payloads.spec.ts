import { Injectable, Logger, NotFoundException } from '@nestjs/common';
import {
  McpCatalogue,
  type McpCatalogueTool,
  McpRegistry,
  McpStreamableModule,
  Prompt,
  Resource,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serverInfo, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import { LiveReader } from './live-reader.js';

Logger.overrideLogger(false);

const SECRET = '4000-1234';
const LINK = `See https://ann:${SECRET}@host/?access_token=${SECRET}, with Bearer ${SECRET}abc`;
const pin = { type: 'string', 'x-mcp-sensitive': true };

@McpCatalogue()
@Injectable()
class Plugins {
  list(): McpCatalogueTool[] {
    const schema = { type: 'object' as const, properties: { pin, next: { $ref: '#' } } };
    return [{ name: 'pay', inputSchema: schema, outputSchema: schema }];
  }
  call(_name: string, args: Record<string, unknown>): object {
    const { pin: value } = args;
    args['pin'] = 'changed by the handler';
    return { pin: value, next: { pin: value } };
  }
}

class Tools {
  @Tool({ name: 'report' })
  report(): string {
    const rows = Array.from({ length: 3_000 }, (_, id) => ({ id, name: 'an article of the shop' }));
    return JSON.stringify({ password: SECRET, rows });
  }

  @Tool({ name: 'link', inputSchema: { type: 'object' } })
  link(): string {
    return LINK;
  }

  @Prompt({ name: 'link' })
  broken(): never {
    throw new NotFoundException(LINK);
  }

  @Resource({ name: 'account', uri: 'account://1', mimeType: 'application/json' })
  read(): string {
    return JSON.stringify({ password: SECRET });
  }

  @Prompt({ name: 'account' })
  prompt(): object {
    const resource = { uri: 'account://1', text: JSON.stringify({ password: SECRET }) };
    return { messages: [{ role: 'user', content: { type: 'resource', resource } }] };
  }
}

describe('the data of calls on the page', () => {
  let app: TestApp;
  let reader: LiveReader;
  let calls = 0;
  beforeEach(async () => {
    app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo }),
        McpLiveModule.forRoot({ unguarded: 'loopback', payloads: true }),
      ],
      providers: [Plugins, Tools],
    });
    reader = await LiveReader.open(`${app.base}/mcp-live`);
    calls = 0;
  });
  afterEach(async () => {
    reader.close();
    await app.close();
  });

  /** Calls a handler, and returns what the page shows of the call. */
  async function shownOf(name: string, args: object = {}, method = 'tools/call') {
    const params = method === 'resources/read' ? { uri: name } : { name, arguments: args };
    const { result } = await new ModernClient(app.url).ask(method, params);
    const before = calls;
    await reader.until(({ events }) => (calls = events.filter(({ call }) => call).length) > before);
    const { call } = reader.events.findLast((event) => event['call'])!;
    const query = new URLSearchParams({ endpoint: '0', kind: 'call', key: String(call) });
    const details = await send(`${app.base}/mcp-live/details?${query.toString()}`, { method: 'GET' });
    return { result, shown: await details.json() };
  }

  it('a call of a tool of a catalogue is shown without what its schemas mark as sensitive', async () => {
    const { result, shown } = await shownOf('pay', { pin: SECRET, order: 'A' });
    expect(result.structuredContent).toEqual({ pin: SECRET, next: { pin: SECRET } });
    expect(shown.arguments).toEqual({ pin: '[redacted]', order: 'A' });
    expect(JSON.stringify(shown)).not.toContain(SECRET);
  });

  it('a call that is refused before its handler runs is shown with its arguments, without what schemas mark as sensitive', async () => {
    await app.app.get(McpRegistry).disable('pay', { reason: 'Not now.' });
    const { shown } = await shownOf('pay', { pin: SECRET, order: 'A' });
    expect(shown).toMatchObject({ outcome: 'tool_error', arguments: { pin: '[redacted]', order: 'A' } });
    expect(shown.stages.entered).toBeUndefined();
    expect(JSON.stringify(shown)).not.toContain(SECRET);
  });

  it('a call of a tool that does not exist is shown without its arguments', async () => {
    const { shown } = await shownOf('pau', { pin: SECRET });
    expect(shown.outcome).toBe(-32602);
    expect(JSON.stringify(shown)).not.toContain(SECRET);
  });

  it('a result is shown without a text that is too long to be read as JSON', async () => {
    const { shown } = await shownOf('report');
    expect(shown.outcome).toBe('ok');
    expect(JSON.stringify(shown)).not.toContain(SECRET);
  });

  it('a text is shown without passwords and tokens in URLs and headers, also that of an error', async () => {
    const shortened = 'See https://ann:[redacted]@host/?access_token=[redacted], with Bearer [redacted]';
    const headers = [{ name: 'X-Api-Key', value: SECRET }];
    const { shown } = await shownOf('link', { headers });
    expect(shown.result.content).toEqual([{ type: 'text', text: shortened }]);
    expect(shown.arguments).toEqual({ headers: [{ name: 'X-Api-Key', value: '[redacted]' }] });
    const { shown: failed } = await shownOf('link', {}, 'prompts/get');
    expect(failed.error).toBe(shortened);
    expect(JSON.stringify([shown, failed])).not.toContain(SECRET);
  });

  it('a resource whose text is JSON is redacted, also in a prompt', async () => {
    const read = await shownOf('account://1', {}, 'resources/read');
    expect(read.result.contents[0].text).toContain(SECRET);
    const got = await shownOf('account', {}, 'prompts/get');
    for (const { shown } of [read, got]) {
      expect(JSON.stringify(shown.result)).toContain('[redacted]');
      expect(JSON.stringify(shown)).not.toContain(SECRET);
    }
  });
});
