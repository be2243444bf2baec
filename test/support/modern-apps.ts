import type { HandlerFunction } from 'nestjs-mcp-streamable';
import type { Adapter, TestApp } from './app.js';
import { handlersApps, registryOf, type HandlersAppOptions } from './handlers-app.js';
import { ForsakenPost } from './hang-up.js';
import { ModernClient, type ModernMessage } from './modern-client.js';

export interface ModernAppOptions extends HandlersAppOptions {
  /** Tools that are functions of the test. */
  handlers?: Readonly<Record<string, HandlerFunction<Record<string, unknown>>>>;
}

export interface ModernApp {
  readonly app: TestApp;
  readonly client: ModernClient;
}

/** Starts apps whose tools are functions of the test; one server serves all of their modern requests. */
export function modernApps(
  adapter: Adapter,
  defaults: HandlersAppOptions = {},
): (options?: ModernAppOptions) => Promise<ModernApp> {
  const start = handlersApps(adapter, defaults);
  return async ({ handlers = {}, ...options } = {}) => {
    const app = await start(options);
    for (const [name, handler] of Object.entries(handlers)) registryOf(app).registerTool({ name, handler });
    return { app, client: new ModernClient(app.url) };
  };
}

/** A message as some support for sessions wants its sender. */
export function senderOf(client: ModernClient, message: ModernMessage): { url: string; usualHeaders: Headers } {
  return { url: client.url, usualHeaders: client.headersOf(message) };
}
type Headers = Record<string, string>;

/** A call whose answer its sender does not wait for. */
export function forsakenCall(client: ModernClient, name: string, options: object = {}): ForsakenPost {
  const message = client.message('tools/call', { name, arguments: {} }, options);
  return new ForsakenPost(senderOf(client, message), message);
}
