import type { AuthInfo } from '@modelcontextprotocol/server';
import { type CanActivate, createParamDecorator, type ExecutionContext, UseGuards } from '@nestjs/common';
import { authOf } from '../core/calls/mcp-call.js';
import { McpExecutionContext } from '../core/calls/mcp-execution-context.js';
import { ASKED_AGAIN, type GuardAskedAgain } from '../core/handlers/invocation/enhancers.js';
import type { ScopesDecorator } from '../core/plugins/scopes.js';
import { challengeOf, resourceServerOf } from './resource-server.js';
import { isScope, ScopeRules } from './scopes.js';
import { McpInsufficientScopeError } from './token.errors.js';

/** @publicApi */
export interface RequireScopesOptions {
  /**
   * Whether lists show the handler to callers that lack the scopes, so that their clients can ask for more.
   *
   * @default false
   */
  listed?: boolean;
}

/** The scopes that one decorator requires. */
interface Requirement {
  readonly scopes: readonly string[];
  readonly listed: boolean;
}

const REQUIREMENTS = 'nestjs-mcp-streamable:scopes';

/**
 * Requires an access token with all of these scopes to call a handler: on a method, or on a class for all of its
 * handlers. Several decorators add up. A caller without them gets 403 and a challenge with the required scopes, and
 * lists omit the handler.
 *
 * ```diff
 * +@Tool({ name: 'delete_note', inputSchema: noteId })
 * +@RequireScopes('notes:write')
 *  remove(@McpArgs() { id }: z.infer<typeof noteId>) { … }
 * ```
 *
 * The scopes are those of `request.auth`: of the option `auth`, or of your own guard that sets an `AuthInfo` there.
 *
 * @throws TypeError for a string that is not a scope, and for `offline_access`
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling
 * @publicApi
 */
export function RequireScopes(...scopes: [string, ...string[]]): ClassDecorator & MethodDecorator;
export function RequireScopes(
  ...scopesAndOptions: [string, ...string[], RequireScopesOptions]
): ClassDecorator & MethodDecorator;
export function RequireScopes(...given: (string | RequireScopesOptions)[]): ClassDecorator & MethodDecorator {
  const last = given.at(-1);
  const { listed = false } = typeof last === 'object' ? last : {};
  const scopes = typeof last === 'object' ? given.slice(0, -1) : given;
  if (scopes.length === 0 || !scopes.every(isScope)) {
    const text = `@RequireScopes() takes scopes, such as "notes:write": printable ASCII without spaces, quotes and backslashes; got ${JSON.stringify(scopes)}.`;
    throw new TypeError(text);
  }
  if (scopes.includes('offline_access')) {
    const text =
      '@RequireScopes() cannot take "offline_access", which a client sends to its authorization server to get a refresh token: it is not a scope of this endpoint.';
    throw new TypeError(text);
  }
  const requirement: Requirement = { scopes: scopes as string[], listed };
  return (target: object, key?: string | symbol, descriptor?: PropertyDescriptor) => {
    const holder = (descriptor?.value ?? target) as object;
    const present = requirementsOf(holder);
    Reflect.defineMetadata(REQUIREMENTS, [...present, requirement], holder);
    if (present.length === 0) UseGuards(scopesGuard)(target, key!, descriptor!);
  };
}

function requirementsOf(holder: object): readonly Requirement[] {
  return (Reflect.getMetadata(REQUIREMENTS, holder) as readonly Requirement[] | undefined) ?? [];
}

const NO_RULES = new ScopeRules([]);

/**
 * Requires the scopes of class and method together, so that the client requests all of them at once. It has no
 * dependencies: the resource server is on the request.
 */
const scopesGuard: CanActivate & GuardAskedAgain = {
  canActivate(context: ExecutionContext): true {
    const http = context.switchToHttp();
    const about = { request: http.getRequest<object | undefined>(), response: http.getResponse<HasHeader>() };
    assertScopes([context.getClass(), context.getHandler()], about, () => {
      // While a list is made this throws, so that other guards decide.
      if (McpExecutionContext.isMcp(context)) McpExecutionContext.create(context).getArgs();
    });
    return true;
  },
  [ASKED_AGAIN](host, handler, { request, response }): void {
    assertScopes([host, handler], { request: request as object | undefined, response: response as HasHeader });
  },
  scopesOf: (host, handler) => [host, handler].flatMap(requirementsOf).flatMap(({ scopes }) => scopes),
};

/**
 * Throws if the caller lacks scopes.
 *
 * @param onListed called before it throws, if lists show the handler all the same
 * @throws McpInsufficientScopeError
 */
function assertScopes(
  holders: readonly object[],
  { request, response }: { readonly request: object | undefined; readonly response: HasHeader },
  onListed?: () => void,
): void {
  const server = resourceServerOf(request);
  const rules = server?.options.scopes ?? NO_RULES;
  const auth = authOf(request);
  const requirements = holders.flatMap(requirementsOf);
  const missed = requirements.filter(({ scopes }) => !auth || !rules.cover(auth.scopes, scopes));
  if (missed.length === 0) return;
  if (missed.every(({ listed }) => listed)) onListed?.();
  const needed = requirements.flatMap(({ scopes }) => scopes);
  const all = rules.all(needed);
  const text = `This needs an access token with the scopes: ${all.join(' ')}`;
  const error = auth ? 'insufficient_scope' : undefined;
  const challenge =
    server?.challenge(error, text, needed) ?? challengeOf({ error, description: text, scope: all.join(' ') });
  response.header('WWW-Authenticate', challenge);
  throw new McpInsufficientScopeError(auth ? 403 : 401, `${text}.`, all);
}

/** Express' response, Fastify's, and the facade around handlers have this method. */
interface HasHeader {
  header(name: string, value: string): unknown;
}

/** Requires scopes that are data. */
export const requireScopesOf: ScopesDecorator = ({ all, listed }) => RequireScopes(...(all as [string]), { listed });

/**
 * Injects the access token of the caller as `AuthInfo` of the MCP SDK: `token`, `clientId`, `scopes`, `expiresAt`, and
 * the claims as `extra`. The value is `undefined` for a caller without a token.
 *
 * @publicApi
 */
export const McpAuth: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext): AuthInfo | undefined => authOf(context.switchToHttp().getRequest()),
);
