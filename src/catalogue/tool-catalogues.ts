import { Inject, Injectable } from '@nestjs/common';
import { type Observable, Subject } from 'rxjs';
import { McpClock } from '../core/common/clock.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import { isThenable, type MaybePromise } from '../core/common/promises.js';
import type { McpCall } from '../core/calls/mcp-call.js';
import { retryLater, shown } from '../core/protocol/errors.js';
import { McpHandlerDefinitionError, namesText } from '../core/handlers/handlers.errors.js';
import type { FailureOptions, ToolResultOptions } from '../core/handlers/handlers.options.js';
import { assertListable, type ProviderWrapper } from '../core/handlers/invocation/enhancers.js';
import { HandlerInvokers, type MethodInvoker } from '../core/handlers/invocation/handler-invokers.js';
import { methodOf } from '../core/handlers/invocation/params.js';
import { type HandlerSource, partOf, type SourcePage } from '../core/plugins/handler-source.js';
import type { ListedKind } from '../core/plugins/mcp-plugin.js';
import { HandlerTable, type ToolEntry } from '../core/handlers/registry/handler-table.js';
import type { RequiredScopes } from './catalogue-tool.js';
import type { ResolvedCatalogueOptions } from './catalogue.decorators.js';
import { callerOf } from '../core/calls/mcp-caller.js';
import { SharedSchemas } from './shared-schemas.js';
import { type CallersTools, ToolCatalogue, UNKNOWN } from './tool-catalogue.js';

/** The list of a catalogue has changed for a principal, `null` for anonymous callers, or for all. */
export interface CatalogueChange {
  /** The name of the class. */
  readonly catalogue: string;
  readonly principal?: string | null | undefined;
}

/** Makes the decorator of a method whose calls require scopes, as `@RequireScopes()` does. @throws TypeError for what is no scope */
export type ScopesDecorator = (scopes: RequiredScopes) => MethodDecorator;

/** The injection token of a {@link ScopesDecorator}: `auth` knows what scopes are. */
export const SCOPES_DECORATOR = Symbol('nestjs-mcp-streamable:SCOPES_DECORATOR');

/** The ordinal of the catalogue, and the name of the tool. */
const PLACE = /^(\d{1,15}):(.*)$/s;

/** A provider with `@McpCatalogue()`. */
export interface CatalogueHost {
  readonly wrapper: ProviderWrapper;
  readonly type: object & { readonly name: string; readonly prototype: object };
  readonly module: string;
}

type EndpointOptions = FailureOptions & ToolResultOptions & { readonly listGuards?: HandlerListGuards };
type HandlerListGuards = Parameters<HandlerInvokers['create']>[1]['listGuards'];

/** Holds the catalogues of an endpoint. A call of a decorated or registered tool does not come here. */
@Injectable()
export class ToolCatalogues implements HandlerSource {
  readonly #all: ToolCatalogue[] = [];
  readonly #changes$ = new Subject<CatalogueChange>();
  readonly #schemas = new SharedSchemas();

