import type { MaybePromise } from '../common/promises.js';
import type { McpContext } from '../calls/mcp-context.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';

/** Why the start fails for a handler where nothing serves it. @internal */
export interface NeededExtension {
  /** The id of the extension that serves it. */
  readonly extension: string;
  /** What the endpoint lacks, and what to do. */
  readonly unserved: string;
}

/**
 * # Handlers of a kind that a feature adds
 *
 * A decorator of the feature declares them. The core finds them, checks their parameters, and puts them into the table of the endpoint; they
 * run inside guards, interceptors and filters, which see a resource. No list of the core has them: the plugin of the feature gets them by
 * `McpEndpointHost.handlers`, and serves them by the methods of its extension.
 *
 * @internal
 */
export interface FeatureKind<Options extends object = object> extends NeededExtension {
  /** Names it in messages. */
  readonly name: string;
  /** The options of the decorator. */
  readonly optionNames: readonly string[];
  /** Returns why the options cannot be served; `undefined`: they can. */
  faultOf(options: Options): string | undefined;
  /** Returns the URI of a handler, which is its key; also for options that have a fault. */
  uriOf(options: Options): string;
  /**
   * Makes the result of a run from what the method has returned.
   *
   * @throws what becomes a JSON-RPC error
   */
  resultOf(returned: unknown, options: Options): unknown;
}

/** The method gets these arguments. */
interface FeatureArgs {
  readonly [name: string]: unknown;
  readonly uri: string;
}

/** A handler of a kind that a feature adds, as its plugin gets it. @internal */
export interface FeatureHandler extends McpHandlerTarget {
  /** The options of its decorator. */
  readonly options: object;
  /** Whether guards decide who sees it. */
  readonly guarded: boolean;
  /** Returns whether lists may show it to this caller: decided by the guards that do not read arguments. */
  visible(context: McpContext): MaybePromise<boolean>;
  /** Returns whether all of its guards accept this caller. */
  admits(args: FeatureArgs, context: McpContext): Promise<boolean>;
  /** Does the same. @throws the error of a run that they refuse */
  refusal(args: FeatureArgs, context: McpContext): Promise<unknown>;
  /**
   * Runs it, with what plugins do with its runs, as a part of the call of another handler.
   *
   * @returns what `resultOf` of its kind has made
   */
  run(args: FeatureArgs, context: McpContext): Promise<unknown>;
}
