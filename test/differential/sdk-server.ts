import {
  completable,
  createMcpHandler,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  McpServer,
  ProtocolError,
  ResourceNotFoundError,
  ResourceTemplate,
  specTypeSchemas,
  WebStandardStreamableHTTPServerTransport,
  type CallToolResult,
  type InputRequiredResult,
  type McpHttpHandler,
  type ServerContext,
  type StandardSchemaV1Sync,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import * as served from './served.js';

type Args = Record<string, unknown>;
type Asked = keyof typeof served.QUESTIONS;
/** What the asking tools keep between the rounds. */
type Kept = { answers: Args } | { own: string };

const codec = createRequestStateCodec<Kept>({ key: 'differential test'.padEnd(32, '.') });

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/** Once for all servers: a schema can be made completable only once. */
const CompletedGreeting = served.Greeting.extend({ name: completable(z.string(), served.completed) });

/** The SDK's own endpoint of the modern era, over handlers that do what ours do. */
export function sdkHandler(): McpHttpHandler {
  return createMcpHandler(sdkServer, { legacy: 'reject' });
}

/** A server of the SDK per session, each behind the SDK's own transport of the legacy era. */
export function sdkSessions(): (request: Request) => Promise<Response> {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  return async (request) => {
    const known = sessions.get(request.headers.get('mcp-session-id') ?? '');
    if (known) return known.handleRequest(request);
    const transport: WebStandardStreamableHTTPServerTransport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await sdkServer().connect(transport);
    return transport.handleRequest(request);
  };
}

function sdkServer(): McpServer {
  const server = new McpServer(served.SERVER_INFO, {
    capabilities: {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      completions: {},
      logging: {},
    },
    requestState: { verify: codec.verify },
  });
  registerTools(server);
  registerResources(server);
  registerTables(server);
  registerPrompts(server);
  registerSubscriptions(server);
  return server;
}

/** A schema is compiled once: a second one with the same "$id" would be refused. */
const ANY_TOOLS = served.ANY_TOOLS.map((tool) => ({ ...tool, outputSchema: fromJsonSchema(tool.schema) }));

function registerTables(server: McpServer): void {
  for (const [name, result] of Object.entries(served.RESULTS)) {
    server.registerTool(name, { description: `The tool ${name}` }, () => result);
  }
  for (const { name, outputSchema, result } of ANY_TOOLS) server.registerTool(name, { outputSchema }, () => result);
  for (const [name, rounds] of Object.entries(served.ASKING)) {
    server.registerTool(name, {}, (ctx) => ask(ctx, rounds));
  }
  for (const [uri, result] of Object.entries(served.CONTENTS)) {
    server.registerResource(uri, uri, { description: `The resource ${uri}` }, () => result);
  }
}

function registerTools(server: McpServer): void {
  const echo = (args: unknown): CallToolResult => served.echoed(args);
  const { Numbers: inputSchema, Sum: outputSchema } = served;
  server.registerTool('add', { title: 'Adds', description: 'Adds two numbers', inputSchema }, ({ a, b }) =>
    served.said(String(a + b)),
  );
  server.registerTool('strict', { inputSchema: served.Strict, annotations: { readOnlyHint: true } }, echo);
  server.registerTool('optional', { inputSchema: served.Optional, _meta: { 'example.com/y': [1] } }, echo);
  server.registerTool('dialect', { inputSchema: fromJsonSchema(served.DIALECT) }, echo);
  server.registerTool('headers', { inputSchema: fromJsonSchema(served.HEADERS) }, echo);
  server.registerTool('sum', { inputSchema, outputSchema }, ({ a, b }) => ({
    ...served.said(`sum ${a + b}`),
    structuredContent: { sum: a + b },
  }));
  server.registerTool('wrong_sum', { outputSchema }, () => ({
    ...served.said('wrong'),
    structuredContent: { sum: 'many' },
  }));
  server.registerTool('no_sum', { outputSchema }, () => served.said('none'));
  server.registerTool('failed_sum', { outputSchema }, () => ({ ...served.said('no sum today'), isError: true }));
  server.registerTool('throws', {}, () => {
    throw new Error('internal detail');
  });
  server.registerTool('throws_protocol', {}, () => {
    throw new ProtocolError(-32602, 'not like this', { why: 'example' });
  });
  server.registerTool('not_a_result', {}, () => ({ content: [{ type: 'nothing' }] }) as never);
  server.registerTool('half_a_result', {}, () => {
    return { content: [{ type: 'image', data: 'not base64!', mimeType: 'image/png' }], _meta: 1 } as never;
  });
  server.registerTool('client', {}, ({ mcpReq: { envelope } }) =>
    echo((envelope as Args | undefined)?.[CAPABILITIES] ?? server.server.getClientCapabilities()),
  );
  registerTalking(server);
}

function registerTalking(server: McpServer): void {
  server.registerTool('steps', {}, async (ctx) => {
    await progress(ctx, { progress: 1, total: 2 });
    await progress(ctx, { progress: 2, total: 2, message: 'half' });
    return served.said('stepped');
  });
  server.registerTool('talks', {}, async ({ mcpReq }) => {
    await mcpReq.log('debug', 'a detail');
    await mcpReq.log('warning', { code: 1 }, 'talker');
    return served.said('talked');
  });
  server.registerTool('keeps', {}, async ({ mcpReq }) => {
    const kept = mcpReq.requestState<{ own: string }>();
    if (kept === undefined) return inputRequired({ requestState: await codec.mint({ own: 'kept' }) });
    return served.said(`it was ${kept.own}`);
  });
  server.registerTool('returned', {}, ({ mcpReq }) => served.returned(mcpReq.inputResponses));
  server.registerTool('throws_page', {}, () => {
    throw served.THROWN['throws_page']!();
  });
  server.registerTool('no_content', {}, () => ({ structuredContent: { seen: true } }) as never);
  server.registerTool('talks_and_asks', {}, async (ctx) => {
    await progress(ctx, { progress: 1 });
    return ask(ctx, [['name']]);
  });
}

function registerResources(server: McpServer): void {
  server.registerResource('fails', 'app://fails', {}, () => {
    throw new Error('internal detail');
  });
  const cacheHint = { ttlMs: 5000, cacheScope: 'public' as const };
  server.registerResource('cached', 'app://cached', { mimeType: 'text/plain', cacheHint }, () => ({
    contents: [{ uri: 'app://cached', mimeType: 'text/plain', text: 'cached' }],
  }));
  const items = new ResourceTemplate('app://items/{id}', { list: undefined, complete: { id: served.manyCompleted } });
  const described = { title: 'Items', mimeType: 'application/json' };
  server.registerResource('items', items, described, ({ href }, { id }) => served.itemContents(href, String(id)));
  const asked = new ResourceTemplate('app://asked/{id}', { list: undefined });
  server.registerResource('asked', asked, {}, async ({ href }, { id }, ctx) => {
    const { missing } = await answersOf(ctx, [['name']]);
    return missing ?? served.itemContents(href, String(id));
  });
}

/** What McpServer leaves to its user. */
function registerSubscriptions({ server }: McpServer): void {
  const exists = (uri: string) => Object.hasOwn(served.CONTENTS, uri) || uri.startsWith('app://items/');
  server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => {
    if (!exists(uri)) throw new ResourceNotFoundError(uri);
    return {};
  });
  server.setRequestHandler('resources/unsubscribe', () => ({}));
}

