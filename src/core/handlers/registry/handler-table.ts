import type {
  CompleteResult,
  GetPromptResult,
  InputRequiredResult,
  Prompt,
  ReadResourceResult,
  Resource,
  ResourceTemplateType,
  Tool,
} from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { Subject, type Observable } from 'rxjs';
import { MCP_OPTIONS } from '../../common/options.js';
import type { McpCall } from '../../calls/mcp-call.js';
import type { McpContext } from '../../calls/mcp-context.js';
import type { McpEra } from '../../protocol/era.js';
import type { ParamHeader } from '../../protocol/param-headers.js';
import type { McpListResourcesArgs } from '../decorators/handler-options.js';
import type { McpCacheHints } from '../handlers.options.js';
import { OPTIONS_OF_EXTENSIONS } from '../decorators/handler-options.js';
import { McpDuplicateHandlerError, McpHandlerDefinitionError } from '../handlers.errors.js';
import type { Served } from '../results/handler-outcome.js';
import { type HandlerSource, partOf, type SourcePage } from '../../plugins/handler-source.js';
import type { FeatureHandler, FeatureKind, NeededExtension } from '../../plugins/feature-kind.js';
import type { ListedKind } from '../../plugins/mcp-plugin.js';
import { Offer } from '../../plugins/offer.js';
import type { Hooked, PluginHost } from '../../plugins/plugin-host.js';
import { keyOf, type UriTemplate, type UriVariables } from './uri-template.js';

/**
 * An entry stands for one tool, resource, template, prompt or method, or a handler of a feature, whether it was found on a provider or registered
 * at run time. It is created once, at start or at registration, and shared by all sessions; its part in lists is stored
 * as it is sent, and frozen.
 */
export type HandlerEntry = EntryOf<HandlerKind>;

/** Lists show these entries. */
export type ListedEntry = EntryOf<ListedKind>;

interface EntriesByKind {
  tool: ToolEntry;
  resource: ResourceEntry;
  template: ResourceTemplateEntry;
  prompt: PromptEntry;
  feature: FeatureEntry;
  method: MethodEntry;
}

export type HandlerKind = keyof EntriesByKind;
export type { ListedKind };
export type EntryOf<Kind extends HandlerKind> = EntriesByKind[Kind];

interface EntryBase<Kind extends string, Wire, Args, Result> extends Served<Args, Result>, Hooked {
  readonly kind: Kind;
  /**
   * The key is unique within its kind: the name of a tool or prompt, the URI of a resource, the URI template of a
   * template.
   */
  readonly key: string;
  /** Lists show this part. */
  readonly wire: Readonly<Wire>;
  /** Lists show this part to clients that take no other structured content than objects (D18); absent: the same. */
  readonly legacyWire?: Readonly<Wire> | undefined;
  /** The two parts as JSON, each once a list has shown it: they are frozen. */
  text?: string;
  legacyText?: string;
  /** Names where it is from, if not from a decorator or the registry, such as the class of a catalogue. */
  readonly source?: string | undefined;
}

export interface ToolEntry extends EntryBase<'tool', Tool, Record<string, unknown>, object> {
  /** Modern clients mirror these arguments into headers (`x-mcp-header`); frozen, and mostly empty. */
  readonly paramHeaders: readonly ParamHeader[];
  /** Whether it is a GET or HEAD route too. */
  readonly reads?: boolean | undefined;
  /** The schemas, as lists show them. */
  readonly inputSchema: Tool['inputSchema'];
  readonly outputSchema: Tool['outputSchema'] | undefined;
  /** Names the library of its schema, if a newer version checks large arguments within limits. */
  readonly outdated?: string | undefined;
}

export interface ReadEntry<Kind extends string, Wire, Args> extends EntryBase<
  Kind,
  Wire,
  Args,
  ReadResourceResult | InputRequiredResult
> {
  /** Says how long clients may keep what they read. */
  readonly cache?: Readonly<McpCacheHints>;
}

export type ResourceEntry = ReadEntry<'resource', Resource, { uri: string }>;

/** A template is read with this match. */
export interface TemplateMatch {
  readonly uri: string;
  readonly variables: UriVariables;
}

export interface ResourceTemplateEntry extends ReadEntry<'template', ResourceTemplateType, TemplateMatch> {
  readonly template: UriTemplate;
  /** Completions are found by variable. */
  readonly completions: ReadonlyMap<string, Completion>;
  /** Lists its resources; absent: lists show the template alone. */
  readonly listing?: TemplateListing | undefined;
}

/** Lists the resources of a template for one caller. */
export interface TemplateListing {
  /** Returns whether the guards of the list's method accept this caller. */
  visible(context: McpContext): boolean | Promise<boolean>;
  /** Lists a page. @throws an error that becomes a JSON-RPC error */
  list(
    args: McpListResourcesArgs,
    context: McpContext,
  ): Promise<{ resources: readonly Resource[]; nextCursor?: string | undefined }>;
  /** Returns the variables of a listed URI. */
  variablesOf(uri: string): UriVariables;
}

export interface PromptEntry extends EntryBase<
  'prompt',
  Prompt,
  Record<string, string>,
  GetPromptResult | InputRequiredResult
