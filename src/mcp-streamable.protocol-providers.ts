import { type InjectionToken, Logger, type Provider } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { Clock } from './common/clock.js';
import { once } from './common/promises.js';
import { check } from './common/option-checks.js';
import { McpDispatcher } from './context/mcp-dispatcher.js';
import type { McpInstrumentation } from './context/mcp-instrumentation.js';
import { CallObserver } from './exchange/call-observer.js';
import { HandlerTable } from './handlers/registry/handler-table.js';
import { HANDLER_OPTIONS, type ResolvedHandlerOptions } from './handlers/handlers.options.js';
import { HTTP_OPTIONS, type ResolvedHttpOptions } from './http/http.options.js';
import { getMcpSessionServiceToken } from './mcp-session-service.token.js';
import type { McpStreamableOptions } from './mcp-streamable.options.js';
import { CACHE_POLICY } from './mcp-streamable.state-providers.js';
import type { CachePolicy } from './methods/cache-hints.js';
import { HandlerCalls } from './methods/handler-calls.js';
import { listMethods } from './methods/lists.js';
import { MethodDispatcher } from './methods/method-dispatcher.js';
import { promptMethods } from './methods/prompts.js';
import { admitsResource, resourceMethods, subscriptionMethods } from './methods/resources.js';
import { CAPABILITIES, lifecycleMethods, sessionMethods } from './methods/lifecycle.js';
import { toolMethods } from './methods/tools.js';
import { BareRequests } from './endpoint/bare-requests.js';
import { makeSessionId } from './endpoint/legacy/initialization.js';
import { SessionlessEndpoint } from './endpoint/legacy/sessionless-endpoint.js';
import { McpEndpoint } from './endpoint/mcp-endpoint.js';
import { ModernClient } from './endpoint/modern/modern-endpoint.js';
import { Subscriptions } from './endpoint/modern/subscriptions.js';
import { protocolMessages } from './endpoint/endpoint.messages.js';
import { PROTOCOL_OPTIONS, type ResolvedProtocolOptions } from './endpoint/protocol.options.js';
import { SdkDispatcher } from './sdk/sdk-dispatcher.js';
import type { McpSessionEvent } from './session/session-events.js';
import type { McpSessionService } from './session/mcp-session.service.js';
import { SESSION_ROOM, type SessionRoom } from './session/session-room.js';
import { SESSION_OPTIONS, type ResolvedSessionOptions } from './session/session.options.js';
import { McpSessionStore } from './session/session-store.js';

const logger = new Logger('McpStreamable');

/** `drainMs`, where other nodes go on with the sessions. */
const DEFAULT_DRAIN_MS = 10_000;

/** Tells the operator. */
export function report(error: unknown): void {
  logger.error(error instanceof Error ? error.message : error, (error as Error)?.stack);
}

/** What comes too late in the era without sessions is dropped, and an event all the same (behaviour P8). */
function lateOfNoSession(method: string): McpSessionEvent {
  return { type: 'late-message', sessionId: '', method, requestId: undefined, disposition: 'dropped' };
}

/** What an endpoint speaks: what serves its methods, and the requests of each era. */
export function protocolProviders(options: InjectionToken, name: string | undefined): Provider[] {
  return [dispatcher(options, name), observer(options), modernClient(), subscriptions(options), endpoint()];
}