function registerPrompts(server: McpServer): void {
  server.registerPrompt('simple', { description: 'A simple prompt' }, () => served.SIMPLE_PROMPT);
  server.registerPrompt('greet', { title: 'Greets', argsSchema: CompletedGreeting }, (args) => served.greeting(args));
  server.registerPrompt('fails', {}, () => {
    throw new Error('internal detail');
  });
  server.registerPrompt('ask_prompt', {}, async (ctx) => {
    const { answers, missing } = await answersOf(ctx, [['name']]);
    if (missing) return missing;
    return { messages: [{ role: 'user', content: served.text(JSON.stringify(answers['name'])) }] };
  });
  for (const [name, error] of Object.entries(served.THROWN)) {
    server.registerPrompt(name, {}, () => {
      throw error();
    });
  }
}

async function progress({ mcpReq }: ServerContext, report: { progress: number; total?: number; message?: string }) {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...report } });
}

async function ask(
  ctx: ServerContext,
  rounds: readonly (readonly Asked[])[],
): Promise<CallToolResult | InputRequiredResult> {
  const { answers, missing } = await answersOf(ctx, rounds);
  return missing ?? served.echoed(answers);
}

/** What `ctx.ask()` of ours does, as the SDK's examples write it by hand. */
async function answersOf({ mcpReq }: ServerContext, rounds: readonly (readonly Asked[])[]) {
  const kept = mcpReq.requestState<{ answers: Args }>()?.answers ?? {};
  const answers: Args = {};
  if (mcpReq.envelope === undefined) {
    for (const keys of rounds) Object.assign(answers, await askedAtOnce(mcpReq, keys));
    return { answers, missing: undefined };
  }
  for (const keys of rounds) {
    const open = keys.filter((key) => {
      answers[key] = kept[key] ?? acceptable(key, mcpReq.inputResponses);
      return answers[key] === undefined;
    });
    if (open.length === 0) continue;
    const inputRequests = Object.fromEntries(open.map((key) => [key, served.QUESTIONS[key]]));
    const missing = inputRequired({ inputRequests, requestState: await codec.mint({ answers }) });
    return { answers, missing };
  }
  return { answers, missing: undefined };
}

/** In the legacy era handlers wait for the answer. */
async function askedAtOnce(mcpReq: ServerContext['mcpReq'], keys: readonly Asked[]): Promise<Args> {
  const options = { relatedRequestId: mcpReq.id };
  const answers = keys.map(async (key) => {
    const { method, params } = served.QUESTIONS[key] as { method: string; params: never };
    const asked = key === 'page' ? { ...(params as object), elicitationId: crypto.randomUUID() } : params;
    if (method === 'elicitation/create') return [key, await mcpReq.elicitInput(asked as never, options)];
    if (method === 'sampling/createMessage') return [key, await mcpReq.requestSampling(params, options)];
    return [key, await mcpReq.send({ method: 'roots/list', params: {} })];
  });
  return Object.fromEntries(await Promise.all(answers)) as Args;
}

function acceptable(key: Asked, responses: ServerContext['mcpReq']['inputResponses']): unknown {
  const answer: unknown = responses?.[key];
  if (key === 'capital') return valid(specTypeSchemas.CreateMessageResult, answer);
  if (key === 'roots') return valid(specTypeSchemas.ListRootsResult, answer);
  const result = valid(specTypeSchemas.ElicitResult, answer);
  if (result?.action !== 'accept' || key === 'page') return result;
  return typeof result.content?.[key] === 'string' ? result : undefined;
}

function valid<T>(schema: StandardSchemaV1Sync<unknown, T>, value: unknown): T | undefined {
  const outcome = schema['~standard'].validate(value);
  return outcome.issues ? undefined : outcome.value;
}
