import type { Provider } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { Clock } from './common/clock.js';
import { HANDLER_OPTIONS, type ResolvedHandlerOptions } from './handlers/handlers.options.js';
import { ENDPOINT_NAME, type EndpointName } from './mcp-streamable.endpoint-name.js';
import type { CachePolicy } from './methods/cache-hints.js';
import { SESSION_OPTIONS, type ResolvedSessionOptions } from './session/session.options.js';
import { McpSessionStore } from './session/session-store.js';
import { StoredStates } from './session/stored-states.js';

/** The injection token of the {@link CachePolicy}. */
export const CACHE_POLICY = Symbol('nestjs-mcp-streamable:cache-policy');

/** What callers without a session have instead of one: state that outlives their calls, and what they may keep themselves. */
export function stateProviders(): Provider[] {
  return [
    {
      provide: StoredStates,
      useFactory: (
        store: McpSessionStore,
        limits: ResolvedSessionOptions,
        { name, path }: EndpointName,
        clock: Clock,
      ) => {
        const { idleTimeoutMs, maxStateBytes } = limits;
        // The path of one endpoint may be the name of another.
        const endpoint = name === undefined ? `path ${path}` : `name ${name}`;
        return new StoredStates({ store, clock, endpoint, limits, idleTimeoutMs, maxStateBytes });
      },
      inject: [McpSessionStore, SESSION_OPTIONS, ENDPOINT_NAME, Clock],
    },
    {
      provide: CACHE_POLICY,
      useFactory: (
        { listCache }: ResolvedHandlerOptions,
        { guarded }: EndpointName,
        app: ApplicationConfig,
      ): CachePolicy => ({
        list: listCache,
        guarded: () => guarded || app.getGlobalGuards().length > 0 || app.getGlobalRequestGuards().length > 0,
      }),
      inject: [HANDLER_OPTIONS, ENDPOINT_NAME, ApplicationConfig],
    },
  ];
}
