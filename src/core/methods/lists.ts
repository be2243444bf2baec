import type { Subscription } from 'rxjs';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import type { EntryOf, McpHandlerListChange, HandlerTable, ListedKind } from '../handlers/registry/handler-table.js';
import type { ToolCatalogues } from '../../catalogue/tool-catalogues.js';
import type { McpSessionService } from '../sessions/mcp-session.service.js';
import type { SpecTypeName } from '../protocol/spec.js';
import { shown } from '../protocol/errors.js';
import { type CachePolicy, listHints } from './cache-hints.js';
import type { HandlerCalls } from './handler-calls.js';
import { FIRST_LISTING, hasListings, listedResources, type ListingPlace } from './resource-listings.js';
import { invalidParams, type ServedMethod, type ServedMethods, paramsReader } from './method.js';

/** The prefix is the version of the format. */
const CURSOR = /^1:(\d{1,15})$/;
/**
 * Cursors behind the entries of `resources/list` hold the template, how many of its resources were shown, and its own
 * cursor.
 */
const LISTING_CURSOR = /^2:(\d{1,15}):(\d{1,15})(?::(.*))?$/s;

export interface ListOptions {
  /** A page of a list has so many entries. */
  readonly pageSize: number;
  readonly cache: CachePolicy;
  readonly catalogues: ToolCatalogues;
}

interface ListParams {
  readonly cursor?: string | undefined;
}

/** Serves `tools/list`, `resources/list`, `resources/templates/list` and `prompts/list`. */
export function listMethods(table: HandlerTable, calls: HandlerCalls, options: ListOptions): ServedMethods {
  const list = (kind: ListedKind, field: string, type: SpecTypeName): ServedMethod<ListParams> => ({
    read: paramsReader(type, ({ cursor }) =>
      cursor === undefined || typeof cursor === 'string' ? { cursor } : undefined,
    ),
    async serve({ cursor }, call) {
      const { pageSize: size, cache } = options;
      const { entries, nextCursor } = await visiblePage(table, kind, calls.context(call), { cursor, size });
      return {
        [field]: entries.map((entry) => wireFor(entry, call)),
        nextCursor,
        ...listHints(call, table, kind, cache),
      };
    },
  });
  const tools = list('tool', 'tools', 'ListToolsRequest');
  const resources = list('resource', 'resources', 'ListResourcesRequest');
  return {
    'tools/list': {
      ...tools,
      serve: (params: ListParams, call: McpCall) =>
        options.catalogues.empty
          ? tools.serve(params, call)
          : withCatalogues(table, calls.context(call), params, call, options),
    },
    'resources/list': {
      ...resources,
      serve: (params: ListParams, call: McpCall) =>
        hasListings(table)
          ? withListings(table, calls.context(call), params, call, options)
          : resources.serve(params, call),
    },
    'resources/templates/list': list('template', 'resourceTemplates', 'ListResourceTemplatesRequest'),
    'prompts/list': list('prompt', 'prompts', 'ListPromptsRequest'),
  };
}

/** Returns what lists show of an entry to the client of a call. */
function wireFor({ wire, legacyWire }: EntryOf<ListedKind>, call: McpCall): object {
  return legacyWire && !call.takesAnyStructure ? legacyWire : wire;
}

/** Returns a page of `tools/list` where catalogues list tools of the caller, behind those of the endpoint. */
async function withCatalogues(
  table: HandlerTable,
  context: McpContext,
  { cursor }: ListParams,
  call: McpCall,
  { pageSize: size, cache, catalogues }: ListOptions,
): Promise<object> {
  const { ttlMs } = listHints(call, table, 'tool', cache);
  const hints = ttlMs === undefined ? {} : { ttlMs, cacheScope: 'private' };
  const begun = cataloguePlaceOf(cursor);
  const page = begun ? { entries: [] } : await visiblePage(table, 'tool', context, { cursor, size });
  const tools: object[] = page.entries.map((entry) => wireFor(entry, call));
  if (page.nextCursor !== undefined) return { tools, nextCursor: page.nextCursor, ...hints };
  let last = begun ?? FIRST_CATALOGUE;
  const rest = (await catalogues.list(call)).flatMap((entries, ordinal) =>
    entries.filter(({ key }) => isBehind({ ordinal, name: key }, last)).map((entry) => ({ ordinal, entry })),
  );
  for (let start = 0; start < rest.length; start += size) {
    const chunk = rest.slice(start, start + size);
    const shown = await Promise.all(
      chunk.map(async ({ entry }) => !table.isHidden(entry, call) && (!entry.guarded || entry.visible(context))),
    );
    for (const [position, { ordinal, entry }] of chunk.entries()) {
      if (!shown[position]) continue;
      if (tools.length === size) return { tools, nextCursor: catalogueCursorOf(last), ...hints };
      tools.push(wireFor(entry, call));
      last = { ordinal, name: entry.key };
    }
  }
  return { tools, nextCursor: undefined, ...hints };
}

/** Cursors in catalogues hold the catalogue and the name of the last tool that was shown: their tools are in the order of the names. */
const CATALOGUE_CURSOR = /^3:(\d{1,15}):(.*)$/s;

