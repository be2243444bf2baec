import { type InjectionToken, Logger, type Provider } from '@nestjs/common';
import { Clock } from './base/clock.js';
import { once } from './base/once.js';
import { check } from './base/option-checks.js';
import { HandlerTable } from './handlers/handler-table.js';
import { HTTP_OPTIONS, type ResolvedHttpOptions } from './http/http.options.js';
import type { McpStreamableOptions } from './mcp-streamable.options.js';
import { HandlerRequests } from './protocol/handlers/handler-requests.js';
import { HandlerServerFactory } from './protocol/handlers/handler-server.factory.js';
import { makeSessionId } from './protocol/legacy/initialization.js';
import { McpEndpoint } from './protocol/mcp-endpoint.js';
import { ModernServers, modernServers } from './protocol/modern/modern-servers.js';
import { Subscriptions } from './protocol/modern/subscriptions.js';
import { protocolMessages } from './protocol/protocol.messages.js';
import { PROTOCOL_OPTIONS, type ResolvedProtocolOptions } from './protocol/protocol.options.js';
import { UserServerFactory } from './protocol/user-server-factory.js';
import { McpServerFactory } from './session/server-factory.js';
import type { McpSessionEvent } from './session/session-events.js';
import { SESSION_ROOM, type SessionRoom } from './session/session-room.js';
import { SESSION_OPTIONS, type ResolvedSessionOptions } from './session/session.options.js';
import { McpSessionStore } from './session/session-store.js';

const logger = new Logger('McpStreamable');

/** `drainMs`, where other nodes go on with the sessions. */
const DEFAULT_DRAIN_MS = 10_000;

function report(error: unknown): void {
  logger.error(error instanceof Error ? error.message : error, (error as Error)?.stack);
}

/** What comes too late in the era without sessions is dropped, and an event all the same (behaviour P8). */
function lateOfNoSession(method: string | undefined): McpSessionEvent {
  return { type: 'late-message', sessionId: '', method, requestId: undefined, disposition: 'dropped' };
}

/** What an endpoint speaks: servers, and what serves the requests of each era by them. */
export function protocolProviders(options: InjectionToken): Provider[] {
  return [
    {
      provide: McpServerFactory,
      useFactory: ({ server, serverInfo, instructions }: McpStreamableOptions, requests: HandlerRequests) => {
        check.text('serverInfo.name', serverInfo?.name);
        check.text('serverInfo.version', serverInfo?.version);
        // An empty text, as it comes from an environment variable, says nothing and is no mistake.
        if (instructions !== undefined && instructions !== '') check.text('instructions', instructions);
        const make = check.fn('server', server);
        return make ? new UserServerFactory(make) : new HandlerServerFactory(serverInfo, instructions, requests);
      },
      inject: [options, HandlerRequests],
    },
    {
      provide: ModernServers,
      useFactory: (factory: McpServerFactory, { service: sessions, environment }: SessionRoom) =>
        modernServers({
          shared: factory.shared,
          create: (http) => {
            const { principal, request } = http ?? {};
            return factory.create({ era: 'modern', session: undefined, principal, request, sessions });
          },
          onLegacyServer: once(() => logger.warn(protocolMessages.legacyServer())),
          report,
          late: (method) => environment.event(lateOfNoSession(method)),
        }),
      inject: [McpServerFactory, SESSION_ROOM],
    },
    subscriptions(options),
    endpoint(),
  ];
}

function subscriptions(options: InjectionToken): Provider {
  return {
    provide: Subscriptions,
    useFactory: (
      { feed }: SessionRoom,
      servers: ModernServers,
      requests: HandlerRequests,
      { serverInfo, server }: McpStreamableOptions,
      { maxSubscriptions, maxSubscriptionsPerPrincipal }: ResolvedProtocolOptions,
    ) =>
      new Subscriptions({
        changes$: feed.changes$,
        serverInfo,
        capabilities: (http) => servers.capabilities(http),
        admits: server ? undefined : (uri, context) => requests.admits(uri, context),
        maxSubscriptions,
        maxSubscriptionsPerPrincipal,
        report,
      }),
    inject: [SESSION_ROOM, ModernServers, HandlerRequests, options, PROTOCOL_OPTIONS],
  };
}

function endpoint(): Provider {
  return {
    provide: McpEndpoint,
    useFactory: (
      { sessions, environment }: SessionRoom,
      store: McpSessionStore,
      session: ResolvedSessionOptions,
      { maxBufferedBytes }: ResolvedHttpOptions,
      { eras }: ResolvedProtocolOptions,
      ...[servers, subscriptions, table, clock]: [ModernServers, Subscriptions, HandlerTable, Clock]
    ) => {
      const { responseMode, sseAfterMs, requestTimeoutMs } = session;
      const legacy = {
        sessions,
        environment,
        store,
        limits: session,
        newSessionId: () => makeSessionId(session.sessionIdGenerator),
        report,
      };
      const requests = { clock, responseMode, sseAfterMs, requestTimeoutMs, maxBufferedBytes };
      const modern = { servers, subscriptions, table, running: environment.running, options: requests };
      const drainMs = session.drainMs ?? (store.scope === 'shared' ? DEFAULT_DRAIN_MS : 0);
      return new McpEndpoint(legacy, modern, eras, drainMs);
    },
    inject: [
      ...[SESSION_ROOM, McpSessionStore, SESSION_OPTIONS, HTTP_OPTIONS, PROTOCOL_OPTIONS],
      ...[ModernServers, Subscriptions, HandlerTable, Clock],
    ],
  };
}
