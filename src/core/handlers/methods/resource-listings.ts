import type { Resource } from '@modelcontextprotocol/server';
import type { McpContext } from '../../calls/mcp-context.js';
import type { HandlerTable, ResourceTemplateEntry, TemplateListing } from '../registry/handler-table.js';

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

/** Where a page begins. */
export interface ListingPlace {
  /** Of the template. */
  readonly ordinal: number;
  /** What its method is called with: the cursor that it returned; `undefined`: none yet. */
  readonly cursor: string | undefined;
  /** How many of that call's resources were on earlier pages. */
  readonly offset: number;
}

/** The place before all templates. */
export const FIRST_LISTING: ListingPlace = { ordinal: 0, cursor: undefined, offset: 0 };

export function hasListings(table: HandlerTable): boolean {
  for (const { listing } of table.all('template')) if (listing) return true;
  return false;
}

/**
 * @param room how many resources still fit
 * @param size how many fit on a whole page, which methods are told
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
    if (!listing) continue;
    const { cursor, offset } = ordinal === place.ordinal ? place : FIRST_LISTING;
    if (left === 0) return { resources, next: { ordinal, cursor, offset } };
    if (!(await listing.visible(context))) continue;
    const listed = await listing.list({ ...(cursor !== undefined && { cursor }), limit: size }, context);
    const taken = listed.resources.slice(offset, offset + left);
    resources.push(...(await admitted(taken, entry, listing, table, context)));
    left -= taken.length;
    const end = offset + taken.length;
    if (end < listed.resources.length) return { resources, next: { ordinal, cursor, offset: end } };
    // One call of a method for each request: a client asks for more.
    if (listed.nextCursor !== undefined) return { resources, next: { ordinal, cursor: listed.nextCursor, offset: 0 } };
  }
  return { resources };
}

/** The resources that this caller may read. One with a handler of its own stands among those. */
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
    others.map(({ uri }) => entry.admits({ uri, variables: listing.variablesOf(uri) }, context)),
  );
  return others.filter((_, index) => may[index]);
}
