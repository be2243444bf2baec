import type { MaybePromise } from '../../common/promises.js';
import type { McpContext } from '../../calls/mcp-context.js';
import type { ArgumentsOf } from '../schema/schema-types.js';

/*
 * # Options of tools with effects: `confirm` and `idempotency`
 */

/** The arguments of a tool, as its schema makes them; a JSON Schema, and a route, have no type. @internal */
// oxlint-disable-next-line typescript/no-explicit-any -- so that a function may name the arguments
export type EffectArguments<Schema> = unknown extends ArgumentsOf<Schema> ? any : ArgumentsOf<Schema>;

/**
 * Makes the question that the user is asked before a tool runs.
 *
 * @internal
 */
export type ConfirmMessage<Args> = (args: Args, context: McpContext) => MaybePromise<string>;

/** Decides how a tool asks the user before it runs. @internal */
export interface ConfirmOptions {
  /**
   * Limits the milliseconds that the user has to confirm. A later answer is refused, and the tool does not run. In
   * revision 2026-07-28 `requestStateTtlMs` of the endpoint applies in addition, and in a session
   * `serverRequestTimeoutMs`.
   *
   * @default 300000 (5 minutes)
   */
  ttlMs?: number;
  /**
   * Decides what happens when the client cannot ask its user. With `'refuse'` the model gets a text. With `'url'` the
   * user is sent to a page of the app, by a URL elicitation or by a link in the result; see `McpConfirmations`. The
   * caller must not be anonymous then.
   *
   * @default 'refuse'
   */
  whenUnable?: 'refuse' | 'url';
  /**
   * The address of the page, such as `https://shop.example.com/confirm/{id}`, or a function that returns it. `id` is unguessable, and
   * must be part of the address.
   */
  url?: string | ((id: string) => string);
}

/** The option `confirm` of a tool, with options. @internal */
export interface ToolConfirmOptions<Args> extends ConfirmOptions {
  /** The question. In a text, `{id}` stands for the argument `id`, as JSON. */
  message: string | ConfirmMessage<Args>;
}

/** Decides which calls of a tool are repeats of each other: these run once. @internal */
export interface IdempotencyOptions<Args> {
  /**
   * Returns the key of a call. If it returns `undefined`, the call has no key, and runs like any other. Give this or
   * `argument`.
   *
   * @default the argument
   */
  key?: (args: Args, context: McpContext) => MaybePromise<string | undefined>;
  /** Names the argument that is the key: the client makes up a text for each thing that it wants done. */
  argument?: keyof Args & string;
  /**
   * Sets the milliseconds that a result is kept for repeats, from the end of the call. With a higher value later
   * repeats are recognized, and the store holds more.
   *
   * @default 86400000 (24 hours)
   */
  ttlMs?: number;
  /**
   * Limits a kept result, in bytes of JSON. If a result is larger, a repeat learns that the tool has run, but does not
   * get the result.
   *
   * @default 65536 (64 KiB)
   */
  maxBytes?: number;
  /**
   * Limits the number of keys of a caller, for this tool; anonymous callers without a session count by their address, and
   * have ten times the number together. Calls with further keys are refused until one expires. The
   * option has no effect on a `stateStore` without quotas, such as a plain Keyv.
   *
   * @default 1000
   */
  maxKeys?: number;
  /**
   * Decides what a repeat gets if the result says that the tool failed. With `'keep'` it gets that result, because the
   * failure may have come after the effect. With `'free'` it runs the tool again, which suits tools that fail only
   * before their effect.
   *
   * @default 'keep'
   */
  errors?: 'keep' | 'free';
}
