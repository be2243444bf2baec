import { Injectable, InternalServerErrorException, NotFoundException } from '@nestjs/common';
import { Complete, McpStreamableModule, Prompt, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';
import { asking, KINDS, messageOf } from '../support/kinds.js';
import { ModernClient } from '../support/modern-client.js';
import { fourOf } from './four.js';
import { UnixSocketDoor } from '../support/raw-socket.js';

const MESSAGE = 'No stock for order 7';
const failure = (): Error => new Error(MESSAGE, { cause: new Error('postgres://root:hunter2@db') });
let thrown: () => unknown = failure;
const Failing = fourOf('failing', {
  run: () => {
    throw thrown();
  },
});

@Injectable()
class Completed {
  @Prompt({ name: 'completed', arguments: [{ name: 'word' }] })
  completed(): string {
    return 'completed';
  }
  @Complete({ prompt: 'completed', argument: 'word' })
  words(): never {
    throw thrown();
  }
}
const COMPLETION = {
  method: 'completion/complete',
  params: { ref: { type: 'ref/prompt', name: 'completed' }, argument: { name: 'word', value: 'a' } },
};

afterEach(() => {
  thrown = failure;
  vi.unstubAllEnvs();
});

describe.each(ONE_ADAPTER)('the message of an Error that a handler throws, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Failing, Completed] });
  const isTold = async (app: TestApp, headers: Record<string, string> = {}): Promise<boolean> => {
    const client = await app.client(headers).initialize();
    const { result } = await (await client.post(messageOf(client, 'tool', 'failing'))).json();
    return result.content[0].text === MESSAGE;
  };

  it.each([
    [undefined, undefined, true],
    ['development', undefined, true],
    ['production', undefined, false],
    ['production', true, true],
    ['test', false, false],
  ])(
    'the message of an Error that a handler throws with NODE_ENV %s and "errorDetails" %s is sent to the client: %s',
    async (env, errorDetails, told) => {
      vi.stubEnv('NODE_ENV', env);
      const app = await start(errorDetails === undefined ? {} : { errorDetails });
      expect(await isTold(app)).toBe(told);
    },
  );

  it.each<[string, Record<string, string>]>([
    ['a proxy on this machine', { 'x-forwarded-for': '10.0.0.7' }],
    ['a CDN', { 'cf-connecting-ip': '10.0.0.7' }],
    ['a balancer that only numbers requests', { 'x-amzn-trace-id': 'Root=1-67891233-abcdef012345678912345678' }],
    ['a tunnel that adds no header', { host: 'mcp.example.com' }],
  ])(
    'the message of an Error that a handler throws is not sent through %s by default, and is with "errorDetails"',
    async (_, headers) => {
      vi.stubEnv('NODE_ENV', 'development');
      const allowedHosts = ['mcp.example.com'];
      expect(await isTold(await start({ allowedHosts }), headers)).toBe(false);
      expect(await isTold(await start({ allowedHosts, errorDetails: true }), headers)).toBe(true);
    },
  );

  it('the message of an Error that a handler throws is by default not sent to a caller that is not on loopback', async () => {
    vi.stubEnv('NODE_ENV', 'development');
    const app = await start();
    const door = await UnixSocketDoor.open(app.app);
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const opened = await door.send('/mcp', { headers, body: app.client().initializeMessage() });
    const client = app.client();
    await opened.text();
    const session = { ...headers, 'mcp-session-id': opened.header('mcp-session-id')! };
    const response = await door.send('/mcp', { headers: session, body: messageOf(client, 'tool', 'failing') });
    const { result } = await response.json();
    expect(result.content[0].text).toContain('See the server log');
    await door.close();
  });

  it.each(['legacy', 'modern'] as const)(
    'the message of an Error that a handler throws reaches the client, of all kinds of handlers, without cause and stack (%s)',
    async (era) => {
      const app = await start({ errorDetails: true });
      registryOf(app).registerTool({
        name: 'registered',
        handler: () => {
          throw thrown();
        },
      });
      const legacy = await app.client().initialize();
      const modern = new ModernClient(app.url);
      const ask = async (method: string, params: Record<string, unknown>) => {
        if (era === 'modern') return modern.ask(method, params);
        return (await legacy.post({ jsonrpc: '2.0', id: legacy.nextId(), method, params })).json();
      };
      for (const kind of KINDS) {
        const { method, params } = asking(kind, 'failing');
        const { result, error } = await ask(method, params);
        if (kind === 'tool')
          expect(result).toMatchObject({ content: [{ type: 'text', text: MESSAGE }], isError: true });
        else expect(error).toEqual({ code: -32603, message: MESSAGE });
      }
      const { error } = await ask(COMPLETION.method, COMPLETION.params);
      expect(error).toEqual({ code: -32603, message: MESSAGE });
      const { result } = await ask('tools/call', { name: 'registered' });
      expect(result).toMatchObject({ content: [{ type: 'text', text: MESSAGE }], isError: true });
      // The operator reads all of it.
      const errors = app.log.texts('error');
      expect(errors).toHaveLength(KINDS.length + 2);
      for (const text of errors) expect(text).toMatch(/No stock for order 7[\s\S]+ at [\s\S]+hunter2/);
    },
  );

  it('the message of an Error that a handler throws is not sent for a 5xx, and is sent for errors that are meant for clients, in production too', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    for (const errorDetails of [true, undefined]) {
      const app = await start(errorDetails === undefined ? {} : { errorDetails });
      const client = await app.client().initialize();
      for (const kind of KINDS) {
        thrown = () => new InternalServerErrorException('hunter2');
        const untold = await (await client.post(messageOf(client, kind, 'failing'))).text();
        expect(untold).toContain('See the server log');
        expect(untold).not.toContain('hunter2');
        thrown = () => new NotFoundException('Order 7 is not here');
        expect(await (await client.post(messageOf(client, kind, 'failing'))).text()).toContain('Order 7 is not here');
      }
    }
  });
});

describe.each(ONE_ADAPTER)('the log at start about failures, on %s', (adapter) => {
  const linesOf = async (options: Partial<McpStreamableOptions>): Promise<string[]> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, ...options })];
    const app = await TestApp.of(adapter, { imports, providers: [Failing] });
    await app.close();
    return app.log.texts('log').filter((text) => text.includes('errorDetails'));
  };

  it('the log at start about failures reports the effective default once, and nothing when the option is set', async () => {
    vi.stubEnv('NODE_ENV', 'development');
    expect(await linesOf({})).toEqual([
      expect.stringMatching(/"mcp" on this machine receive the messages of errors .* not "production"/),
    ]);
    vi.stubEnv('NODE_ENV', 'production');
    expect(await linesOf({})).toEqual([expect.stringMatching(/"mcp" receive a generic text .* is "production"/)]);
    expect(await linesOf({ errorDetails: true })).toEqual([]);
    expect(await linesOf({ errorDetails: false })).toEqual([]);
  });
});
