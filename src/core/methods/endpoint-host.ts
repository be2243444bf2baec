import { Inject, Injectable, type InjectionToken } from '@nestjs/common';
import { DiscoveryService, ModuleRef, ModulesContainer } from '@nestjs/core';
import type { Observable } from 'rxjs';
import { McpClock } from '../common/clock.js';
import { type AskedQuestion, CallObserver } from '../calls/call-observer.js';
import { ownToken } from '../calls/inject-mcp.js';
import { ENDPOINT_NAME, type EndpointName, stateOwnerOf } from '../calls/endpoint-name.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import type { McpRefusal, McpSessionEnd } from '../calls/mcp-instrumentation.js';
import { logger, type ReportStoreFault, STORE_FAULT } from '../calls/operator-log.js';
import { REQUEST_FAILED, shown } from '../protocol/errors.js';
import type { HandlerSource, KeptHandler } from '../plugins/handler-source.js';
import {
  type EndpointExtension,
  type EndpointNodes,
  hostsIn,
  type ListedKind,
  McpEndpointHost,
  McpPlugin,
} from '../plugins/mcp-plugin.js';
import { ListenTopics } from '../plugins/listen-topics.js';
import { Offer } from '../plugins/offer.js';
import { FEATURES, PluginHost } from '../plugins/plugin-host.js';
import type { McpCall } from '../calls/mcp-call.js';
import { SessionRuntime } from '../sessions/session-runtime.js';
import { OTHER_NODES } from '../sessions/other-nodes.js';
import { EndpointMark } from '../handlers/discovery/app-scan.js';
import { McpHandlerDefinitionError, namesText } from '../handlers/handlers.errors.js';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { type HandlerEntry, HandlerTable, LIST_OF } from '../handlers/registry/handler-table.js';
import { McpRegistry } from '../handlers/registry/mcp-registry.js';
import { EndpointExtensions } from './extensions.js';
import { ListChangedRelay } from './lists.js';

/** One endpoint for its plugins: the features of the package, then the plugins of the app, in the order in which they are found. */
@Injectable()
export class EndpointHost extends McpEndpointHost {
  readonly name: string | undefined;
  readonly path: string;
  readonly guards: readonly string[];
  readonly owner: string;
  readonly refusals$: Observable<McpRefusal>;
  readonly sessionEnds$: Observable<McpSessionEnd>;
  readonly questions$: Observable<AskedQuestion>;
  /** Entries that were made before the plugins were attached: none was asked about them yet. */
  private early: HandlerEntry[] | undefined = [];

