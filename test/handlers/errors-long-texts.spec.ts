import { Injectable } from '@nestjs/common';
import { McpServer, ResourceTemplate as SdkTemplate } from '@modelcontextprotocol/server';
import {
  Complete,
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpSkillsModule, Skill } from 'nestjs-mcp-streamable/skills';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { serverInfo, TestApp } from '../support/app.js';
import type { RawResponse } from '../support/http.js';
import { MODERN, ModernClient, modernMeta } from '../support/modern-client.js';
import { LATEST } from '../support/raw-client.js';

/** No text of the server has it; a header may have it. */
const LONG = 'ZQ'.repeat(2_000);
/** More of it than a text of the package quotes, and than one of an SDK server. */
const REPEATED = /(?:ZQ){101}/;
const REPEATED_BY_SERVER = /(?:ZQ){501}/;

const nested = z.object({
  id: z.string(),
  tags: z.array(z.enum(['a', 'b'])),
  at: z.iso.date(),
  more: z.object({ n: z.number() }),
});

@Injectable()
class Shop {
  @Tool({ name: 'order', inputSchema: nested.strict() })
  order(): string {
    return 'ordered';
  }
  @Tool({
    name: 'route',
    inputSchema: {
      type: 'object',
      properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, n: { type: 'integer', enum: [1] } },
      additionalProperties: false,
      required: ['region'],
    },
  })
  route(): string {
    return 'routed';
  }
  @Tool({ name: 'pay', inputSchema: z.object({ key: z.string(), n: z.number() }), idempotency: { argument: 'key' } })
  pay(): string {
    return 'paid';
  }
  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = { type: 'object', properties: { size: { type: 'string', enum: ['s', 'm'] } } } as const;
    const { action } = await ctx.elicit('size', { message: 'Which size?', requestedSchema });
    return action;
  }
  @Tool({ name: 'visits', inputSchema: z.object({ handle: z.string() }) })
  async visits(@McpArgs() { handle }: { handle: string }, @McpCtx() ctx: McpContext): Promise<string> {
    await ctx.state(handle);
    return 'visited';
  }
  @Tool({ name: 'later', task: 'required' })
  later(): string {
    return 'done';
  }
  @Prompt({ name: 'greet', arguments: [{ name: 'who', required: true }] })
  greet(): string {
    return 'Hello!';
  }
  @Complete({ prompt: 'greet', argument: 'who' })
  whom(): string[] {
    return ['Ann'];
  }
  @Resource({ uri: 'orders://terms', name: 'terms' })
  terms(): string {
    return 'terms';
  }
  @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order' })
  one(): string {
    return 'one';
  }
  @Skill({ name: 'onboarding', description: 'Explains the house.' })
  onboarding(): string {
    return '# Welcome\n';
  }
}

@McpCatalogue()
@Injectable()
class Plugins {
  list(): McpCatalogueTool[] {
    return [{ name: 'plugin', inputSchema: { type: 'object', properties: { n: { type: 'number' } } } }];
  }
  call(): string {
    return 'plugged';
  }
}

type Message = { method: string; params: Record<string, unknown> };

