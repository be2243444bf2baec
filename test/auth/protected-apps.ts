import type { McpAuthOptions } from 'nestjs-mcp-streamable/auth';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { Adapter, TestApp } from '../support/app.js';
import { AuthorizationServer, type AuthorizationServerOptions, type Claims } from '../support/authorization-server.js';
import { testApps, type TestAppsOptions } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { RawClient } from '../support/raw-client.js';
import { loneFetch } from '../support/ways.js';

/** The endpoint as its clients know it: tests have it at a port of its own. */
export const RESOURCE = 'https://mcp.test/mcp';
export const METADATA_URL = 'https://mcp.test/.well-known/oauth-protected-resource/mcp';

export type Era = 'legacy' | 'modern';
export const ERAS: readonly Era[] = ['legacy', 'modern'];

type ProtectedAppOptions = Omit<TestAppsOptions, 'auth'> & { auth?: Partial<McpAuthOptions> };

/** An authorization server for the tests of a file. */
export function authorizationServer(options?: AuthorizationServerOptions): () => AuthorizationServer {
  let server: AuthorizationServer | undefined;
  beforeAll(async () => {
    server = await AuthorizationServer.start(options);
  });
  afterAll(() => server?.close());
  return () => server!;
}

/** Starts apps whose endpoint wants tokens of that server. */
export function protectedApps(
  adapter: Adapter,
  idp: () => AuthorizationServer,
  defaults: ProtectedAppOptions = {},
): (options?: ProtectedAppOptions) => Promise<TestApp> {
  const { auth: usual, ...others } = defaults;
  const start = testApps(adapter, { guards: [], shared: true, ...others });
  return (given = {}) => {
    const { auth, ...options } = given;
    if ('auth' in given && auth === undefined) return start(options);
    const servers = { resource: RESOURCE, authorizationServers: [idp().issuer] };
    return start({ ...options, auth: { ...servers, ...usual, ...auth } });
  };
}

/** The header of a caller with these scopes. */
export async function bearer(idp: AuthorizationServer, scope = '', claims: Claims = {}) {
  return { authorization: `Bearer ${await idp.token({ aud: RESOURCE, scope, ...claims })}` };
}

/** A request of some era: `ping` where there are sessions needs none, `initialize` is what makes one. */
export function knocker(app: { url: string }, era: Era) {
  const legacy = new RawClient(app.url);
  const modern = new ModernClient(app.url);
  return (headers: Record<string, string> = {}) =>
    era === 'legacy' ? legacy.post(legacy.initializeMessage(), headers) : modern.request('tools/list', {}, { headers });
}

/** What a client of some era asks for, with a session where there is one. */
export async function asker(app: { url: string }, era: Era, headers: Record<string, string>) {
  if (era === 'modern') {
    const client = new ModernClient(app.url, headers);
    return {
      request: (method: string, params: Record<string, unknown> = {}, more: Record<string, string> = {}) =>
        client.request(method, params, { headers: more }),
    };
  }
  const client = await new RawClient(app.url, headers).initialize();
  return {
    request: (method: string, params: Record<string, unknown> = {}, more: Record<string, string> = {}) =>
      client.post({ jsonrpc: '2.0', id: client.nextId(), method, params }, more),
  };
}

/** The parameters of `WWW-Authenticate: Bearer …`. */
export function challengeIn(response: { header(name: string): string | undefined }): Record<string, string> {
  const value = response.header('www-authenticate') ?? '';
  if (!value.startsWith('Bearer')) throw new Error(`There is no Bearer challenge: "${value}".`);
  return Object.fromEntries([...value.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, text]) => [name!, text!]));
}

/** The network of a client that knows the endpoint as `https://mcp.test`. @param moved paths that a proxy has other names for */
export function fetchThrough(app: () => { url: string }, moved: Readonly<Record<string, string>> = {}): typeof fetch {
  return ((input: string | URL, init?: RequestInit) => {
    const url = new URL(input);
    if (url.hostname !== 'mcp.test') return loneFetch(url, init);
    const path = moved[url.pathname] ?? url.pathname;
    return loneFetch(new URL(app().url).origin + path + url.search, init);
  }) as typeof fetch;
}

/** Closes what was opened, after each test. */
export function closing<T extends { close(): Promise<unknown> }>(): (one: T) => T {
  const open: T[] = [];
  afterEach(async () => {
    for (const each of open.splice(0)) await each.close();
  });
  return (one) => {
    open.push(one);
    return one;
  };
}
