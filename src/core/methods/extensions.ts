import { Inject, Injectable } from '@nestjs/common';
import { DiscoveryService, ModuleRef } from '@nestjs/core';
import { EndpointMark } from '../handlers/discovery/app-scan.js';
import { APPS_EXTENSION, VIEW_MIME_TYPE, viewOf } from '../handlers/decorators/app-views.js';
import { McpHandlerDefinitionError, namesText } from '../handlers/handlers.errors.js';
import { HandlerTable, type MethodEntry } from '../handlers/registry/handler-table.js';
import { frozenJson } from '../handlers/schema/schema-compiler.js';
import type { McpEra } from '../protocol/era.js';
import { shown } from '../protocol/errors.js';
import type { EndpointExtension } from '../plugins/mcp-plugin.js';
import { Offer } from '../plugins/offer.js';
import type { ExtensionSettings } from '../protocol/extensions.js';
import { EndpointCapabilities } from './capabilities.js';
import { HandlerCalls } from './handler-calls.js';
import { MethodDispatcher } from './method-dispatcher.js';
import type { ServedMethod, ServedMethods } from './method.js';

/**
 * An extension of the protocol that a module of this package adds to an endpoint is a provider anywhere in the app,
 * which is found when the endpoint starts. Apps use `@McpMethod()`.
 *
 * @internal
 */
export abstract class McpExtension {
  abstract readonly id: string;
  /** Clients read these settings in the capabilities. */
  readonly settings: ExtensionSettings = {};
  /** The era of the extension. @default both */
  readonly era?: McpEra;
  /** Whether clients must declare it, too, before they call its methods. */
  readonly mutual: boolean = true;
  /** The option `name` of its endpoint. @default the only one, or the one without a name */
  readonly endpoint?: string | undefined;

  /**
   * Returns the methods of the extension at one endpoint.
   *
   * @param endpoint finds the parts of the endpoint: `endpoint.get(HandlerCalls)`
   */
  methods(_endpoint: ModuleRef): ServedMethods {
    return {};
  }

  /** Counts timers that it has as long as the app runs. Tests, which look for timers that are left, do not count them. */
  get standingTimers(): number {
    return 0;
  }
}

/** Adds the extensions of the package's modules and the methods of decorated handlers to an endpoint. */
@Injectable()
export class EndpointExtensions {
  readonly #added: McpExtension[] = [];
  readonly #ids = new Set<string>();

  constructor(
    @Inject(EndpointCapabilities) private readonly capabilities: EndpointCapabilities,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(EndpointMark) private readonly mark: EndpointMark,
    @Inject(HandlerCalls) private readonly calls: HandlerCalls,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MethodDispatcher) private readonly dispatcher: MethodDispatcher,
    @Inject(ModuleRef) private readonly endpoint: ModuleRef,
    @Inject(Offer) private readonly offer: Offer,
  ) {}

  /**
   * Adds the extensions and methods. It is called once, after the handlers are found.
   *
   * @throws McpHandlerDefinitionError
   */
  load(): void {
    const instances = this.discovery.getProviders().map(({ instance }): unknown => instance);
    const endpoints = instances.filter((instance) => instance instanceof EndpointMark);
    const found = new Set(instances.filter((instance) => instance instanceof McpExtension));
    for (const extension of found) if (this.#owns(extension, endpoints)) this.#add(extension);
    for (const entry of this.table.all('method')) {
      const { extension, era, key } = entry;
      if (extension !== undefined) this.capabilities.declare(extension, {}, era);
      this.dispatcher.add({ [key]: methodOf(entry, this.calls) });
    }
  }

  /** Adds an extension of a plugin. @throws Error when there is a method of that name; McpHandlerDefinitionError with the option `server` */
  extend({ id, settings = {}, era, mutual = true, methods }: EndpointExtension<ServedMethod>): void {
    this.offer.assertHandlers(id, 'its endpoint has the option "server", which serves no handlers of the app.');
    this.#ids.add(id);
    this.capabilities.declare(id, frozenJson(settings), era);
    const extension = mutual ? id : undefined;
    const all = Object.entries(methods).map(([name, method]) => [name, { era, ...method, extension }] as const);
    this.dispatcher.add(Object.fromEntries(all));
  }

  /**
   * Declares the extension of views if there are any. It is called after the app has registered its handlers at the start.
   *
   * @throws McpHandlerDefinitionError for a tool whose view does not exist
   */
  loadViews(): void {
    if (this.#hasViews()) this.capabilities.declare(APPS_EXTENSION, {});
    for (const { wire, origin } of this.table.all('tool')) {
      const uri = viewOf(wire._meta);
      const view = uri === undefined ? undefined : this.table.find(uri, undefined, 'resource');
      if (uri === undefined || view?.wire.mimeType === VIEW_MIME_TYPE) continue;
      const found = view
        ? `is not of the type "${VIEW_MIME_TYPE}", but ${shown(view.wire.mimeType)}. Declare it with @AppView().`
        : `does not exist in its endpoint. ${namesText(this.#views())}`;
      throw new McpHandlerDefinitionError(origin, `it has the view "${uri}", which ${found}`);
    }
  }

  /** Returns whether a module of this package has added an extension. */
  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Sums up {@link McpExtension.standingTimers}. */
  get standingTimers(): number {
    return this.#added.reduce((total, { standingTimers }) => total + standingTimers, 0);
  }

  #hasViews(): boolean {
    return [...this.table.all('resource'), ...this.table.all('template')].some(
      ({ wire }) => wire.mimeType === VIEW_MIME_TYPE,
    );
  }

  #views(): string[] {
    return Array.from(this.table.all('resource')).flatMap(({ key, wire }) =>
      wire.mimeType === VIEW_MIME_TYPE ? [key] : [],
    );
  }

  #owns({ id, endpoint: name }: McpExtension, endpoints: readonly EndpointMark[]): boolean {
    if (name === undefined) return endpoints.length === 1 || this.mark.name === undefined;
    if (endpoints.some((each) => each.name === name)) return this.mark.name === name;
    const known = namesText(endpoints.map((each) => each.name ?? '(without a name)'));
    throw new McpHandlerDefinitionError(
      id,
      `it belongs to the endpoint "${name}", which the app does not have. ${known}`,
    );
  }

  #add(extension: McpExtension): void {
    const { id, settings, era, mutual } = extension;
    this.extend({ id, settings, era, mutual, methods: extension.methods(this.endpoint) });
    this.#added.push(extension);
  }
}

/** Returns a decorated handler as a method of the endpoint. */
function methodOf(entry: MethodEntry, calls: HandlerCalls): ServedMethod<Record<string, unknown>> {
  return {
    extension: entry.extension,
    era: entry.era,
    find: () => entry,
    read: ({ params: { _meta, ...params } = {} }) => params,
    serve: (params, call) => entry.invoke(params, calls.context(call)),
  };
}