interface CataloguePlace {
  readonly ordinal: number;
  readonly name: string;
}

/** No name is empty. */
const FIRST_CATALOGUE: CataloguePlace = { ordinal: 0, name: '' };

function isBehind({ ordinal, name }: CataloguePlace, place: CataloguePlace): boolean {
  return ordinal > place.ordinal || (ordinal === place.ordinal && name > place.name);
}

function catalogueCursorOf({ ordinal, name }: CataloguePlace): string {
  return Buffer.from(`3:${ordinal}:${name}`).toString('base64url');
}

function cataloguePlaceOf(cursor: string | undefined): CataloguePlace | undefined {
  const match = cursor && CATALOGUE_CURSOR.exec(Buffer.from(cursor, 'base64url').toString());
  return match ? { ordinal: Number(match[1]), name: match[2]! } : undefined;
}

/** Returns a page of `resources/list` where templates list their resources. */
async function withListings(
  table: HandlerTable,
  context: McpContext,
  { cursor }: ListParams,
  call: McpCall,
  { pageSize: size, cache }: ListOptions,
): Promise<object> {
  const hints = listHints(call, table, 'resource', cache);
  const begun = listingPlaceOf(cursor);
  const page = begun ? { entries: [] } : await visiblePage(table, 'resource', context, { cursor, size });
  const resources: object[] = page.entries.map(({ wire }) => wire);
  if (page.nextCursor !== undefined) return { resources, nextCursor: page.nextCursor, ...hints };
  const room = size - resources.length;
  const listed = await listedResources(table, context, begun ?? FIRST_LISTING, { room, size });
  const nextCursor = listed.next && listingCursorOf(listed.next);
  return { resources: [...resources, ...listed.resources], nextCursor, ...hints };
}

function listingCursorOf({ ordinal, offset, cursor }: ListingPlace): string {
  return Buffer.from(`2:${ordinal}:${offset}${cursor === undefined ? '' : `:${cursor}`}`).toString('base64url');
}

function listingPlaceOf(cursor: string | undefined): ListingPlace | undefined {
  const match = cursor && LISTING_CURSOR.exec(Buffer.from(cursor, 'base64url').toString());
  return match ? { ordinal: Number(match[1]), offset: Number(match[2]), cursor: match[3] } : undefined;
}

/**
 * Returns one page of what a caller may see.
 *
 * A cursor is the ordinal of the last entry that was looked at: entries that are added or removed between two pages
 * neither shift nor repeat the others.
 *
 * @param size entries per page
 * @throws ProtocolError InvalidParams for an invalid cursor
 */
async function visiblePage<Kind extends ListedKind>(
  table: HandlerTable,
  kind: Kind,
  context: McpContext,
  { cursor, size }: { cursor: string | undefined; size: number },
): Promise<{ entries: EntryOf<Kind>[]; nextCursor?: string }> {
  const rest = table.after(kind, ordinalOf(cursor));
  const entries: EntryOf<Kind>[] = [];
  // Entries are taken a chunk at a time: the guards of a chunk run side by side, and none for entries of a later page.
  for (let start = 0; start < rest.length; start += size) {
    const chunk = rest.slice(start, start + size);
    const shown = await Promise.all(
      chunk.map(
        async ({ entry }) => !table.isHidden(entry, context.mcpCall) && (!entry.guarded || entry.visible(context)),
      ),
    );
    for (const [position, { ordinal, entry }] of chunk.entries()) {
      if (!shown[position]) continue;
      entries.push(entry);
      const last = start + position + 1 === rest.length;
      if (entries.length === size && !last) return { entries, nextCursor: cursorOf(ordinal) };
    }
  }
  return { entries };
}

function cursorOf(ordinal: number): string {
  return Buffer.from(`1:${ordinal}`).toString('base64url');
}

function ordinalOf(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  const match = CURSOR.exec(Buffer.from(cursor, 'base64url').toString('latin1'));
  if (!match) throw invalidParams(`The cursor ${shown(cursor)} is not valid. Request the list again without a cursor.`);
  return Number(match[1]);
}

/**
 * Notifies the sessions of an endpoint that a list has changed: once per list and turn of the event loop, however many
 * entries came and went in it.
 */
export class ListChangedRelay {
  readonly #changed = new Set<McpHandlerListChange['list']>();
  readonly #subscription: Subscription;
  #turn: NodeJS.Immediate | undefined;

  constructor(
    table: HandlerTable,
    private readonly sessions: McpSessionService,
    private readonly report: (error: unknown) => void,
  ) {
    this.#subscription = table.changes$.subscribe(({ list }) => {
      this.#changed.add(list);
      this.#turn ??= setImmediate(() => this.#notify());
    });
  }

  close(): void {
    clearImmediate(this.#turn);
    this.#subscription.unsubscribe();
  }

  #notify(): void {
    this.#turn = undefined;
    for (const list of this.#changed) {
      this.sessions.announce({ method: `notifications/${list}/list_changed` }).catch(this.report);
    }
    this.#changed.clear();
  }
}