  constructor(
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MCP_OPTIONS) private readonly options: EndpointOptions,
    @Inject(McpClock) private readonly clock: McpClock,
    @Inject(HandlerInvokers) private readonly invokers: HandlerInvokers,
    @Inject(SCOPES_DECORATOR) private readonly requireScopes: ScopesDecorator,
  ) {}

  /** The names of the classes. */
  get names(): string[] {
    return this.#all.map(({ type }) => type.name);
  }

  get summary(): string | undefined {
    return this.#all.length === 0 ? undefined : `tools per caller of ${this.names.join(', ')}`;
  }

  perCaller(kind: ListedKind): true | undefined {
    return kind === 'tool' && this.#all.length > 0 ? true : undefined;
  }

  /** Counts the lists that are kept. */
  get size(): number {
    return this.#all.reduce((sum, { size }) => sum + size, 0);
  }

  /** Emits each change that this node announces. */
  get changes$(): Observable<CatalogueChange> {
    return this.#changes$;
  }

  /** Adds a catalogue, at start. @throws McpHandlerDefinitionError */
  add({ wrapper, type, module }: CatalogueHost, options: ResolvedCatalogueOptions): void {
    const origin = `${type.name} (${module})`;
    this.table.assertServes(origin);
    for (const name of ['list', 'call']) {
      if (methodOf(type.prototype, name)) continue;
      throw new McpHandlerDefinitionError(origin, `it has @McpCatalogue(), but no method "${name}". Add it.`);
    }
    assertListable(wrapper, origin);
    const { listGuards } = this.options;
    const about = { kind: 'tool', name: type.name, ...(listGuards && { listGuards }) } as const;
    const call = { wrapper, methodName: 'call', origin: `${type.name}.call (${module})` };
    const invoker = this.invokers.create(call, about);
    const invokerWith = (scopes: RequiredScopes): MethodInvoker =>
      this.invokers.create({ ...call, decorator: this.requireScopes(scopes) }, about);
    const { table, clock } = this;
    const parts = { table, clock, failures: this.options, schemas: this.#schemas };
    this.#all.push(new ToolCatalogue(type, origin, invoker, invokerWith, options, parts));
  }

  /** Looks for the tool of a call in the list of its caller. */
  find(name: string, call: McpCall, kind: ListedKind): MaybePromise<ToolEntry | undefined> {
    if (kind !== 'tool') return undefined;
    const caller = callerOf(call);
    for (const [index, catalogue] of this.#all.entries()) {
      const tools = catalogue.toolsOf(caller, call.request);
      if (isThenable(tools)) return this.#findFrom(index, name, call);
      const tool = tools.get(name);
      if (tool) return tool;
    }
    return undefined;
  }

  /** Returns tools in the order of the catalogues, and of the names. Of two with one name the first catalogue has precedence. */
  async page(
    _kind: ListedKind,
    call: McpCall,
    after: string | undefined,
    size: number,
  ): Promise<SourcePage | undefined> {
    const place = PLACE.exec(after ?? '');
    if (after !== undefined && !place) return undefined;
    const lists = await this.#listsOf(call);
    const items = lists.flatMap((tools, ordinal) =>
      Array.from(tools.values(), (entry) => ({ place: `${ordinal}:${entry.key}`, ordinal, entry })).filter(
        ({ entry }) => !this.#isTaken(entry, ordinal, lists),
      ),
    );
    return partOf(items, after, size, ({ ordinal, entry }) => {
      const first = Number(place![1]);
      return ordinal > first || (ordinal === first && entry.key > place![2]!);
    });
  }

  /** @throws (rejects) McpError UNAVAILABLE if a list could not be made: the tool may require scopes */
  async deciding(name: string, call: McpCall): Promise<ToolEntry | readonly object[]> {
    const lists = await this.#listsOf(call);
    const tool = lists.find((tools) => tools.has(name))?.get(name);
    if (tool) return tool;
    if (!lists.includes(UNKNOWN)) return this.#all.map(({ invoker }) => invoker);
    const text = `The tools of this caller are not known at the moment, so it is not known who may ask about calls of ${shown(name)}. Try again later.`;
    throw retryLater('UNAVAILABLE', text, 5);
  }

  /** Drops lists, and announces that. @throws McpHandlerDefinitionError when the class is no catalogue of the endpoint */
  changed(type: object & { readonly name: string }, principal?: string | null): void {
    const catalogue = this.#all.find((each) => each.type === type);
    if (!catalogue) {
      const known = namesText(this.names);
      throw new McpHandlerDefinitionError(
        shown(type.name),
        `changed() takes a class with @McpCatalogue() that a module of this endpoint provides; this class is not one. ${known}`,
      );
    }
    catalogue.drop(principal === undefined ? undefined : new Set([principal]));
    this.#changes$.next({ catalogue: type.name, ...(principal !== undefined && { principal }) });
  }

  /**
   * Drops lists that another node has announced as changed.
   *
   * @param catalogue the name of its class; one that is unknown here, in another version of the app, stands for all
   */
  drop(catalogue?: string, only?: ReadonlySet<string | null>): void {
    const named = this.#all.filter(({ type }) => type.name === catalogue);
    for (const each of named.length > 0 ? named : this.#all) each.drop(only);
  }

  #listsOf(call: McpCall): Promise<readonly CallersTools[]> {
    const caller = callerOf(call);
    return Promise.all(this.#all.map(async (each) => each.toolsOf(caller, call.request)));
  }

  /** Returns whether a catalogue before has a tool of that name, which the log says once. */
  #isTaken({ key }: ToolEntry, ordinal: number, lists: readonly CallersTools[]): boolean {
    const first = lists.findIndex((each) => each.has(key));
    if (first === ordinal) return false;
    const { origin } = this.#all[first]!;
    this.#all[ordinal]!.remark(`The tool ${shown(key)} is left out, because ${origin} has the same name.`);
    return true;
  }

  async #findFrom(first: number, name: string, call: McpCall): Promise<ToolEntry | undefined> {
    const caller = callerOf(call);
    // All are asked at once: those that hang cost one `listTimeoutMs`.
    const lists = this.#all.slice(first).map((catalogue) => catalogue.toolsOf(caller, call.request));
    for (const list of lists) {
      const tool = (await list).get(name);
      if (tool) return tool;
    }
    return undefined;
  }
}