const EXTENSIONS = { 'io.modelcontextprotocol/tasks': {}, 'io.modelcontextprotocol/skills': {} };
const CAPABILITIES = { elicitation: {}, extensions: EXTENSIONS };
/** Methods that endpoints treat differently without a session. */
const SOME = new Set(['initialize', 'ping', 'nothing', 'prompts/get']);
const order = { id: 'A', tags: ['a'], at: '2026-01-01', more: { n: 1 } };
const MESSAGES: readonly Message[] = [
  { method: 'tools/call', params: { name: 'order', arguments: order, _meta: { progressToken: 'p' } } },
  { method: 'tools/call', params: { name: 'route', arguments: { region: 'eu', n: 1 } } },
  { method: 'tools/call', params: { name: 'pay', arguments: { key: 'k', n: 1 } } },
  {
    method: 'tools/call',
    params: { name: 'ask', arguments: {}, inputResponses: { size: { action: 'accept' } }, requestState: 's' },
  },
  { method: 'tools/call', params: { name: 'visits', arguments: { handle: 'h' } } },
  { method: 'tools/call', params: { name: 'later', arguments: {}, task: { ttl: 1 } } },
  { method: 'tools/call', params: { name: 'plugin', arguments: { n: 1 } } },
  { method: 'prompts/get', params: { name: 'greet', arguments: { who: 'Ann' } } },
  { method: 'resources/read', params: { uri: 'orders://terms' } },
  { method: 'resources/read', params: { uri: 'skill://onboarding/SKILL.md' } },
  { method: 'resources/subscribe', params: { uri: 'orders://terms' } },
  { method: 'resources/unsubscribe', params: { uri: 'orders://terms' } },
  {
    method: 'completion/complete',
    params: {
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'who', value: 'A' },
      context: { arguments: { a: 'b' } },
    },
  },
  {
    method: 'completion/complete',
    params: { ref: { type: 'ref/resource', uri: 'orders://{id}' }, argument: { name: 'id', value: 'A' } },
  },
  { method: 'tools/list', params: { cursor: 'c' } },
  { method: 'resources/list', params: { cursor: 'c' } },
  { method: 'resources/templates/list', params: { cursor: 'c' } },
  { method: 'prompts/list', params: { cursor: 'c' } },
  { method: 'logging/setLevel', params: { level: 'info' } },
  { method: 'ping', params: {} },
  { method: 'server/discover', params: {} },
  {
    method: 'initialize',
    params: {
      protocolVersion: LATEST,
      capabilities: { roots: {} },
      clientInfo: { name: 'c', version: '1', icons: [{ src: 's' }] },
    },
  },
  { method: 'subscriptions/listen', params: { notifications: { resourceSubscriptions: ['a'], toolsListChanged: 1 } } },
  { method: 'tasks/get', params: { taskId: 't' } },
  { method: 'tasks/update', params: { taskId: 't', inputResponses: { a: { action: 'accept' } } } },
  { method: 'tasks/cancel', params: { taskId: 't' } },
  { method: 'skills/list', params: { cursor: 'c' } },
  { method: 'skills/read', params: { uri: 'skill://onboarding/SKILL.md' } },
  { method: 'skills/get', params: { uri: 'skill://onboarding/SKILL.md' } },
  { method: 'skills/directory/read', params: { uri: 'skill://onboarding' } },
  { method: 'nothing', params: {} },
];

/** A value with something long at each of its places in turn: as the value, in a list, in an object, as one more key. */
function* lengthened(value: unknown, path = ''): Generator<[path: string, value: unknown]> {
  yield [path, LONG];
  yield [`${path}{}`, { [LONG]: [LONG] }];
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield [`${path}+`, { ...value, [LONG]: 5 }];
  for (const [name, member] of Object.entries(value)) {
    for (const [at, each] of lengthened(member, `${path}.${name}`)) {
      yield [at, Array.isArray(value) ? value.with(Number(name), each) : { ...value, [name]: each }];
    }
  }
}

const isMessage = (value: unknown): value is Message => typeof value === 'object' && !Array.isArray(value);

/** Sends each message in all of its long forms; most are refused. @returns where an error repeats what is long */
async function told(
  repeated: RegExp,
  messages: readonly object[],
  post: (message: unknown) => Promise<RawResponse>,
): Promise<string[]> {
  const found: string[] = [];
  let refused = 0;
  for (const message of messages) {
    for (const [path, value] of lengthened(message)) {
      const response = await post(value);
      const text = await firstOf(response);
      if (!REFUSED.test(text) && response.status < 400) continue;
      refused++;
      expect(response.status).not.toBe(500);
      if (repeated.test(text + JSON.stringify(response.headers))) found.push(`${path.replace(LONG, 'LONG')}: ${text}`);
    }
  }
  expect(refused).toBeGreaterThan(messages.length);
  return found;
}

const REFUSED = /"error":|"isError":true/;

/** The body, or the first message of a stream, which may stay open. */
async function firstOf(response: RawResponse): Promise<string> {
  if (!response.header('content-type')?.startsWith('text/event-stream')) return response.text();
  const stream = await response.sse().count(1);
  response.destroy();
  return JSON.stringify(stream.messages);
}

const HEADERS =
  'accept authorization content-encoding content-type cookie host last-event-id mcp-method mcp-name mcp-param-region mcp-protocol-version mcp-session-id origin x-forwarded-host';

