import type { Resource } from '@modelcontextprotocol/server';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import { canonicalUri } from '../protocol/uris.js';
import type { HandlerSource, SourceItem, SourcePage } from '../plugins/handler-source.js';
import type {
  HandlerTable,
  ListedKind,
  ResourceTemplateEntry,
  TemplateListing,
} from '../handlers/registry/handler-table.js';
import type { HandlerCalls } from './handler-calls.js';

/** The ordinal of the template, how many resources of a call of its method were on earlier pages, and the cursor of that call. */
const PLACE = /^(\d{1,15}):(\d{1,15})(?::(.*))?$/s;

interface ListingPlace {
  readonly ordinal: number;
  /** The method has returned it, and is called with it; `undefined`: none yet. */
  readonly cursor: string | undefined;
  readonly offset: number;
}

const FIRST: ListingPlace = { ordinal: 0, cursor: undefined, offset: 0 };

/**
 * # The resources of templates in `resources/list`
 *
 * They follow the resources with a fixed URI: template by template, in the order of their list, each as its method lists them for
 * this caller. A page that has room takes from several templates. A template that has more, or that has more than a page has room
 * for, goes on with the next page.
 *
 * A caller sees what it may read: the guards of the list's method decide whether it runs, and those of the template's method about
 * each resource.
 */
export class TemplateResources implements HandlerSource {
  /** @param limit so many resources fit on a whole page, which methods get */
  constructor(
    private readonly table: HandlerTable,
    private readonly calls: Pick<HandlerCalls, 'context'>,
    private readonly limit: number,
  ) {}

  perCaller(kind: ListedKind): boolean | undefined {
    if (kind !== 'resource') return undefined;
    for (const { listing } of this.table.all('template')) if (listing) return true;
    return undefined;
  }

  /** The table finds its templates. */
  find(): undefined {
    return undefined;
  }

  /** @throws (rejects) what a method throws, as an error of the protocol */
  async page(
    _kind: ListedKind,
    call: McpCall,
    after: string | undefined,
    size: number,
  ): Promise<SourcePage | undefined> {
    const place = after === undefined ? FIRST : placeOf(after);
    if (!place) return undefined;
    const context = this.calls.context(call);
    const items: SourceItem[] = [];
    let left = size;
    for (const { ordinal, entry } of this.table.placed('template')) {
      const { listing } = entry;
      if (ordinal < place.ordinal || !listing || this.table.isHidden(entry, call)) continue;
      const { cursor, offset } = ordinal === place.ordinal ? place : FIRST;
      if (left === 0) return { items, next: textOf({ ordinal, cursor, offset }), later: true };
      if (!(await listing.visible(context))) continue;
      const listed = await listing.list({ ...(cursor !== undefined && { cursor }), limit: this.limit }, context);
      const taken = listed.resources.slice(offset, offset + left);
      const may = await this.#mayRead(taken, entry, listing, context);
      for (const [index, wire] of taken.entries()) {
        if (may[index]) items.push({ place: textOf({ ordinal, cursor, offset: offset + index + 1 }), wire });
      }
      const end = offset + taken.length;
      left -= taken.length;
      if (end < listed.resources.length) return { items, next: textOf({ ordinal, cursor, offset: end }), later: true };
      // A method is called once for each request: a client asks for more.
      const { nextCursor } = listed;
      if (nextCursor === undefined) continue;
      return { items, next: textOf({ ordinal, cursor: nextCursor, offset: 0 }), later: true };
    }
    return { items };
  }

  /** Returns which resources this caller may read. A resource with a handler of its own is listed among the fixed ones. */
  #mayRead(
    resources: readonly Resource[],
    entry: ResourceTemplateEntry,
    listing: TemplateListing,
    context: McpContext,
  ): Promise<boolean[]> {
    return Promise.all(
      resources.map(async ({ uri }) => {
        if (this.table.get('resource', uri)) return false;
        return !entry.guarded || entry.admits({ uri: canonicalUri(uri), variables: listing.variablesOf(uri) }, context);
      }),
    );
  }
}

function textOf({ ordinal, offset, cursor }: ListingPlace): string {
  return `${ordinal}:${offset}${cursor === undefined ? '' : `:${cursor}`}`;
}

function placeOf(text: string): ListingPlace | undefined {
  const match = PLACE.exec(text);
  return match ? { ordinal: Number(match[1]), offset: Number(match[2]), cursor: match[3] } : undefined;
}