function dispatcher(options: InjectionToken, name: string | undefined): Provider {
  return {
    provide: McpDispatcher,
    useFactory: (
      { server, serverInfo, instructions }: McpStreamableOptions,
      table: HandlerTable,
      calls: HandlerCalls,
      { pageSize }: ResolvedHandlerOptions,
      ...[cache, { sessions }, module]: [CachePolicy, ResolvedSessionOptions, ModuleRef]
    ) => {
      check.text('serverInfo.name', serverInfo?.name);
      check.text('serverInfo.version', serverInfo?.version);
      // An empty text, as it comes from an environment variable, says nothing and is no mistake.
      if (instructions !== undefined && instructions !== '') check.text('instructions', instructions);
      const make = check.fn('server', server);
      if (make) {
        const service = (): McpSessionService => module.get(getMcpSessionServiceToken(name));
        const onLegacyServer = once(() => logger.warn(protocolMessages.legacyServer()));
        return new SdkDispatcher({
          make: (context) => make({ ...context, sessions: service() }),
          report,
          onLegacyServer,
        });
      }
      const methods = new MethodDispatcher(serverInfo)
        .add(lifecycleMethods({ serverInfo, instructions }, cache, sessions))
        .add(listMethods(table, calls, { pageSize, cache }))
        .add(toolMethods(table, calls))
        .add(resourceMethods(table, calls, cache))
        .add(promptMethods(table, calls));
      if (sessions === 'required') methods.add(sessionMethods()).add(subscriptionMethods(table, calls));
      return methods;
    },
    inject: [options, HandlerTable, HandlerCalls, HANDLER_OPTIONS, CACHE_POLICY, SESSION_OPTIONS, ModuleRef],
  };
}

function observer(options: InjectionToken): Provider {
  return {
    provide: CallObserver,
    useFactory: ({ instrumentation = [] }: McpStreamableOptions) => {
      const instrumentations = [instrumentation].flat() as readonly McpInstrumentation[];
      for (const one of instrumentations) check.implementation('instrumentation', one ?? null, ['call']);
      return new CallObserver(instrumentations, report);
    },
    inject: [options],
  };
}

function modernClient(): Provider {
  return {
    provide: ModernClient,
    useFactory: ({ environment }: SessionRoom) =>
      new ModernClient((method) => environment.event(lateOfNoSession(method))),
    inject: [SESSION_ROOM],
  };
}

function subscriptions(options: InjectionToken): Provider {
  return {
    provide: Subscriptions,
    useFactory: (
      { feed }: SessionRoom,
      dispatcher: McpDispatcher,
      table: HandlerTable,
      { serverInfo }: McpStreamableOptions,
      { maxSubscriptions, maxSubscriptionsPerPrincipal }: ResolvedProtocolOptions,
      client: ModernClient,
    ) => {
      const ofSdk = dispatcher instanceof SdkDispatcher ? dispatcher : undefined;
      return new Subscriptions({
        client,
        changes$: feed.changes$,
        serverInfo,
        capabilities: ofSdk ? (http) => ofSdk.capabilities(http) : () => CAPABILITIES,
        admits: ofSdk ? undefined : (uri, context) => admitsResource(table, uri, context),
        maxSubscriptions,
        maxSubscriptionsPerPrincipal,
        report,
      });
    },
    inject: [SESSION_ROOM, McpDispatcher, HandlerTable, options, PROTOCOL_OPTIONS, ModernClient],
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
      ...[client, subscriptions, table, clock]: [ModernClient, Subscriptions, HandlerTable, Clock]
    ) => {
      const { responseMode: mode, sseAfterMs } = session;
      const legacy = {
        sessions,
        environment,
        store,
        limits: session,
        newSessionId: () => makeSessionId(session.sessionIdGenerator),
        report,
      };
      const form = { clock, mode, sseAfterMs, maxBufferedBytes };
      const requests = new BareRequests(environment.calls, form);
      const modern = { requests, client, table, subscriptions };
      const late = (method: string): void => environment.event(lateOfNoSession(method));
      const sessionless = session.sessions === 'off' ? new SessionlessEndpoint(requests, late) : undefined;
      const drainMs = session.drainMs ?? (store.scope === 'shared' ? DEFAULT_DRAIN_MS : 0);
      return new McpEndpoint(legacy, modern, sessionless, eras, drainMs);
    },
    inject: [
      ...[SESSION_ROOM, McpSessionStore, SESSION_OPTIONS, HTTP_OPTIONS, PROTOCOL_OPTIONS],
      ...[ModernClient, Subscriptions, HandlerTable, Clock],
    ],
  };
}
