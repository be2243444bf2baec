import type { Resource } from '@modelcontextprotocol/server';
import type { McpContext } from '../calls/mcp-context.js';
import { canonicalUri } from '../protocol/uris.js';
import type { HandlerTable, ResourceTemplateEntry, TemplateListing } from '../handlers/registry/handler-table.js';

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

/** The place at which a page begins. */
export interface ListingPlace {
  /** The ordinal of the template. */
  readonly ordinal: number;
  /** The cursor that its method returned, and is called with; `undefined`: none yet. */
  readonly cursor: string | undefined;
  /** Counts the resources of that call that were on earlier pages. */
  readonly offset: number;
}

/** Stands before all templates. */
export const FIRST_LISTING: ListingPlace = { ordinal: 0, cursor: undefined, offset: 0 };

export function hasListings(table: HandlerTable): boolean {
  for (const { listing } of table.all('template')) if (listing) return true;
  return false;
}

/**
 * Returns a page of resources.
 *
 * @param room how many resources still fit
 * @param size how many fit on a whole page, which methods get as `limit`
 * @throws what a method throws, as an error of the protocol
 */
export async function listedResources(
  table: HandlerTable,
  context: McpContext,
  place: ListingPlace,
  { room, size }: { room: number; size: number },
): Promise<{ resources: Resource[]; next?: ListingPlace }> {
  const resources: Resource[] = [];
  let left = room;
  for (const { ordinal, entry } of table.after('template', place.ordinal - 1)) {
    const { listing } = entry;
    if (!listing || table.isHidden(entry, context.mcpCall)) continue;
    const { cursor, offset } = ordinal === place.ordinal ? place : FIRST_LISTING;
    if (left === 0) return { resources, next: { ordinal, cursor, offset } };
    if (!(await listing.visible(context))) continue;
    const listed = await listing.list({ ...(cursor !== undefined && { cursor }), limit: size }, context);
    const taken = listed.resources.slice(offset, offset + left);
    resources.push(...(await admitted(taken, entry, listing, table, context)));
    left -= taken.length;
    const end = offset + taken.length;
    if (end < listed.resources.length) return { resources, next: { ordinal, cursor, offset: end } };
    // A method is called once for each request: a client asks for more.
    if (listed.nextCursor !== undefined) return { resources, next: { ordinal, cursor: listed.nextCursor, offset: 0 } };
  }
  return { resources };
}

/**
 * Returns the resources that this caller may read. A resource with a handler of its own is listed among the fixed ones.
 */
async function admitted(
  resources: readonly Resource[],
  entry: ResourceTemplateEntry,
  listing: TemplateListing,
  table: HandlerTable,
  context: McpContext,
): Promise<readonly Resource[]> {
  const others = resources.filter(({ uri }) => !table.get('resource', uri));
  if (!entry.guarded) return others;
  const may = await Promise.all(
    others.map(({ uri }) => entry.admits({ uri: canonicalUri(uri), variables: listing.variablesOf(uri) }, context)),
  );
  return others.filter((_, index) => may[index]);
}
