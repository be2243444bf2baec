import type { Provider } from '@nestjs/common';
import { ApplicationConfig, ModuleRef } from '@nestjs/core';
import { Clock } from './common/clock.js';
import { HANDLER_OPTIONS, type ResolvedHandlerOptions } from './handlers/handlers.options.js';
import { ENDPOINT_NAME, type EndpointName } from './mcp-streamable.endpoint-name.js';
import type { CachePolicy } from './methods/cache-hints.js';
import { SESSION_ROOM, type SessionRoom } from './session/session-room.js';
import { SESSION_OPTIONS, type ResolvedSessionOptions } from './session/session.options.js';
import { McpStateStore } from './state/state-store.js';
import { STATE_OPTIONS, type ResolvedStateOptions } from './state/state.options.js';
import { StoredStates } from './state/stored-states.js';

/** The injection token of the {@link CachePolicy}. */
export const CACHE_POLICY = Symbol('nestjs-mcp-streamable:cache-policy');

/** What callers without a session have instead of one: state that outlives their calls, and what they may keep themselves. */
export function stateProviders(): Provider[] {
  return [
    {
      provide: StoredStates,
      useFactory: (
        store: McpStateStore,
        options: ResolvedStateOptions,
        { idleTimeoutMs: ttlMs }: ResolvedSessionOptions,
        { name, path }: EndpointName,
        ...[clock, module]: [Clock, ModuleRef]
      ) => {
        // The path of one endpoint may be the name of another.
        const endpoint = name === undefined ? `path.${encodeURIComponent(path)}` : `name.${encodeURIComponent(name)}`;
        const fault = (error: unknown): void => {
          const { environment } = module.get<SessionRoom>(SESSION_ROOM);
          environment.event({ type: 'store-fault', sessionId: '', streamId: '', fatal: false, error });
        };
        return new StoredStates(store, clock, { ...options, endpoint, ttlMs }, fault);
      },
      inject: [McpStateStore, STATE_OPTIONS, SESSION_OPTIONS, ENDPOINT_NAME, Clock, ModuleRef],
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