> {
  /** Completions are found by argument. */
  readonly completions: ReadonlyMap<string, Completion>;
}

/** A handler of a kind that a feature adds: it is in no list of the core. */
export interface FeatureEntry extends Served<{ uri: string }, unknown>, Hooked, Pick<FeatureHandler, 'run'> {
  readonly kind: 'feature';
  readonly feature: FeatureKind;
  /** The URI. */
  readonly key: string;
  readonly options: object;
}

/** A method of an extension is in no list, and is registered at start. */
export interface MethodEntry extends Served<Record<string, unknown>, object> {
  readonly kind: 'method';
  /** The name that clients call. */
  readonly key: string;
  /** The id of the extension that a client must have declared. */
  readonly extension: string | undefined;
  /** The era that has the method; `undefined`: both. */
  readonly era: McpEra | undefined;
}

/** Proposes values for an argument. */
export type Completion = (
  value: string,
  /** The arguments that are known already. */
  others: Readonly<Record<string, string>>,
  context: McpContext,
) => Promise<CompleteResult['completion']>;

/** Describes a list of the endpoint that has changed. @internal */
export interface McpHandlerListChange {
  readonly list: 'tools' | 'resources' | 'prompts';
}

/** Returns the entry that a call is for; `undefined` if it is for something else, or nothing. @internal */
export function entryOf<Kind extends HandlerKind>({ target }: McpCall, kind: Kind): EntryOf<Kind> | undefined {
  return target?.kind === kind ? (target as unknown as EntryOf<Kind>) : undefined;
}

/** An entry with its place in the order of its kind. */
export interface PlacedEntry<Kind extends HandlerKind> {
  /** Grows with each entry that is added; it is never used again. */
  readonly ordinal: number;
  /** The ordinal as a text. */
  readonly place: string;
  readonly entry: EntryOf<Kind>;
}

/** The ordinal of an entry. */
const PLACE = /^\d{1,15}$/;

/** Names the list that shows entries of a kind; templates are resources. */
export const LIST_OF: Readonly<Record<ListedKind, McpHandlerListChange['list']>> = {
  tool: 'tools',
  resource: 'resources',
  template: 'resources',
  prompt: 'prompts',
};

type Places = { readonly [Kind in HandlerKind]: Map<string, PlacedEntry<Kind>> };

/**
 * # The handlers of an endpoint, from decorators and the registry
 *
 * One table serves all sessions of an endpoint: no session copies an entry. Order is that of registration, and stable, so that
 * cursors and caches of clients hold.
 *
 * Invariants: keys are unique within a kind, URIs in the form in which they are compared; an entry that replaces another takes its place.
 */
