import { type InjectionToken, Logger, type Provider } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Clock, systemClock } from './common/clock.js';
import { once } from './common/promises.js';
import { check } from './common/option-checks.js';
import { InMemoryMessageBus } from './bus/in-memory-message-bus.js';
import { McpMessageBus } from './bus/message-bus.js';
import { McpDispatcher } from './context/mcp-dispatcher.js';
import { CallObserver } from './exchange/call-observer.js';
import {
  EDGE_POLICY,
  type EdgePolicy,
  hostOriginPolicy,
  SESSION_METHODS,
  STATELESS_METHODS,
} from './http/edge/edge-policy.js';
import { httpMessages } from './http/http.messages.js';
import { defaultPrincipal, HTTP_OPTIONS, resolveHttpOptions, type ResolvedHttpOptions } from './http/http.options.js';
import { McpExceptionFilter } from './http/mcp-exception.filter.js';
import { McpRequestReader } from './http/mcp-incoming.js';
import { RefusalLog } from './http/refusal-log.js';
import { McpResponder } from './http/responder.js';
import { getMcpRegistryToken } from './mcp-registry.token.js';
import { getMcpSessionServiceToken } from './mcp-session-service.token.js';
import { ENDPOINT_NAME, type EndpointName } from './mcp-streamable.endpoint-name.js';
import { FaultLog } from './mcp-streamable.fault-log.js';
import { handlerProviders } from './mcp-streamable.handler-providers.js';
import type { McpBackend, McpStreamableOptions } from './mcp-streamable.options.js';
import { protocolProviders, report } from './mcp-streamable.protocol-providers.js';
import { questionProviders } from './mcp-streamable.question-providers.js';
import { CACHE_POLICY, stateProviders } from './mcp-streamable.state-providers.js';
import type { CachePolicy } from './methods/cache-hints.js';
import { PROTOCOL_OPTIONS, resolveProtocolOptions, type ResolvedProtocolOptions } from './endpoint/protocol.options.js';
import { InMemorySessionStore } from './session/in-memory-session-store.js';
import { McpSessionService } from './session/mcp-session.service.js';
import { furnishSessionRoom, SESSION_ROOM, type SessionRoom, type SessionRoomParts } from './session/session-room.js';
import { resolveSessionOptions, SESSION_OPTIONS, type ResolvedSessionOptions } from './session/session.options.js';
import { McpSessionStore } from './session/session-store.js';
import { InMemoryStateStore } from './state/in-memory-state-store.js';
import { McpStateStore } from './state/state-store.js';
import { resolveStateOptions, STATE_OPTIONS } from './state/state.options.js';
import { McpEventStore } from './stream/event-store.js';
import { InMemoryEventStore } from './stream/in-memory-event-store.js';
import { EVENT_LOG_OPTIONS, resolveEventLogOptions, type EventLogOptions } from './stream/stream.options.js';

/** The backend of an app, if it was given one. */
const BACKEND = Symbol('nestjs-mcp-streamable:backend');
const SESSION_STORE_METHODS = 'create get patch touch delete claimExpired list count'.split(' ');
const STATE_STORE_METHODS = ['get', 'set', 'delete'];
const EVENT_STORE_METHODS = ['open', 'append', 'read', 'claim', 'release', 'unfinished', 'drop'];
const BUS_METHODS = ['send', 'broadcast', 'close'];

/** What one endpoint is made of, room by room. */
export function endpointProviders(options: InjectionToken, name: string | undefined): Provider[] {
  return [
    { provide: Clock, useValue: systemClock },
    ...optionProviders(options),
    ...replaceableProviders(options),
    ...sessionProviders(name),
    ...protocolProviders(options, name),
    ...questionProviders(options),
    ...stateProviders(),
    ...handlerProviders(options, name),
    ...httpProviders(),
  ];
}

export function endpointExports(name: string | undefined): InjectionToken[] {
  // With a name only by name: by class, an app with several endpoints would silently get the first.
  return [getMcpSessionServiceToken(name), getMcpRegistryToken(name)];
}

function optionProviders(options: InjectionToken): Provider[] {
  const resolved = (token: symbol, resolve: (options: McpStreamableOptions) => object): Provider => ({
    provide: token,
    useFactory: resolve,
    inject: [options],
  });
  return [
    resolved(EVENT_LOG_OPTIONS, ({ eventLog }) => resolveEventLogOptions(eventLog)),
    resolved(SESSION_OPTIONS, resolveSessionOptions),
    resolved(STATE_OPTIONS, resolveStateOptions),
    resolved(HTTP_OPTIONS, resolveHttpOptions),
    resolved(PROTOCOL_OPTIONS, resolveProtocolOptions),
  ];
}

