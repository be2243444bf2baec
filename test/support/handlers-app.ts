import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Provider } from '@nestjs/common';
import { McpRegistry } from 'nestjs-mcp-streamable';
import { afterEach } from 'vitest';
import { type Adapter, TestApp, type TestAppOptions } from './app.js';
import { loneFetch } from './lone-fetch.js';
import { onEach } from './on-each.js';
import { RecordedLog } from './recorded-log.js';
import { runningApps, sharedApp } from './running-apps.js';
import { trustingGuard } from './users.js';

export interface HandlersAppOptions extends Partial<TestAppOptions> {
  providers?: Provider[];
  /** Tests that ask for no options have one app together: see `sharedApp`. Their handlers must not remember. @default false */
  shared?: boolean;
}

/**
 * Starts apps whose endpoint serves the decorated handlers of their providers, behind a guard of its route that says who
 * calls: `as(user, token)` becomes `request.user`. Each app is closed after its test, and must have left nothing behind.
 */
export function handlersApps(
  adapter: Adapter,
  { providers: always = [], shared = false, ...defaults }: HandlersAppOptions = {},
): (options?: HandlersAppOptions) => Promise<TestApp> {
  afterEach(() => new RecordedLog().release());
  const usual = { server: undefined, guards: [trustingGuard], ...defaults };
  const start = runningApps(adapter, usual);
  const all = ({ providers = [], module = {}, ...options }: HandlersAppOptions = {}): Partial<TestAppOptions> => {
    const provided = [...(module.providers ?? []), ...always, ...providers];
    return { ...options, module: { ...module, providers: provided } };
  };
  const together = sharedApp(() => TestApp.start({ adapter, ...usual, ...all() }));
  return async (options) => {
    const app = shared && options === undefined ? await together() : await start(all(options));
    logs.set(app, new RecordedLog().attach(app.app));
    return app;
  };
}

const logs = new WeakMap<TestApp, RecordedLog>();

/** What the app has logged since it started. */
export function logOf(app: TestApp): RecordedLog {
  return logs.get(app)!;
}

/** Connects official clients; each is closed after its test. Call it after `handlersApps`, so that they go first. */
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