@Injectable()
export class HandlerTable implements HandlerSource {
  readonly #places: Places = {
    tool: new Map(),
    resource: new Map(),
    template: new Map(),
    prompt: new Map(),
    feature: new Map(),
    method: new Map(),
  };
  /** The lists as they were asked for since their last change. */
  readonly #lists: { [Kind in HandlerKind]?: readonly PlacedEntry<Kind>[] | undefined } = {};
  readonly #changes$ = new Subject<McpHandlerListChange>();
  /** Decides what lists hide; absent: nothing. */
  plugins: Pick<PluginHost, 'isHidden' | 'hidesByCaller'> | undefined;
  #lastOrdinal = 0;
  readonly #checks: ((entry: HandlerEntry) => void)[] = [];

  private readonly readOnly: boolean;

  constructor(
    @Inject(Offer) private readonly offer: Pick<Offer, 'assertHandlers'> = { assertHandlers: () => {} },
    @Inject(MCP_OPTIONS) { readOnly = false }: { readonly readOnly?: boolean } = {},
  ) {
    this.readOnly = readOnly;
  }

  /** Emits after each change. Never errors; completes when the endpoint closes. */
  get changes$(): Observable<McpHandlerListChange> {
    return this.#changes$;
  }

  get<Kind extends HandlerKind>(kind: Kind, key: string): EntryOf<Kind> | undefined {
    const places: Map<string, PlacedEntry<Kind>> = this.#places[kind];
    return places.get(keyOf(kind, key))?.entry;
  }

  /** Returns whether a plugin hides an entry from a caller in lists, completions and subscriptions. */
  isHidden(entry: ListedEntry, call: McpCall): boolean {
    return this.plugins?.isHidden(entry, call) === true;
  }

  /** Iterates the entries of a kind, in order. */
  *all<Kind extends HandlerKind>(kind: Kind): Iterable<EntryOf<Kind>> {
    for (const { entry } of this.#of(kind).values()) yield entry;
  }

  ofFeature({ name }: FeatureKind): readonly FeatureEntry[] {
    return [...this.all('feature')].filter(({ feature }) => feature.name === name);
  }

  /** Finds an entry; for a resource also the first template that matches its URI. */
  find<Kind extends ListedKind>(
    key: string,
    _call: McpCall | undefined,
    kind: Kind,
  ): EntryOf<Kind | (Kind extends 'resource' ? 'template' : never)> | undefined;
  find(key: string, _call: McpCall | undefined, kind: ListedKind): ListedEntry | undefined {
    const entry = this.get(kind, key);
    if (entry || kind !== 'resource') return entry;
    for (const template of this.all('template')) if (template.template.match(key)) return template;
    return undefined;
  }

  page(kind: ListedKind, _call: McpCall, after: string | undefined, size: number): SourcePage | undefined {
    if (after !== undefined && !PLACE.test(after)) return undefined;
    return partOf(this.placed(kind), after, size, ({ ordinal }) => ordinal > Number(after));
  }

  perCaller(kind: ListedKind): boolean {
    for (const { guarded } of this.all(kind)) if (guarded) return true;
    if (kind === 'resource') for (const { listing } of this.all('template')) if (listing) return true;
    return false;
  }

  /** Returns the entries of a kind with their places, in order. */
  placed<Kind extends HandlerKind>(kind: Kind): readonly PlacedEntry<Kind>[] {
    const lists: { [K in Kind]?: readonly PlacedEntry<K>[] | undefined } = this.#lists;
    return (lists[kind] ??= [...this.#of(kind).values()]);
  }

  size(kind: HandlerKind): number {
    return this.#places[kind].size;
  }

  get empty(): boolean {
    return Object.values(this.#places).every(({ size }) => size === 0);
  }

  /** Adds an entry. @throws McpDuplicateHandlerError, McpHandlerDefinitionError */
  add(entry: HandlerEntry): void {
    this.assertServes(entry.origin);
    const places = this.#of(entry.kind);
    const key = keyOf(entry.kind, entry.key);
    const present = places.get(key)?.entry;
    if (present) throw new McpDuplicateHandlerError(nounOf(entry), entry.key, present.origin, entry.origin);
    this.assertServable(entry);
    const ordinal = ++this.#lastOrdinal;
    places.set(key, { ordinal, place: String(ordinal), entry });
    this.#changed(entry.kind);
  }

  /**
   * Adds a check of all entries: those that are there, and those that are added later.
   *
   * @param check throws McpHandlerDefinitionError for one that the endpoint cannot serve
   * @throws what the check throws
   */
  assertEach(check: (entry: HandlerEntry) => void): void {
    this.#checks.push(check);
    for (const places of Object.values(this.#places)) for (const { entry } of places.values()) check(entry);
  }

  /** Puts an entry in the place of the one with its key. @returns whether there was one */
  replace(entry: HandlerEntry): boolean {
    this.assertServable(entry);
    const places = this.#of(entry.kind);
    const key = keyOf(entry.kind, entry.key);
    const present = places.get(key);
    if (!present) return false;
    places.set(key, { ...present, entry });
    this.#changed(entry.kind);
    return true;
  }

  /** Removes an entry. @returns whether there was such an entry */
  remove(kind: HandlerKind, key: string): boolean {
    const removed = this.#places[kind].delete(keyOf(kind, key));
    if (removed) this.#changed(kind);
    return removed;
  }

  /** Says that the list of a kind has changed, though its entries have not: others of them are hidden. */
  relisted(kind: ListedKind): void {
    this.#changed(kind);
  }

  /** Completes `changes$` when the endpoint is closed. */
  close(): void {
    this.#changes$.complete();
  }

  /**
   * Returns whether the endpoint serves an entry: one with the option `readOnly` serves no tool that may change
   * something.
   */
  mayServe(entry: HandlerEntry): boolean {
    return !this.readOnly || entry.kind !== 'tool' || entry.wire.annotations?.readOnlyHint === true;
  }

  /** Throws if the endpoint serves no handlers of the app. @throws McpHandlerDefinitionError */
  assertServes(origin: string): void {
    this.offer.assertHandlers(origin);
  }

  /** Throws unless the endpoint can serve the entry. @throws McpHandlerDefinitionError */
  assertServable(entry: HandlerEntry): void {
    for (const check of this.#checks) check(entry);
    if (this.mayServe(entry)) return;
    const reason =
      'its endpoint has the option "readOnly", and the tool does not say that it changes nothing. Add annotations: { readOnlyHint: true } if so, or register it at another endpoint.';
    throw new McpHandlerDefinitionError(entry.origin, reason);
  }

  #of<Kind extends HandlerKind>(kind: Kind): Map<string, PlacedEntry<Kind>> {
    return this.#places[kind];
  }

  #changed(kind: HandlerKind): void {
    this.#lists[kind] = undefined;
    if (kind !== 'method' && kind !== 'feature') this.#changes$.next({ list: LIST_OF[kind] });
  }
}

/** Names the kind of an entry. */
export function nounOf(entry: HandlerEntry): string {
  return entry.kind === 'feature' ? entry.feature.name : entry.kind;
}

/** Returns what an endpoint must have to serve an entry, beside handlers. */
export function needsOf(entry: HandlerEntry): readonly NeededExtension[] {
  if (entry.kind === 'feature') return [entry.feature];
  if (entry.kind !== 'tool') return [];
  return Object.entries(OPTIONS_OF_EXTENSIONS).flatMap(([name, needed]) =>
    (entry.option(name) ?? false) === false ? [] : [needed],
  );
}
