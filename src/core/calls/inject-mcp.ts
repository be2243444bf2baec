import { Inject, type InjectionToken } from '@nestjs/common';

type McpInjectable<T> = (abstract new (...args: never[]) => T) | symbol;

/**
 * Tokens are symbols, as a minifier may give several classes one name. They are kept per class: a token is asked for
 * often.
 */
const tokens = new WeakMap<WeakKey, Map<string, symbol>>();

/**
 * Returns the injection token of a service or store of an endpoint that has a name, or of a client of `McpClientModule`.
 *
 * ```ts
 * app.get<McpSessionService>(getMcpToken(McpSessionService, 'staff'), { strict: false });
 * ```
 *
 * @param type `McpSessionService`, `McpRegistry`, `McpToolCaller`, `McpConfirmations`, `McpHealthIndicator`, `McpTaskService` or `McpClient`;
 *   or the token of a store: `McpSessionStore`, `McpEventStore` or `McpStateStore`
 * @param name the option `name` of the endpoint, or the key of the client; without it the class itself is the token
 * @publicApi
 */
export function getMcpToken<T>(type: McpInjectable<T>, name?: string): InjectionToken<T> {
  if (name === undefined) return type;
  let named = tokens.get(type);
  if (!named) tokens.set(type, (named = new Map<string, symbol>()));
  let token = named.get(name);
  if (!token) named.set(name, (token = Symbol(`${typeof type === 'symbol' ? type.description : type.name}:${name}`)));
  return token;
}

/** Returns the token under which an endpoint provides a part: by its name, where it does so; else the part itself. */
export function ownToken<T>(part: InjectionToken<T>, name: string | undefined): InjectionToken<T> {
  if (name === undefined || (typeof part !== 'function' && typeof part !== 'symbol')) return part;
  return tokens.get(part)?.get(name) ?? part;
}

/**
 * Injects a service or store of an endpoint that has a name, or a client of `McpClientModule`.
 *
 * ```ts
 * constructor(@InjectMcp(McpSessionService, 'staff') private readonly sessions: McpSessionService) {}
 * ```
 *
 * @param type `McpSessionService`, `McpRegistry`, `McpToolCaller`, `McpConfirmations`, `McpHealthIndicator`, `McpTaskService` or `McpClient`;
 *   or the token of a store: `McpSessionStore`, `McpEventStore` or `McpStateStore`
 * @param name the option `name` of the endpoint, or the key of the client
 * @publicApi
 */
export function InjectMcp(type: McpInjectable<unknown>, name?: string): ReturnType<typeof Inject> {
  return Inject(getMcpToken(type, name));
}
