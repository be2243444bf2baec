// Records what a build of this package leaves in Redis and with its clients, for test/redis/formats.spec.ts:
// `npm run x -- record:formats FOLDER`. The folder is that of a package that is built, or installed, with its dependencies.
// Record the last version before you change a format; from the first release on, record the published package.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const FIXTURE = fileURLToPath(new URL('../test/redis/formats.json', import.meta.url));
const MODERN = '2026-07-28';
const LEGACY = '2025-11-25';
const TASKS = 'io.modelcontextprotocol/tasks';

/**
 * Starts the app whose data are recorded, on any build of the package.
 *
 * @param packages the modules of the build: the main one, `/tasks`, `@nestjs/core` and the Fastify adapter
 * @returns the app, its URL, the registry, and the effects of its tools
 */
export async function startApp({ main, tasks, NestFactory, FastifyAdapter }, backend) {
  class FormatsModule {}
  const endpoint = main.McpStreamableModule.forRoot({
    serverInfo: { name: 'formats', version: '1.0.0' },
    backend,
    requestStateKeys: ['a secret that all nodes of a deployment know'],
    principal: ({ headers }) => headers['x-user'],
    allowedHosts: ['127.0.0.1'],
    sseAfterMs: 20,
    keepAliveMs: 500,
    drainMs: 0,
    doctor: false,
  });
  const module = { module: FormatsModule, imports: [endpoint, tasks.McpTasksModule.forRoot()] };
  const app = await NestFactory.create(module, new FastifyAdapter({ forceCloseConnections: true }), { logger: false });
  await app.init();
  const registry = app.get(main.McpRegistry, { strict: false });
  const effects = [];
  const effect = (text) => {
    effects.push(text);
    return `${text} (${effects.length})`;
  };
  const inputSchema = { type: 'object', properties: { id: { type: 'string' }, more: {} }, required: ['id'] };
  const never = () => new Promise(() => {});
  const ask = (context, message) =>
    context.elicit('sure', { message, requestedSchema: { type: 'object', properties: { text: { type: 'string' } } } });
  const tool = (name, handler, options = {}) => registry.registerTool({ name, inputSchema, handler, ...options });

  tool('greet', ({ id }) => `hello ${id}`);
  tool('pay', ({ id }) => effect(`paid ${id}`), { idempotency: { argument: 'id' } });
  tool('pay slowly', ({ id }) => never(effect(`paid ${id}`)), { idempotency: { argument: 'id' } });
  tool('remove', ({ id }) => effect(`removed ${id}`), { confirm: ({ id }) => `Remove ${id}?` });
  const url = (page) => `https://shop.example/confirm/${page}`;
  tool('archive', ({ id }) => effect(`archived ${id}`), { confirm: { message: 'Archive?', whenUnable: 'url', url } });
  tool('charge', async ({ id }, context) => {
    const charged = await context.once('charge', () => effect(`charged ${id}`));
    const { content } = await ask(context, 'To whom?');
    return `${charged} to ${content?.text}`;
  });
  tool('note', async ({ id, more }, context) => {
    const state = await context.state(more);
    await state.patch({ [id]: true });
    return `${state.handle} ${Object.keys(state.data).toSorted().join()}`;
  });
  tool('remember', async ({ id }, context) => {
    const state = await context.principalState();
    await state.patch({ [id]: true });
    return Object.keys(state.data).toSorted().join();
  });
  tool('report', ({ id }) => `report ${id}`, { task: 'required' });
  tool('interview', async (_, context) => `heard ${(await ask(context, 'What?')).content?.text}`, { task: 'required' });
  tool('work', async ({ id }, context) => {
    await context.progress(1, 2);
    return id === 'never' ? never() : `worked ${id}`;
  });
  await app.listen(0, '127.0.0.1');
  return { app, url: `${await app.getUrl()}/mcp`, registry, effects };
}

/** A client of revision 2026-07-28 that answers what it is asked with what it is given. */
export class Caller {
  #lastId = 0;

  constructor(url, user) {
    this.url = url;
    this.user = user;
  }

  /** Sends a request. @returns the result, or the error of JSON-RPC with the HTTP status */
  async ask(method, params, capabilities = { elicitation: { form: {} }, extensions: { [TASKS]: {} } }) {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientInfo': { name: 'caller', version: '1.0.0' },
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    };
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MODERN,
      'mcp-method': method,
      ...(params.name && { 'mcp-name': params.name }),
      ...(params.taskId && { 'mcp-name': params.taskId }),
      'x-user': this.user,
    };
    const message = { jsonrpc: '2.0', id: ++this.#lastId, method, params: { ...params, _meta } };
    const response = await fetch(this.url, { method: 'POST', headers, body: JSON.stringify(message) });
    const text = await response.text();
    const last = text.startsWith('{')
      ? text
      : text
          .split('\n')
          .findLast((line) => line.startsWith('data: {'))
          ?.slice(6);
    const { result, error } = JSON.parse(last);
    return result ?? { status: response.status, ...error };
  }

  call(name, args, more = {}, capabilities) {
    return this.ask('tools/call', { name, arguments: args, ...more }, capabilities);
  }

  /** Calls a tool. @returns the text of its result, or of the error */
  async text(name, args, more = {}, capabilities) {
    const { content, status, message } = await this.call(name, args, more, capabilities);
    return content?.[0].text ?? `${status} ${message}`;
  }

  /** Calls a tool that asks. @returns what the client holds until it answers: the parameters of the next round */
  async asked(name, args, content = { text: 'Anna' }) {
    const { inputRequests, requestState } = await this.call(name, args);
    const [key] = Object.keys(inputRequests);
    return { requestState, inputResponses: { [key]: { action: 'accept', content } } };
  }

  task(taskId) {
    return this.ask('tasks/get', { taskId });
  }

  /** Waits until a task has a status. @returns the task */
  async taskThat(status, taskId) {
    for (;;) {
      const task = await this.task(taskId);
      if (task.status === status || task.status === undefined) return task;
      await new Promise((then) => setTimeout(then, 20));
    }
  }
}

