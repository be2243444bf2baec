import { setImmediate as nextTurn } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { McpRegistry, type McpSessionEvent } from 'nestjs-mcp-streamable';
import { afterAll, afterEach } from 'vitest';
import { TestApp, type Adapter, type TestAppOptions, type TestTool } from './app.js';
import { KINDS } from './kinds.js';
import { trustingGuard } from './users.js';
import { loneFetch } from './ways.js';

export { eventually } from './eventually.js';

/** Two nodes share what they hold: what a test leaves in one of them the other may learn later. */
const SPREAD = process.env['NODES'] !== undefined;

export interface TestAppsOptions extends Partial<TestAppOptions> {
  /**
   * Tests that ask for the same options have one app together, one after the other; tools, and what a test registers, are there for
   * that test alone. Decorated handlers must not remember. Functions, and instances of classes such as clocks, are the same only if
   * they are one.
   *
   * @default false
   */
  shared?: boolean;
}

/**
 * Starts apps; each is closed after its test, or after the last one, and must have left nothing behind after each. A guard of the
 * route believes who calls: `as(user, token)` becomes `request.user`. Providers of `defaults` come before those of a test.
 */
export function testApps(
  adapter: Adapter,
  { shared = false, ...defaults }: TestAppsOptions = {},
): (options?: Partial<TestAppOptions>) => Promise<TestApp> {
  const started: TestApp[] = [];
  const kept: KeptApp[] = [];
  afterEach(async () => {
    for (const app of started.splice(0)) {
      await app.close();
      app.log.release();
    }
    for (const its of kept) await its.clear();
  });
  afterAll(async () => {
    for (const its of kept.splice(0)) await its.stop();
  });
  const start = (options: Partial<TestAppOptions>): Promise<TestApp> => {
    const providers = [...(defaults.providers ?? []), ...(options.providers ?? [])];
    return TestApp.start({ adapter, guards: [trustingGuard], ...defaults, ...options, providers });
  };
  const keep = (options: Partial<TestAppOptions>): KeptApp => {
    const free = kept.find((its) => !its.used && isSame(its.options, options));
    if (free) return free;
    const its = new KeptApp(() => start({ ...options, tools: {} }), options);
    kept.push(its);
    return its;
  };
  return async (options = {}) => {
    const { tools = defaults.tools ?? {}, ...others } = options;
    if (shared && !SPREAD) {
      const app = await keep(others).use();
      await registerTools(app, tools);
      return app;
    }
    const app = await start(options);
    started.push(app);
    return app;
  };
}

/**
 * Apps for the tests of a block, each started by the first that asks for it, as `testApps` with `shared` keeps them: the same
 * arguments mean the same app.
 */
export function sharedApp<A extends unknown[]>(
  start: (...args: A) => Promise<TestApp>,
): (...args: A) => Promise<TestApp> {
  const kept: { args: A; app: KeptApp }[] = [];
  afterEach(async () => {
    for (const { app } of kept) await app.clear();
  });
  afterAll(async () => {
    for (const { app } of kept) await app.stop();
  });
  return (...args) => {
    const known = kept.find((each) => isSame(each.args, args));
    if (known) return known.app.use();
    const app = new KeptApp(() => start(...args));
    kept.push({ args, app });
    return app.use();
  };
}

/**
 * An app of several tests: starting takes longer than most tests. After each test that used it nothing may be left of that, after the
 * last one nothing of the app.
 */
class KeptApp {
  #app: Promise<TestApp> | undefined;
  #used = false;

  constructor(
    private readonly start: () => Promise<TestApp>,
    readonly options: Partial<TestAppOptions> = {},
  ) {}

  /** Whether the test that runs has it. */
  get used(): boolean {
    return this.#used;
  }

  async use(): Promise<TestApp> {
    const first = !this.#used;
    this.#used = true;
    this.#app ??= this.start();
    const app = await this.#app.catch((error: unknown) => this.#forget(error));
    if (first) app.log.lines.length = 0;
    app.log.attach();
    return app;
  }

  async clear(): Promise<void> {
    if (!this.#used) return;
    const app = await this.#app!;
    this.#used = false;
    await app.expectNothingLeft().catch((error: unknown) => this.#forget(error));
    // A test may stop it.
    if (app.nodes.some(({ service }) => service['sessions'].closing)) return this.stop();
    for (const { app: node } of app.nodes) {
      const registry = node.get(McpRegistry, { strict: false });
      for (const kind of KINDS)
        for (const { key, origin } of registry.list(kind))
          if (origin.endsWith('(registered at run time)')) registry['table'].remove(kind, key);
    }
  }

  /** Another test gets another one. */
  #forget(error: unknown): never {
    this.#app = undefined;
    this.#used = false;
    throw error;
  }

  async stop(): Promise<void> {
    const app = this.#app;
    this.#app = undefined;
    await (await app)?.stop();
  }
}

/** Whether two options mean the same: data that is equal, or one and the same function or instance of a class. */
export function isSame(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (!isPlain(one) || !isPlain(other)) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => key in other && isSame(one[key], other[key]));
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(value) as object | null);
}

/** Registers functions of a test as tools, which `tools` makes decorated methods of in an app of its own. */
async function registerTools({ nodes }: TestApp, tools: Readonly<Record<string, TestTool>>): Promise<void> {
  for (const { app, service } of nodes)
    for (const [name, tool] of Object.entries(tools))
      app.get(McpRegistry, { strict: false }).registerTool({
        name,
        description: name,
        inputSchema: { type: 'object' },
        handler: async (args, ctx) => (await tool(args, ctx, service)) ?? 'done',
      });
  // The change of the list is announced before the first client comes.
  await nextTurn();
}

/** Everything that happens to the sessions of an app from now on; not that its nodes follow each other. */
export function recordedEvents(app: TestApp): McpSessionEvent[] {
  const events: McpSessionEvent[] = [];
  for (const { service } of app.nodes) {
    service.events$.subscribe((event) => {
      const follows = event.type === 'rebuilt' || (event.type === 'closed' && event.reason === 'ended-elsewhere');
      if (app.nodes.length === 1 || !follows) events.push(event);
    });
  }
  return events;
}

/** Connects official clients; each is closed after its test. Call it after `testApps`, so that they go first. */
export function officialClients(): (app: TestApp, headers?: Record<string, string>) => Promise<Client> {
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  return async (app, headers = {}) => {
    const client = new Client({ name: 'official', version: '1.0.0' });
    clients.push(client);
    const options = { requestInit: { headers }, fetch: loneFetch };
    await client.connect(new StreamableHTTPClientTransport(new URL(app.url), options));
    return client;
  };
}

/** Of several nodes all: what is registered is registered on each. */
export function registryOf({ nodes }: TestApp): McpRegistry {
  return onEach(nodes.map(({ app }) => app.get(McpRegistry, { strict: false })));
}

/** One object that stands for the same one of each node: what is called is called on all, what is read is the first's. */
export function onEach<T extends object>(all: readonly T[]): T {
  const [first] = all;
  if (all.length === 1) return first!;
  return new Proxy(first!, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        const results = all.map((one) => (Reflect.get(one, key) as (...args: unknown[]) => unknown).apply(one, args));
        if (results.every((result) => result instanceof Promise))
          return Promise.all(results).then(([result]) => result);
        return typeof results[0] === 'object' && results[0] !== null ? onEach(results as object[]) : results[0];
      };
    },
  });
}
