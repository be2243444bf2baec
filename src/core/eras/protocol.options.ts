import { count, oneOf, type OptionTable, type Resolved } from '../common/options.js';
import { type McpRequestStateOptions, REQUEST_STATE_TABLE } from '../questions/request-state.options.js';

/** Which eras of the protocol an endpoint serves. @publicApi */
export type McpEras = 'both' | 'legacy' | 'modern';

/** Decides which revisions of the protocol an endpoint serves, and how. @internal */
export interface McpProtocolOptions extends McpRequestStateOptions {
  /**
   * Decides which eras of the protocol the endpoint serves. `legacy` is the revisions 2025-03-26 to 2025-11-25, with
   * sessions; `modern` is revision 2026-07-28, without sessions. The default is `both`, because clients of both eras
   * are in use. A client of an era that is not served gets an error with the supported revisions.
   *
   * @default 'both'
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
   */
  eras?: McpEras;
  /**
   * Limits the number of subscriptions (`subscriptions/listen`) of modern clients on this node. Each is a response that
   * stays open. A further subscription gets 503, and no open one is ended.
   *
   * @default 10000
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
   */
  maxSubscriptions?: number;
  /**
   * Limits the number of subscriptions per principal on this node. All anonymous callers count as one principal. A
   * further subscription gets 429.
   *
   * @default 100
   */
  maxSubscriptionsPerPrincipal?: number;
}

export const PROTOCOL_TABLE = {
  eras: oneOf('both', ['both', 'legacy', 'modern']),
  maxSubscriptions: count(10_000, { infinite: true }),
  maxSubscriptionsPerPrincipal: count(100, { infinite: true }),
  ...REQUEST_STATE_TABLE,
} satisfies OptionTable<McpProtocolOptions>;

export type ResolvedProtocolOptions = Resolved<typeof PROTOCOL_TABLE>;
