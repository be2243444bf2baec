import type { MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';

/** Lists show handlers of these kinds. @experimental */
export type ListedKind = 'tool' | 'resource' | 'template' | 'prompt';

/**
 * # Where handlers of an endpoint are from
 *
 * The table of decorated and registered handlers is the first source of an endpoint; plugins add others, such as that of catalogues. Of
 * two handlers with one key, that of the source which was added first has precedence: the other one is neither listed nor found.
 *
 * Sources return entries that `McpEndpointHost.entryOf()` has made: plugins have been asked about them.
 *
 * @experimental
 */
export interface HandlerSource {
  /** Says what it serves, for the log at start, such as `tools per caller of PluginTools`. @default the log says nothing */
  readonly summary?: string | undefined;
  /** Whether its list of a kind differs by caller, so that no cache may share it; `undefined`: it has none of this kind. */
  perCaller(kind: ListedKind): boolean | undefined;
  /**
   * Finds the handler of a call, also for callers that may not see it: guards are asked later.
   *
   * @param key the name of a tool or prompt, the URI of a resource, the URI template, in the form in which they are compared
   * @param kind for a resource, a template that matches its URI is found too. One that does not match it is left out: of URIs with dot
   *   segments, `template.written()` gives the variables nevertheless (D42)
   */
  find(key: string, call: McpCall, kind: ListedKind): MaybePromise<McpHandlerTarget | undefined>;
  /**
   * Returns a part of its list, in an order that changes neither repeat nor skip.
   *
   * @param after the place behind which the part begins; `undefined`: at the beginning. Clients send it, so it may be any text
   * @param size more items than that are of no use; 0: whether there is one
   * @returns `undefined`: it has no such place
   * @throws (rejects) the error that the list is answered with
   */
  page(kind: ListedKind, call: McpCall, after: string | undefined, size: number): MaybePromise<SourcePage | undefined>;
  /**
   * Decides about requests that concern an earlier call of a tool, such as those about its task.
   *
   * @internal
   *
   * @default the handler that `find` gives
   * @returns the tool, or what may have been around it if it is gone
   * @throws (rejects) McpError UNAVAILABLE if it is not known
   */
  deciding?(key: string, call: McpCall): MaybePromise<McpHandlerTarget | readonly object[]>;
  /**
   * Returns the handlers of the lists that it keeps, those of the list that was used last first. It calls no provider of the app.
   *
   * @internal
   *
   * @default none
   */
  kept?(kind: ListedKind): Iterable<KeptHandler>;
  /** The classes of the app that it has its handlers from, for `McpRegistry.changed()`. @default none */
  readonly classes?: readonly SourceClass[];
  /**
   * The app says that what one of its classes lists has changed.
   *
   * @param principal for whom, `null` for anonymous callers; absent: for all
   */
  changed?(type: object, principal?: string | null): void;
}

type SourceClass = object & { readonly name: string };

/** A handler in a list that a source keeps for a caller. @internal */
export interface KeptHandler {
  readonly entry: McpHandlerTarget;
  /** `null`: an anonymous caller. */
  readonly principal: string | null;
}

/** Runs a handler of a source without the enhancers of the app: it stands in the place of a function. @experimental */
export interface BareHandler {
  /** Whether `admits` refuses some callers. */
  readonly guarded: boolean;
  run(args: Readonly<Record<string, unknown>>, context: McpContext): Promise<unknown>;
  /** Returns whether a caller may have what it would return. */
  admits(args: Readonly<Record<string, unknown>>, context: McpContext): MaybePromise<boolean>;
}

/** A part of the list of a source. @experimental */
export interface SourcePage {
  readonly items: readonly SourceItem[];
  /** The place behind which the next part begins; absent: this one is the last. With `size` 0 any text says that there is one. */
  readonly next?: string | undefined;
  /** Whether the client must ask for the next part, though its page has room: this request has cost the source enough. So it must behind a part without items. */
  readonly later?: boolean;
}

/** One handler of a list. @experimental */
export interface SourceItem {
  /** The next part begins behind it, if this item is the last one that is shown: a text that is as short as possible. */
  readonly place: string;
  /** Lists show it to callers whom its guards accept, unless it is hidden, or an earlier source has its key. */
  readonly entry?: McpHandlerTarget;
  /** Lists show this as it is: the source has asked guards. */
  readonly wire?: object;
}

/**
 * Returns a part of a list.
 *
 * @param items in the order of their places
 * @param after the place behind which the part begins, as `page()` got it
 * @param size the most items of the part
 * @param isBehind returns whether an item is behind `after`
 * @experimental
 */
export function partOf<Item extends SourceItem>(
  items: readonly Item[],
  after: string | undefined,
  size: number,
  isBehind: (item: Item) => boolean,
): SourcePage {
  const begin = after === undefined ? 0 : items.findIndex(isBehind);
  if (begin === -1) return { items: [] };
  const part = items.slice(begin, begin + size);
  const isLast = begin + part.length === items.length;
  return { items: part, next: isLast ? undefined : (part.at(-1)?.place ?? after ?? '') };
}
