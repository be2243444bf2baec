import { Inject, Injectable } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { isThenable, type MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import { logger } from '../calls/operator-log.js';
import type { HandlerSource, SourceItem } from '../plugins/handler-source.js';
import type { ListedKind } from '../plugins/mcp-plugin.js';
import type { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { HandlerTable, type ListedEntry, type McpHandlerListChange } from '../handlers/registry/handler-table.js';
import { McpSessionService } from '../sessions/mcp-session.service.js';
import type { SpecTypeName } from '../protocol/spec.js';
import { shown } from '../protocol/errors.js';
import { type CachePolicy, listHints } from './cache-hints.js';
import type { HandlerCalls } from './handler-calls.js';
import { TemplateResources } from './resource-listings.js';
import type { ServedMethod, ServedMethods } from '../plugins/served-method.js';
import { invalidParams } from '../protocol/spec.js';
import { paramsReader } from './method.js';

/** The prefix is the version of the format. The ordinal of a source follows, and a place in its list. */
const CURSOR = /^4:(\d{1,9}):(.+)$/s;

export interface ListOptions {
  /** A page of a list has so many entries. */
  readonly pageSize: number;
  readonly cache: CachePolicy;
}

interface ListParams {
  readonly cursor?: string | undefined;
}

/** Serves `tools/list`, `resources/list`, `resources/templates/list` and `prompts/list`. */
export function listMethods(sources: EndpointSources, calls: HandlerCalls, options: ListOptions): ServedMethods {
  const { pageSize: size, cache } = options;
  const { table } = sources;
  const templates = new TemplateResources(table, calls, size);
  const list = (kind: ListedKind, field: string, type: SpecTypeName): ServedMethod<ListParams> => ({
    read: paramsReader(type, ({ cursor }) =>
      cursor === undefined || typeof cursor === 'string' ? { cursor } : undefined,
    ),
    async serve({ cursor }, call) {
      const all = [table, templates, ...sources.added];
      const list = new VisibleList(kind, all, sources, calls.context(call));
      const { items, nextCursor } = await list.page(cursor, size);
      call.write = (result) => textOfList(result, field, items, call);
      return { [field]: items.map((item) => wireOf(item, call)), nextCursor, ...listHints(call, sources, kind, cache) };
    },
  });
  return {
    'tools/list': list('tool', 'tools', 'ListToolsRequest'),
    'resources/list': list('resource', 'resources', 'ListResourcesRequest'),
    'resources/templates/list': list('template', 'resourceTemplates', 'ListResourceTemplatesRequest'),
    'prompts/list': list('prompt', 'prompts', 'ListPromptsRequest'),
  };
}

/** A place in the list of all sources. */
interface ListPlace {
  readonly ordinal: number;
  /** The place in the list of the source; `undefined`: its beginning. */
  readonly place: string | undefined;
}

/**
 * # What a caller sees of a list
 *
 * The lists of all sources follow each other. A page is filled with the entries that the caller may see, from as many sources as it takes.
 *
 * A cursor names the last entry that was looked at, so that entries which are added or removed between two pages neither shift nor repeat
 * the others.
 */
class VisibleList {
  constructor(
    private readonly kind: ListedKind,
    /** The place of a source is its ordinal. */
    private readonly all: readonly HandlerSource[],
    private readonly sources: EndpointSources,
    private readonly context: McpContext,
  ) {}

  /** @throws ProtocolError InvalidParams for an invalid cursor; what a source throws */
  async page(cursor: string | undefined, size: number): Promise<{ items: SourceItem[]; nextCursor?: string }> {
    const { kind, all } = this;
    const call = this.context.mcpCall;
    const begin = this.#placeOf(cursor);
    const shown: SourceItem[] = [];
    let last = begin;
    for (let { ordinal } = begin; ordinal < all.length; ordinal++) {
      const source = all[ordinal]!;
      if (!this.#lists(source)) continue;
      let after = ordinal === begin.ordinal ? begin.place : undefined;
      let chunk = size - shown.length;
      do {
        const page = await source.page(kind, call, after, chunk);
        if (!page) throw invalidCursor(cursor);
        // The call is over: its client does not wait for the rest, which may be endless.
        if (this.context.aborted) return { items: shown };
        // No guard is asked about the entries of a later page.
        if (shown.length === size && page.next !== undefined) return { items: shown, nextCursor: cursorOf(last) };
        const isShown = await this.#shown(page.items, ordinal);
        for (const [index, item] of page.items.entries()) {
          if (!isShown[index]) continue;
          if (shown.length === size) return { items: shown, nextCursor: cursorOf(last) };
          shown.push(item);
          last = { ordinal, place: item.place };
        }
        after = page.next;
        // A part without items says nothing about how many follow it: the client decides whether to go on.
        const isLater = page.later === true || page.items.length === 0;
        if (after !== undefined && (isLater || shown.length === size)) {
          return { items: shown, nextCursor: cursorOf({ ordinal, place: after }) };
        }
        // Guards of a chunk run side by side, also when few entries are visible and the page lacks one.
        chunk = size;
      } while (after !== undefined);
    }
    return { items: shown };
  }

  /** Returns which items the caller sees. */
  #shown(items: readonly SourceItem[], ordinal: number): MaybePromise<readonly boolean[]> {
    const answers = items.map(({ entry }): MaybePromise<boolean> => {
      return !entry || this.#isShown(entry as unknown as ListedEntry, ordinal);
    });
    return answers.some(isThenable) ? Promise.all(answers.map(async (each) => each)) : (answers as boolean[]);
  }

  #isShown(entry: ListedEntry, ordinal: number): MaybePromise<boolean> {
    if (this.sources.table.isHidden(entry, this.context.mcpCall)) return false;
    if (ordinal > 0) return this.#isFirst(entry, ordinal);
    return !entry.guarded || this.#isVisible(entry);
  }

  async #isFirst(entry: ListedEntry, ordinal: number): Promise<boolean> {
    if (await this.sources.isTaken(entry, this.context.mcpCall, this.all.slice(0, ordinal))) return false;
    return !entry.guarded || entry.visible(this.context);
  }

  async #isVisible(entry: ListedEntry): Promise<boolean> {
    return entry.visible(this.context);
  }

  #lists(source: HandlerSource): boolean {
    return source === this.sources.table || source.perCaller(this.kind) !== undefined;
  }

  /** @throws ProtocolError InvalidParams */
  #placeOf(cursor: string | undefined): ListPlace {
    if (cursor === undefined) return { ordinal: 0, place: undefined };
    const match = CURSOR.exec(Buffer.from(cursor, 'base64url').toString());
    const source = match ? this.all[Number(match[1])] : undefined;
    if (!source || !this.#lists(source)) throw invalidCursor(cursor);
    return { ordinal: Number(match![1]), place: match![2] };
  }
}

