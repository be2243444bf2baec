import { Inject, Injectable } from '@nestjs/common';
import { APPS_EXTENSION, VIEW_MIME_TYPE, viewOf } from '../handlers/decorators/app-views.js';
import { McpHandlerDefinitionError, namesText } from '../handlers/handlers.errors.js';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { HandlerTable, type MethodEntry } from '../handlers/registry/handler-table.js';
import { frozenJson } from '../handlers/schema/schema-compiler.js';
import { shown } from '../protocol/errors.js';
import type { EndpointExtension } from '../plugins/mcp-plugin.js';
import { Offer } from '../plugins/offer.js';
import { EndpointCachePolicy, listHints } from './cache-hints.js';
import { EndpointCapabilities } from './capabilities.js';
import { HandlerCalls } from './handler-calls.js';
import { MethodDispatcher } from './method-dispatcher.js';
import type { ServedMethod, ServedMethods } from '../plugins/served-method.js';

/** Adds the extensions of plugins and the methods of decorated handlers to an endpoint. */
@Injectable()
export class EndpointExtensions {
  readonly #ids = new Set<string>();

  constructor(
    @Inject(EndpointCapabilities) private readonly capabilities: EndpointCapabilities,
    @Inject(HandlerCalls) private readonly calls: HandlerCalls,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MethodDispatcher) private readonly dispatcher: MethodDispatcher,
    @Inject(Offer) private readonly offer: Offer,
    @Inject(EndpointSources) private readonly sources: EndpointSources,
    @Inject(EndpointCachePolicy) private readonly policy: EndpointCachePolicy,
  ) {}

  /** Adds the methods of handlers, with their extensions. It is called once, after the handlers are found. */
  load(): void {
    for (const entry of this.table.all('method')) {
      const { extension, era, key } = entry;
      if (extension !== undefined) this.capabilities.declare(extension, {}, era);
      this.dispatcher.add({ [key]: methodOf(entry, this.calls) });
    }
  }

  /** Adds an extension of a plugin. @throws Error when there is a method of that name; McpHandlerDefinitionError with the option `server` */
  extend({ id, settings = {}, era, mutual = true, methods }: EndpointExtension): void {
    this.offer.assertHandlers(id, 'its endpoint has the option "server", which serves no handlers of the app.');
    this.#ids.add(id);
    this.capabilities.declare(id, frozenJson(settings), era);
    const extension = mutual ? id : undefined;
    const all = Object.entries(methods).map(([name, method]) => [name, { era, ...this.#hinted(method), extension }]);
    this.dispatcher.add(Object.fromEntries(all) as ServedMethods);
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

  /** Returns whether a plugin has added an extension. */
  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Adds the cache hints of a list to the results of a method. */
  #hinted(method: ServedMethod): ServedMethod {
    const { listHints: kind } = method;
    if (!kind) return method;
    const { sources, policy } = this;
    return {
      ...method,
      serve: async (params, call) => {
        const result = await method.serve(params, call);
        return { ...result, ...listHints(call, sources, kind, policy) };
      },
    };
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
