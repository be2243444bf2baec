import { Inject, Injectable } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { McpClock } from '../common/clock.js';
import { MCP_OPTIONS } from '../common/options.js';
import { CallObserver } from '../calls/call-observer.js';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import { shown } from '../protocol/errors.js';
import { type McpEndpointHost, McpPlugin } from '../plugins/mcp-plugin.js';
import { ListenTopics } from '../plugins/listen-topics.js';
import { FEATURES, PluginHost } from '../plugins/plugin-host.js';
import { OTHER_NODES, type OtherNodes } from '../sessions/other-nodes.js';
import { EndpointMark } from '../handlers/discovery/app-scan.js';
import { McpHandlerDefinitionError, namesText } from '../handlers/handlers.errors.js';
import { HandlerTable } from '../handlers/registry/handler-table.js';

/** Attaches the plugins of an endpoint: the features of the package, then the plugins of the app, in the order in which they are found. */
@Injectable()
export class EndpointPlugins {
  constructor(
    @Inject(PluginHost) private readonly host: PluginHost,
    @Inject(FEATURES) private readonly features: readonly McpPlugin[],
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(EndpointMark) private readonly mark: EndpointMark,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(CallObserver) private readonly observer: CallObserver,
    @Inject(McpClock) private readonly clock: McpClock,
    @Inject(ListenTopics) private readonly topics: ListenTopics,
    @Inject(OTHER_NODES) private readonly nodes: Pick<OtherNodes, 'nodeId'>,
    @Inject(ENDPOINT_NAME) private readonly endpoint: EndpointName,
    @Inject(MCP_OPTIONS) private readonly options: { readonly server?: unknown },
  ) {}

  /**
   * Attaches them, and asks them about the handlers that are there. It is called once, before the declared handlers are loaded.
   *
   * @throws McpHandlerDefinitionError, and what a plugin throws
   */
  load(): void {
    const plugins = [...this.features, ...this.#ofApp()];
    this.host.attach(plugins, this.#endpoint(), (kind) => this.table.relisted(kind));
    this.observer.plugins = this.host;
    this.table.plugins = this.host;
    this.table.assertEach((entry) => entry.kind !== 'method' && this.host.ask(entry));
  }

  #endpoint(): Omit<McpEndpointHost, 'refresh'> {
    const { clock, nodes, observer, options, table, topics } = this;
    const { name, path } = this.endpoint;
    return {
      name,
      path,
      nodeId: nodes.nodeId,
      clock,
      hasOwnServer: options.server !== undefined,
      handlers: table,
      refusals$: observer.refusals$,
      topics,
      sessionEnds$: observer.sessionEnds$,
      questions$: observer.questions$,
    };
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
    if (missing === undefined) return this.mark.name !== undefined && wanted.includes(this.mark.name);
    const known = namesText(endpoints.map(({ name }) => name ?? '(without a name)'));
    const reason = `it belongs to the endpoint ${shown(missing)}, which the app does not have. ${known}`;
    throw new McpHandlerDefinitionError(plugin.constructor.name, reason);
  }
}