describe.each(['decorated handlers', 'servers of the SDK'])('errors for callers of %s', (kind) => {
  const own = kind === 'decorated handlers';
  const repeated = own ? REPEATED : REPEATED_BY_SERVER;
  const messages = own ? MESSAGES : MESSAGES.filter(({ method }) => SOME.has(method) || method === 'tools/call');
  let app: TestApp;
  beforeAll(async () => {
    const endpoint = own
      ? [McpStreamableModule.forRoot({ serverInfo }), McpTasksModule.forRoot(), McpSkillsModule.forRoot()]
      : [McpStreamableModule.forRoot({ serverInfo, server: sdkServer })];
    const others = [
      McpStreamableModule.forRoot({ serverInfo, name: 'old', path: 'old', eras: 'legacy' }),
      McpStreamableModule.forRoot({ serverInfo, name: 'new', path: 'new', eras: 'modern' }),
      McpStreamableModule.forRoot({ serverInfo, name: 'off', path: 'off', sessions: 'off' }),
    ];
    app = await TestApp.of('fastify', {
      imports: [...endpoint, ...others],
      providers: own ? [Shop, Plugins] : [],
    });
  });
  afterAll(() => app.shutDown());

  /** Sends a message of revision 2026-07-28 with the headers that fit it. */
  const modern = (url: string) => (message: unknown) => {
    const { method, params } = (isMessage(message) ? message : {}) as Partial<Message>;
    const named = params?.['name'] ?? params?.['uri'] ?? params?.['taskId'];
    return new ModernClient(url).post(isMessage(message) ? { ...message, id: 1 } : JSON.stringify(message), {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MODERN,
      'mcp-method': typeof method === 'string' ? method : 'tools/call',
      'mcp-param-region': 'eu',
      ...(typeof named === 'string' && { 'mcp-name': named }),
    });
  };

  it('D35: errors repeat no long text of a request of revision 2026-07-28', async () => {
    const _meta = { ...modernMeta(), 'io.modelcontextprotocol/clientCapabilities': CAPABILITIES };
    const whole = { jsonrpc: '2.0', method: 'tools/list', params: { _meta } };
    expect(await told(repeated, [whole], modern(app.url))).toEqual([]);
    const post = modern(app.url);
    const withMeta = (message: unknown): unknown =>
      isMessage(message) && isMessage(message.params)
        ? { jsonrpc: '2.0', ...message, params: { ...message.params, _meta } }
        : message;
    expect(await told(repeated, messages, (message) => post(withMeta(message)))).toEqual([]);
    for (const path of ['old', 'off']) expect(await told(repeated, [whole], modern(`${app.base}/${path}`))).toEqual([]);
  });

  it('D35: errors repeat no long text of a request in a session', async () => {
    const client = await app.client().initialize(LATEST, CAPABILITIES);
    let id = 0;
    const post = (message: unknown): Promise<RawResponse> =>
      client.post(isMessage(message) ? { jsonrpc: '2.0', id: ++id, ...message } : JSON.stringify(message));
    expect(await told(repeated, messages, post)).toEqual([]);
  });

  it.runIf(own)('D35: errors repeat no long text of an answer to a question', async () => {
    const client = await app.client().initialize(LATEST, CAPABILITIES);
    for (const result of [
      { action: LONG },
      { action: 'accept', content: { [LONG]: {} } },
      { action: { [LONG]: LONG } },
    ]) {
      const stream = await (await client.call('ask')).sse().count(1);
      await client.respond(stream.messages[0].id, result);
      await stream.end();
      const text = JSON.stringify(stream.messages.at(-1));
      expect(text).toMatch(REFUSED);
      expect(text).not.toMatch(repeated);
    }
  });

  it('D35: errors repeat no long text of a request without a session', async () => {
    for (const path of ['mcp', 'new', 'off']) {
      const client = app.clientAt(path);
      const post = (message: unknown): Promise<RawResponse> => client.post(message);
      const some = MESSAGES.filter(({ method }) => SOME.has(method));
      const whole = some.map((message) => ({ jsonrpc: '2.0', id: 1, ...message }));
      expect(await told(repeated, whole, post)).toEqual([]);
    }
  });

  it('D35: errors repeat no long header', async () => {
    const client = await app.client().initialize(LATEST);
    for (const header of HEADERS.split(' ')) {
      const headers = { [header]: LONG };
      const responses = [
        await client.post(client.toolCall('nothing'), headers),
        await client.post('5', headers),
        await client.get(undefined, headers),
        await client.delete(header === 'mcp-session-id' ? headers : { ...headers, 'mcp-session-id': 'none' }),
        await app.modern().request('tools/call', { name: 'route', arguments: { region: 'eu' } }, { headers }),
      ];
      for (const response of responses) {
        const text = response.status < 300 ? '' : await response.text();
        response.destroy();
        expect(text + JSON.stringify(response.headers)).not.toMatch(repeated);
      }
    }
  });

  it('D35: errors in the log repeat no long text', () => {
    expect(app.log.texts().filter((line) => repeated.test(line))).toEqual([]);
  });
});

function sdkServer(): McpServer {
  const server = new McpServer(serverInfo, { capabilities: { logging: {} } });
  server.registerTool('order', { inputSchema: z.object({ id: z.string() }) }, () => ({ content: [] }));
  server.registerPrompt('greet', { argsSchema: z.object({ who: z.string() }) }, () => ({ messages: [] }));
  server.registerResource('terms', 'orders://terms', {}, () => ({ contents: [] }));
  server.registerResource('order', new SdkTemplate('orders://{id}', { list: undefined }), {}, () => ({ contents: [] }));
  return server;
}