/** The parts that an app may bring itself. */
function replaceableProviders(options: InjectionToken): Provider[] {
  return [
    {
      provide: BACKEND,
      useFactory: ({ backend }: McpStreamableOptions) => (typeof backend === 'function' ? backend() : backend),
      inject: [options],
    },
    {
      provide: McpSessionStore,
      useFactory: (given: McpStreamableOptions, backend: McpBackend | undefined, clock: Clock) =>
        partOf(given, backend, 'sessionStore', SESSION_STORE_METHODS) ?? new InMemorySessionStore(clock),
      inject: [options, BACKEND, Clock],
    },
    {
      provide: McpStateStore,
      useFactory: (given: McpStreamableOptions, backend: McpBackend | undefined, clock: Clock) =>
        partOf(given, backend, 'stateStore', STATE_STORE_METHODS) ?? new InMemoryStateStore(clock),
      inject: [options, BACKEND, Clock],
    },
    {
      provide: McpEventStore,
      useFactory: (
        given: McpStreamableOptions,
        backend: McpBackend | undefined,
        limits: Required<EventLogOptions>,
        clock: Clock,
      ) => partOf(given, backend, 'eventStore', EVENT_STORE_METHODS) ?? new InMemoryEventStore(limits, clock),
      inject: [options, BACKEND, EVENT_LOG_OPTIONS, Clock],
    },
    {
      provide: McpMessageBus,
      useFactory: (given: McpStreamableOptions, backend: McpBackend | undefined) =>
        partOf(given, backend, 'messageBus', BUS_METHODS) ?? new InMemoryMessageBus(),
      inject: [options, BACKEND],
    },
  ];
}

/** A part as the app gives it: by itself, or in a backend. */
function partOf<Name extends keyof McpBackend>(
  options: McpStreamableOptions,
  backend: McpBackend | undefined,
  name: Name,
  methods: readonly string[],
): McpBackend[Name] | undefined {
  const own = options[name] as McpBackend[Name] | undefined;
  check.implementation<object>(name, own, methods);
  if (own || options.backend === undefined) return own;
  const part = check.group('backend', (backend ?? null) as McpBackend)[name] ?? null;
  check.implementation(`backend.${name}`, part, methods);
  return part;
}

function sessionProviders(name: string | undefined): Provider[] {
  return [
    {
      provide: SESSION_ROOM,
      useFactory: (
        session: ResolvedSessionOptions,
        { keepAliveMs }: ResolvedHttpOptions,
        ...[clock, sessionStore, eventStore, bus, dispatcher, observer]: [
          Clock,
          McpSessionStore,
          McpEventStore,
          McpMessageBus,
          McpDispatcher,
          CallObserver,
        ]
      ): SessionRoom => {
        const parts: SessionRoomParts = {
          options: session,
          keepAliveMs,
          clock,
          sessionStore,
          eventStore,
          bus,
          dispatcher,
          observer,
          report,
        };
        const room = furnishSessionRoom(parts);
        const faults = new FaultLog(clock);
        room.events$.subscribe((event) => faults.note(event));
        return room;
      },
      inject: [
        ...[SESSION_OPTIONS, HTTP_OPTIONS, Clock, McpSessionStore, McpEventStore, McpMessageBus, McpDispatcher],
        CallObserver,
      ],
    },
    {
      provide: getMcpSessionServiceToken(name),
      useFactory: ({ service }: SessionRoom) => service,
      inject: [SESSION_ROOM],
    },
    ...(name === undefined ? [] : [{ provide: McpSessionService, useExisting: getMcpSessionServiceToken(name) }]),
  ];
}

function httpProviders(): Provider[] {
  return [
    McpExceptionFilter,
    { provide: RefusalLog, useFactory: ({ path }: EndpointName) => new RefusalLog(path), inject: [ENDPOINT_NAME] },
    {
      provide: McpRequestReader,
      useFactory: (options: ResolvedHttpOptions, clock: Clock, policy: CachePolicy) => {
        const warn = once(() => logger.warn(httpMessages.noPrincipal()));
        // A function of the app that gives no id means it.
        const byDefault = options.principal === defaultPrincipal;
        return new McpRequestReader(options, clock, byDefault ? () => policy.guarded() && warn() : undefined);
      },
      inject: [HTTP_OPTIONS, Clock, CACHE_POLICY],
    },
    {
      provide: McpResponder,
      useFactory: ({ keepAliveMs, maxBufferedBytes }: ResolvedHttpOptions, clock: Clock, host: HttpAdapterHost) =>
        new McpResponder({ keepAliveMs, maxBufferedBytes, clock }, () => host.httpAdapter),
      inject: [HTTP_OPTIONS, Clock, HttpAdapterHost],
    },
    {
      provide: EDGE_POLICY,
      useFactory: (
        options: ResolvedHttpOptions,
        { eras }: ResolvedProtocolOptions,
        { sessions }: ResolvedSessionOptions,
      ): EdgePolicy => {
        const allow = eras === 'modern' || sessions === 'off' ? STATELESS_METHODS : SESSION_METHODS;
        return hostOriginPolicy({ ...options, allow }, () => logger.warn(httpMessages.hostsUnlisted()));
      },
      inject: [HTTP_OPTIONS, PROTOCOL_OPTIONS, SESSION_OPTIONS],
    },
  ];
}

const logger = new Logger('McpStreamable');