  constructor(
    @Inject(ENDPOINT_NAME) endpoint: EndpointName,
    @Inject(McpClock) readonly clock: McpClock,
    @Inject(Offer) readonly offer: Offer,
    @Inject(HandlerTable) readonly handlers: HandlerTable,
    @Inject(EndpointSources) private readonly sources: EndpointSources,
    @Inject(ListChangedRelay) private readonly relay: ListChangedRelay,
    @Inject(OTHER_NODES) readonly nodes: EndpointNodes,
    @Inject(ListenTopics) readonly topics: ListenTopics,
    @Inject(STORE_FAULT) readonly storeFault: ReportStoreFault,
    @Inject(CallObserver) private readonly observer: CallObserver,
    @Inject(PluginHost) private readonly plugins: PluginHost,
    @Inject(FEATURES) private readonly features: readonly McpPlugin[],
    @Inject(EndpointExtensions) private readonly extensions: EndpointExtensions,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(ModuleRef) private readonly parts: ModuleRef,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {
    super();
    this.name = endpoint.name;
    this.path = endpoint.path;
    this.guards = endpoint.guards;
    this.owner = stateOwnerOf(endpoint);
    this.refusals$ = observer.refusals$;
    this.sessionEnds$ = observer.sessionEnds$;
    this.questions$ = observer.questions$;
  }

  /**
   * Attaches the plugins, and asks them about the handlers that are there. It is called once, before the declared handlers are loaded.
   *
   * @throws McpHandlerDefinitionError, and what a plugin throws
   */
  attach(): void {
    const { plugins, handlers: table } = this;
    plugins.attach([...this.features, ...this.#ofApp()], (refresh) => this.#for(refresh));
    this.observer.plugins = plugins;
    table.plugins = plugins;
    table.assertEach((entry) => entry.kind !== 'method' && plugins.ask(entry));
    for (const entry of this.early ?? []) table.assertServable(entry);
    this.early = undefined;
    this.#adviseOnServers();
  }

  get index(): number {
    return this.all().findIndex((each) => each.name === this.name && each.path === this.path);
  }

  get isDefault(): boolean {
    return this.name === undefined || this.all().length === 1;
  }

  get sensitive(): readonly string[] | undefined {
    return this.plugins.sensitive;
  }

  cancel(call: McpCall, message: string): void {
    // The sessions are made of the methods.
    this.get(SessionRuntime).calls.fail(call, REQUEST_FAILED, message);
  }

  all(): readonly McpEndpointHost[] {
    return hostsIn(this.modules);
  }

  get<T>(token: InjectionToken<T>): T {
    return this.parts.get<T>(ownToken(token, this.name), { strict: true });
  }

  find<T extends object>(type: abstract new (...args: never[]) => T): T | undefined {
    return this.plugins.find(type);
  }

  extend(extension: EndpointExtension): void {
    this.extensions.extend(extension);
  }

  serve(source: HandlerSource): void {
    this.sources.add(source);
  }

  *kept(kind: ListedKind): Iterable<KeptHandler> {
    for (const source of this.sources.added) yield* source.kept?.(kind) ?? [];
  }

  entryOf(kind: ListedKind, registration: object, source: string): McpHandlerTarget {
    const entry = this.get(McpRegistry).entryOf(kind, registration, source);
    this.early?.push(entry);
    return entry;
  }

  changed(kind: ListedKind, only?: ReadonlySet<string | null>): void {
    if (only) this.relay.changed(LIST_OF[kind], only);
    else this.handlers.relisted(kind);
  }

  /** Each plugin has a function of its own: the host knows which of them has refreshed. */
  refresh(): void {
    throw new Error('Only a plugin refreshes its answers.');
  }

  /** Returns this host as one plugin sees it. */
  #for(refresh: McpEndpointHost['refresh']): McpEndpointHost {
    return Object.defineProperty(Object.create(this) as EndpointHost, 'refresh', { value: refresh });
  }

  /** Logs which plugins of the app never see a handler. */
  #adviseOnServers(): void {
    const { ofHandlers } = this.plugins;
    if (this.offer.serves === 'handlers' || ofHandlers.length === 0) return;
    logger.warn(
      `The endpoint "${this.path}" is served by the servers of the option "server", whose handlers no plugin sees: there, ${ofHandlers.join(', ')} does nothing around handlers.`,
    );
  }

  #ofApp(): McpPlugin[] {
    const wrappers = this.discovery.getProviders();
    const instances = wrappers.map(({ instance }): unknown => instance);
    const endpoints = instances.filter((instance) => instance instanceof EndpointMark);
    for (const wrapper of wrappers) {
      const isPlugin = (wrapper.metatype as { prototype?: unknown } | null)?.prototype instanceof McpPlugin;
      if (!isPlugin || (wrapper.isDependencyTreeStatic() && !wrapper.isTransient)) continue;
      const reason = 'it is a plugin, which must be a singleton, but it is made for each request or injection.';
      throw new McpHandlerDefinitionError(String(wrapper.name), reason);
    }
    const plugins = new Set(instances.filter((instance): instance is McpPlugin => instance instanceof McpPlugin));
    return [...plugins].filter((plugin) => this.#isHere(plugin, endpoints));
  }

  /** @throws McpHandlerDefinitionError for an endpoint that the app does not have */
  #isHere(plugin: McpPlugin, endpoints: readonly EndpointMark[]): boolean {
    const { endpoint } = plugin;
    if (endpoint === undefined) return true;
    const wanted = [endpoint].flat();
    const missing = wanted.find((name) => !endpoints.some((each) => each.name === name));
    if (missing === undefined) return this.name !== undefined && wanted.includes(this.name);
    const known = namesText(endpoints.map(({ name }) => name ?? '(without a name)'));
    const reason = `it belongs to the endpoint ${shown(missing)}, which the app does not have. ${known}`;
    throw new McpHandlerDefinitionError(plugin.origin ?? plugin.constructor.name, reason);
  }
}
