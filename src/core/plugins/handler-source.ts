import type { MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';

/** Lists show handlers of these kinds. @internal */
export type ListedKind = 'tool' | 'resource' | 'template' | 'prompt';

/**
 * # Where handlers of an endpoint are from
 *
 * The table of decorated and registered handlers is the first source of an endpoint; catalogues and skills are others. Of two handlers with
 * one key, that of the source which was added first has precedence: the other one is neither listed nor found.
 *
 * Its entries must have been asked about by `PluginHost.ask`, and checked by `HandlerTable.assertServable`, before they are returned.
 *
 * @internal
 */
export interface HandlerSource {
  /** Names it in messages. */
  readonly origin: string;
  /** Whether its list of a kind differs by caller, so that no cache may share it; `undefined`: it lists none of this kind. */
  perCaller(kind: ListedKind): boolean | undefined;
  /**
   * Finds the handler of a call, for callers that may not see it, too: guards are asked later.
   *
   * @param key the name of a tool or prompt, the URI of a resource, in the form in which URIs are compared
   */
  find(key: string, call: McpCall, kind: ListedKind): MaybePromise<McpHandlerTarget | undefined>;
  /**
   * Returns a part of its list, in an order that changes neither repeat nor skip: those behind a place.
   *
   * @param after the place of the item behind which the part begins; `undefined`: at the beginning
   * @param size more items than that are of no use
   * @throws (rejects) the error that the list is answered with
   */
  page(kind: ListedKind, call: McpCall, after: string | undefined, size: number): MaybePromise<SourcePage>;
  /**
   * Returns what decides about requests that concern an earlier call of a tool, such as those about its task; without this method, the
   * handler that `find` gives.
   *
   * @throws (rejects) McpError UNAVAILABLE if it is not known
   */
  deciding?(key: string, call: McpCall): MaybePromise<readonly object[]>;
}

/** A part of the list of a source. @internal */
export interface SourcePage {
  readonly items: readonly SourceItem[];
  /** Whether there is more behind the last item. */
  readonly more: boolean;
}

/** @internal */
export interface SourceItem {
  /** Where the next part begins, if this item is the last one that was shown: any text, as short as possible. */
  readonly place: string;
  /** Lists show it to callers whom its guards accept, unless it is hidden. */
  readonly entry?: McpHandlerTarget;
  /** Lists show this as it is: the source has asked guards. */
  readonly wire?: object;
}
