import type { Implementation } from '@modelcontextprotocol/server';
import type { Provider } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { McpClock } from '../common/clock.js';
import { ENDPOINT_NAME, type EndpointName, stateOwnerOf } from '../calls/endpoint-name.js';
import { type ReportStoreFault, STORE_FAULT } from '../calls/operator-log.js';
import { MCP_DEV_STORES } from '../calls/replaceable-part.js';
import { DivertedCalls } from '../calls/diverted-calls.js';
import { MCP_OPTIONS } from '../common/options.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { ResolvedHandlerOptions } from '../handlers/handlers.options.js';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { type ResolvedRequestStateOptions, secretsFor } from '../questions/request-state.options.js';
import { RequestStates } from '../questions/request-state.js';
import { SessionRuntime } from '../sessions/session-runtime.js';
import { McpSessionStore } from '../sessions/store/session-store.js';
import type { ResolvedSessionOptions } from '../sessions/session.options.js';
import { McpStateStore } from '../questions/state/state-store.js';
import type { ResolvedStateOptions } from '../questions/state/state.options.js';
import { StoredStates } from '../questions/state/stored-states.js';
import { EndpointCachePolicy } from './cache-hints.js';
import { EndpointHandlers } from './endpoint-handlers.js';
import { EndpointHost } from './endpoint-host.js';
import { McpEndpointHost } from '../plugins/mcp-plugin.js';
import { ListenTopics } from '../plugins/listen-topics.js';
import { Offer } from '../plugins/offer.js';
import { PluginHost } from '../plugins/plugin-host.js';
import { EndpointCapabilities } from './capabilities.js';
import { EndpointExtensions } from './extensions.js';
import { HandlerCalls } from './handler-calls.js';
import { lifecycleMethods, sessionMethods } from './lifecycle.js';
import { ListChangedRelay, listMethods } from './lists.js';
import { MethodDispatcher } from './method-dispatcher.js';
import { promptMethods } from './prompts.js';
import { admitsResource, resourceMethods, subscriptionMethods } from './resources.js';
import { ToolAccess } from './tool-access.js';
import { toolMethods } from './tools.js';

/** The methods of an endpoint need these options. */
interface EndpointOptions extends ResolvedHandlerOptions, ResolvedSessionOptions, ResolvedRequestStateOptions {
  readonly serverInfo: Implementation;
  readonly instructions: string | undefined;
  readonly eras: string;
}

export const methodProviders: Provider[] = [
  {
    provide: RequestStates,
    useFactory: (
      options: EndpointOptions,
      { scope }: McpSessionStore,
      { name, path }: EndpointName,
      clock: McpClock,
      dev: { requestStateKey: Uint8Array } | undefined,
      { serves }: Offer,
    ) => {
      const { requestStateKeys, requestStateTtlMs: ttlMs, maxRequestStateBytes: maxBytes, clockToleranceMs } = options;
      // The legacy era asks on streams of the session, and servers of the app keep their own state: neither needs keys.
      const shared = scope === 'shared' && options.eras !== 'legacy' && serves === 'handlers';
      const secrets = secretsFor(requestStateKeys ?? (dev && [dev.requestStateKey]), shared);
      return new RequestStates({ secrets, ttlMs, clockToleranceMs, maxBytes, endpoint: { name, path } }, clock);
    },
    inject: [MCP_OPTIONS, McpSessionStore, ENDPOINT_NAME, McpClock, MCP_DEV_STORES, Offer],
  },
  {
    provide: STORE_FAULT,
    // The sessions are made of the methods.
    useFactory:
      (module: ModuleRef): ReportStoreFault =>
      (error) =>
        module.get(SessionRuntime).storeFault('', error),
    inject: [ModuleRef],
  },
  {
    provide: StoredStates,
    useFactory: (
      store: McpStateStore,
      { idleTimeoutMs: ttlMs, ...limits }: ResolvedStateOptions & ResolvedSessionOptions,
      endpoint: EndpointName,
      clock: McpClock,
      fault: ReportStoreFault,
    ) => new StoredStates(store, clock, { ...limits, endpoint: stateOwnerOf(endpoint), ttlMs }, fault),
    inject: [McpStateStore, MCP_OPTIONS, ENDPOINT_NAME, McpClock, STORE_FAULT],
  },
  EndpointCachePolicy,
  EndpointCapabilities,
  EndpointExtensions,
  HandlerCalls,
  PluginHost,
  ListenTopics,
  ListChangedRelay,
  EndpointHost,
  { provide: McpEndpointHost, useExisting: EndpointHost },
  EndpointHandlers,
  DivertedCalls,
  ToolAccess,
  {
    provide: MethodDispatcher,
    useFactory: (
      { serverInfo, instructions, pageSize, sessions }: EndpointOptions,
      sources: EndpointSources,
      calls: HandlerCalls,
      cache: EndpointCachePolicy,
      declared: EndpointCapabilities,
    ) => {
      const admits = (uri: string, call: McpCall) => admitsResource(sources, uri, calls.context(call));
      const methods = new MethodDispatcher(serverInfo, declared, admits)
        .add(lifecycleMethods({ serverInfo, instructions }, cache, declared))
        .add(listMethods(sources, calls, { pageSize, cache }))
        .add(toolMethods(sources, calls))
        .add(resourceMethods(sources, calls, cache))
        .add(promptMethods(sources, calls));
      if (sessions === 'required') methods.add(sessionMethods()).add(subscriptionMethods(sources, calls));
      return methods;
    },
    inject: [MCP_OPTIONS, EndpointSources, HandlerCalls, EndpointCachePolicy, EndpointCapabilities],
  },
];
