import type { AuthInfo } from '@modelcontextprotocol/server';
import { type CanActivate, createParamDecorator, type ExecutionContext, UseGuards } from '@nestjs/common';
import { authOf } from '../context/mcp-call.js';
import { McpExecutionContext } from '../context/mcp-execution-context.js';
import { challengeOf, resourceServerOf } from './resource-server.js';
import { isScope, ScopeRules } from './scopes.js';
import { InsufficientScopeError } from './token.errors.js';

/** @publicApi */
export interface RequireScopesOptions {
  /**
   * Whether lists show the handler to callers that lack the scopes, so that their clients can ask for more.
   *
   * @default false
   */
  listed?: boolean;
}

/** What one decorator says. */
interface Requirement {
  readonly scopes: readonly string[];
  readonly listed: boolean;
}

const REQUIREMENTS = 'nestjs-mcp-streamable:scopes';

/**
 * Lets only callers call a handler whose access token has these scopes, all of them: on a method, or a class for all of its
 * handlers. Decorators add up. A caller with fewer is told what the handler needs, by 403 and a challenge, and lists leave the
 * handler out.
 *
 * ```ts
 * @Tool({ name: 'delete_note', inputSchema: noteId })
 * @RequireScopes('notes:write')
 * remove(@McpArgs() { id }: z.infer<typeof noteId>) { … }
 * ```
 *
 * The scopes are those of `request.auth`: of the option `auth`, or of a guard of your own that leaves an `AuthInfo` there.
 *
 * @throws TypeError for a text that is no scope, and for `offline_access`
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
 * Asks for all scopes that class and method need, so that the client learns of them at once. An object without dependencies:
 * what belongs to the endpoint comes with the request.
 */
const scopesGuard: CanActivate = {
  canActivate(context: ExecutionContext): true {
    const request = context.switchToHttp().getRequest<object | undefined>();
    const server = resourceServerOf(request);
    const rules = server?.options.scopes ?? NO_RULES;
    const auth = authOf(request);
    const requirements = [context.getClass(), context.getHandler()].flatMap(requirementsOf);
    const missed = requirements.filter(({ scopes }) => !auth || !rules.cover(auth.scopes, scopes));
    if (missed.length === 0) return true;
    // While a list is made this throws, and so leaves the decision to other guards.
    if (missed.every(({ listed }) => listed) && McpExecutionContext.isMcp(context)) {
      McpExecutionContext.create(context).getArgs();
    }
    const needed = requirements.flatMap(({ scopes }) => scopes);
    const all = rules.all(needed);
    const text = `This needs an access token with the scopes: ${all.join(' ')}`;
    const error = auth ? 'insufficient_scope' : undefined;
    const challenge =
      server?.challenge(error, text, needed) ?? challengeOf({ error, description: text, scope: all.join(' ') });
    context.switchToHttp().getResponse<HasHeader>().header('WWW-Authenticate', challenge);
    throw new InsufficientScopeError(auth ? 403 : 401, `${text}.`, all);
  },
};

/** Express' response, Fastify's, and what stands for them around handlers. */
interface HasHeader {
  header(name: string, value: string): unknown;
}

/**
 * Injects the access token of the caller and what it allows, the `AuthInfo` of the MCP SDK: `token`, `clientId`, `scopes`,
 * `expiresAt`, and the claims as `extra`. `undefined` for a caller without a token.
 *
 * @publicApi
 */
export const McpAuth: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext): AuthInfo | undefined => authOf(context.switchToHttp().getRequest()),
);