/** A client of revision 2025-11-25. */
export class SessionCaller {
  #lastId = 0;

  constructor(url, user, id) {
    this.url = url;
    this.user = user;
    this.id = id;
  }

  /** Begins a session. */
  async initialize() {
    this.id = undefined;
    const clientInfo = { name: 'caller', version: '1.0.0' };
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo };
    const response = await this.post({ id: 0, method: 'initialize', params });
    if (response.status !== 200) throw new Error(`initialize: ${response.status} ${await response.text()}`);
    this.id = response.headers.get('mcp-session-id');
    await response.text();
    await (await this.post({ method: 'notifications/initialized' })).text();
    return this;
  }

  post(message) {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    return this.send('POST', { body, headers: { 'content-type': 'application/json' } });
  }

  /** Calls a tool that reports progress. @returns the response, which is a stream */
  work(id) {
    const progressToken = ++this.#lastId;
    const params = { name: 'work', arguments: { id }, _meta: { progressToken } };
    return this.post({ id: progressToken, method: 'tools/call', params });
  }

  send(method, { headers = {}, ...more } = {}) {
    const session = this.id && { 'mcp-session-id': this.id, 'mcp-protocol-version': LEGACY };
    const accept = method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream';
    return fetch(this.url, { method, headers: { accept, 'x-user': this.user, ...session, ...headers }, ...more });
  }
}

/** Reads a response that is a stream until a text comes. @returns what was read */
export async function readUntil(response, text) {
  let read = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    read += decoder.decode(chunk, { stream: true });
    if (read.includes(text)) break;
  }
  return read;
}

/** Leaves data of each kind in Redis. @returns what the clients hold of them */
async function leave({ url, registry }) {
  const anna = new Caller(url, 'anna');
  const asked = await anna.asked('remove', { id: 'r1' });
  const noted = await anna.text('note', { id: 'one' });
  await anna.text('remember', { id: 'one' });
  const link = await anna.text('archive', { id: 'a1' }, {}, {});
  void anna.call('pay slowly', { id: 'p2' }).catch(() => {});
  await registry.disable('greet', { reason: 'Not now.' });
  const session = await new SessionCaller(url, 'anna').initialize();
  await (await session.work('w1')).text();
  const left = await readUntil(await session.work('never'), 'notifications/progress');
  const [report, interview] = await Promise.all(['report', 'interview'].map((name) => anna.call(name, { id: 't1' })));
  const { inputRequests } = await anna.taskThat('input_required', interview.taskId);
  return {
    paid: await anna.text('pay', { id: 'p1', more: { list: [1, 'ü', null], text: 'a\u2028' } }),
    removal: { ...asked, text: await anna.text('remove', { id: 'r1' }, asked) },
    charge: await anna.asked('charge', { id: 'c1' }),
    handle: noted.split(' ')[0],
    page: /confirm\/(\w+)/.exec(link)[1],
    session: session.id,
    lastEventId: /id: (\S+)\ndata: \{/.exec(left)[1],
    report: (await anna.taskThat('completed', report.taskId)).taskId,
    interview: { taskId: interview.taskId, question: Object.keys(inputRequests)[0] },
  };
}

/** Reads all keys as data. */
async function dump(redis) {
  const readers = {
    string: (key) => redis.get(key),
    hash: (key) => redis.hgetall(key),
    set: (key) => redis.smembers(key),
    zset: (key) => redis.zrange(key, 0, -1, 'WITHSCORES'),
    list: (key) => redis.lrange(key, 0, -1),
    stream: (key) => redis.xrange(key, '-', '+'),
  };
  const keys = (await redis.keys('*')).toSorted();
  return Promise.all(
    keys.map(async (key) => {
      const [type, ttl] = await Promise.all([redis.type(key), redis.pttl(key)]);
      return { key, type, ttl, value: await readers[type](key) };
    }),
  );
}

async function record(folder) {
  const needed = createRequire(join(folder, 'package.json'));
  const load = (path) => import(pathToFileURL(join(folder, 'dist', path)));
  const { NestFactory } = needed('@nestjs/core');
  const { FastifyAdapter } = needed('@nestjs/platform-fastify');
  const { Redis } = needed('ioredis');
  const [main, tasks, { redisBackend }] = await Promise.all(['index.js', 'tasks/index.js', 'redis/index.js'].map(load));
  const port = await freePort();
  const server = spawn('redis-server', ['--port', String(port), '--save', ''], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const text of server.stdout) if (String(text).includes('Ready to accept')) break;
  const redis = new Redis(port);
  const started = await startApp(
    { main, tasks, NestFactory, FastifyAdapter },
    redisBackend(`redis://127.0.0.1:${port}`),
  );
  try {
    const held = await leave(started);
    // As it is while the node runs: like a node that is killed now.
    const keys = await dump(redis);
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    return { version, at: Date.now(), held, keys };
  } finally {
    await started.app.close();
    redis.disconnect();
    server.kill();
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((then) => server.once('listening', then));
  const { port } = server.address();
  await new Promise((then) => server.close(then));
  return port;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2];
  if (!folder)
    throw new Error('Name the folder of the package: npm run x -- record:formats node_modules/nestjs-mcp-streamable');
  const recorded = await record(resolve(folder));
  writeFileSync(FIXTURE, `${JSON.stringify(recorded, null, 2)}\n`);
  console.log(`${recorded.keys.length} keys of version ${recorded.version}: ${FIXTURE}`);
  process.exit();
}