/** Returns what a list shows of an item to the client of a call. */
function wireOf({ wire, entry }: SourceItem, call: McpCall): object {
  if (wire) return wire;
  const listed = entry as unknown as ListedEntry;
  return isLegacy(listed, call) ? listed.legacyWire! : listed.wire;
}

/** Returns that as JSON, which is kept on the entry: writing 1,000 tools anew takes longer than all else that a list does. */
function textOf({ wire, entry }: SourceItem, call: McpCall): string {
  if (wire) return JSON.stringify(wire);
  const listed = entry as unknown as ListedEntry;
  return isLegacy(listed, call)
    ? (listed.legacyText ??= JSON.stringify(listed.legacyWire))
    : (listed.text ??= JSON.stringify(listed.wire));
}

function isLegacy({ legacyWire }: ListedEntry, call: McpCall): boolean {
  return legacyWire !== undefined && !call.takesAnyStructure;
}

/**
 * Returns the result of a list as JSON. Texts are appended, not joined: V8 copies them once then, when the whole answer is sent.
 *
 * @param items those that are in its field
 */
function textOfList(result: object, field: string, items: readonly SourceItem[], call: McpCall): string {
  const { [field]: _, ...others } = result as Readonly<Record<string, unknown>>;
  const rest = JSON.stringify(others);
  let text = `{"${field}":[`;
  let separator = '';
  for (const item of items) {
    text += separator + textOf(item, call);
    separator = ',';
  }
  return rest === '{}' ? `${text}]}` : `${text}],${rest.slice(1)}`;
}

function cursorOf({ ordinal, place }: ListPlace): string {
  return Buffer.from(`4:${ordinal}:${place}`).toString('base64url');
}

function invalidCursor(cursor: string | undefined): Error {
  return invalidParams(`The cursor ${shown(cursor)} is not valid. Request the list again without a cursor.`);
}

/** Principals, `null` for anonymous callers; `undefined`: all. */
type Principals = ReadonlySet<string | null> | undefined;

/**
 * Notifies clients of an endpoint that a list has changed: once per list and turn of the event loop, however many entries came and went
 * in it.
 */
@Injectable()
export class ListChangedRelay {
  readonly #changed = new Map<McpHandlerListChange['list'], Principals>();
  #subscription: Subscription | undefined;
  #turn: NodeJS.Immediate | undefined;

  constructor(
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(McpSessionService) private readonly sessions: McpSessionService,
  ) {}

  /** Announces the changes of the table from now on. */
  start(): void {
    this.#subscription = this.table.changes$.subscribe(({ list }) => this.changed(list));
  }

  close(): void {
    clearImmediate(this.#turn);
    this.#subscription?.unsubscribe();
  }

  /** @param only the principals whose list has changed; absent: those of all */
  changed(list: McpHandlerListChange['list'], only?: Principals): void {
    const before = this.#changed.has(list) ? this.#changed.get(list) : NOBODY;
    this.#changed.set(list, only && before ? new Set([...before, ...only]) : undefined);
    this.#turn ??= setImmediate(() => this.#notify());
  }

  #notify(): void {
    this.#turn = undefined;
    for (const [list, only] of this.#changed) {
      const notification = { method: `notifications/${list}/list_changed` };
      this.sessions.announce(notification, only).catch((error: unknown) => logger.error(String(error)));
    }
    this.#changed.clear();
  }
}

const NOBODY: Principals = new Set();
