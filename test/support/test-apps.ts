import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { McpRegistry, type McpSessionEvent } from 'nestjs-mcp-streamable';
import { afterAll, afterEach } from 'vitest';
import { TestApp, type Adapter, type TestAppOptions } from './app.js';
import { trustingGuard } from './users.js';
import { loneFetch } from './ways.js';

export { eventually } from './eventually.js';

export interface TestAppsOptions extends Partial<TestAppOptions> {
  /** Tests that ask for no options have one app together: see `sharedApp`. Their handlers must not remember. @default false */
  shared?: boolean;
}

/**
 * Starts apps; each is closed after its test, and must have left nothing behind. A guard of the route believes who calls:
 * `as(user, token)` becomes `request.user`. Providers of `defaults` come before those of a test.
 */
export function testApps(
  adapter: Adapter,
  { shared = false, ...defaults }: TestAppsOptions = {},
): (options?: Partial<TestAppOptions>) => Promise<TestApp> {
  const started: TestApp[] = [];
  afterEach(async () => {
    for (const app of started.splice(0)) {
      await app.close();
      app.log.release();
    }
  });
  const start = (options: Partial<TestAppOptions>): Promise<TestApp> => {
    const providers = [...(defaults.providers ?? []), ...(options.providers ?? [])];
    return TestApp.start({ adapter, guards: [trustingGuard], ...defaults, ...options, providers });
  };
  const together = shared && sharedApp(() => start({}));
  return async (options) => {
    if (together && options === undefined) return together();
    const app = await start(options ?? {});
    started.push(app);
    return app;
  };
}

/**
 * One app for the tests of a block, started by the first that asks for it: starting takes longer than most tests. After each
 * test nothing may be left of it, after the last one nothing of the app.
 */
export function sharedApp(start: () => Promise<TestApp>): () => Promise<TestApp> {
  let app: Promise<TestApp> | undefined;
  afterEach(async () => (await app)?.expectNothingLeft());
  afterAll(async () => (await app)?.stop());
  return async () => {
    const its = await (app ??= start());
    its.log.lines.length = 0;
    its.log.attach();
    return its;
  };
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
