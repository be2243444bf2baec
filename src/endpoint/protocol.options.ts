import { check, namesOf } from '../common/option-checks.js';
import type { McpRequestStateOptions } from '../questions/request-state.options.js';

/** Which eras of the protocol an endpoint serves. @publicApi */
export type Eras = 'both' | 'legacy' | 'modern';

/** Which revisions of the protocol are spoken, and how. @publicApi */
export interface McpProtocolOptions extends McpRequestStateOptions {
  /**
   * Which eras of the protocol the endpoint serves: `legacy`, the revisions 2025-03-26 to 2025-11-25, with sessions;
   * `modern`, revision 2026-07-28, without sessions; or `both`, because clients of both eras are in use. A client of an
   * era that is not served gets an error with the supported revisions.
   *
   * @default 'both'
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
   */
  eras?: Eras;
  /**
   * Maximum number of subscriptions (`subscriptions/listen`) of modern clients on this node. Each is a response that
   * stays open. A further one gets 503; no open one is ended.
   *
   * @default 10000
   * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
   */
  maxSubscriptions?: number;
  /**
   * Maximum number of subscriptions per principal on this node; all anonymous callers count as one principal. A further
   * one gets 429.
   *
   * @default 100
   */
  maxSubscriptionsPerPrincipal?: number;
}

export const PROTOCOL_NAMES = namesOf<McpProtocolOptions>({
  ...{ eras: true, maxSubscriptions: true, maxSubscriptionsPerPrincipal: true },
  ...{ requestStateKeys: true, requestStateTtlMs: true, maxRequestStateBytes: true },
});

/** Every option, decided. */
export type ResolvedProtocolOptions = Required<Omit<McpProtocolOptions, keyof McpRequestStateOptions>>;

/** The injection token of the {@link ResolvedProtocolOptions}. */
export const PROTOCOL_OPTIONS = Symbol('nestjs-mcp-streamable:protocol-options');

/** @throws McpOptionError */
export function resolveProtocolOptions(options: McpProtocolOptions = {}): ResolvedProtocolOptions {
  const { eras = 'both', maxSubscriptions = 10_000, maxSubscriptionsPerPrincipal = 100 } = options;
  const infinite = true;
  return {
    eras: check.oneOf('eras', eras, ['both', 'legacy', 'modern']),
    maxSubscriptions: check.count('maxSubscriptions', maxSubscriptions, { infinite }),
    maxSubscriptionsPerPrincipal: check.count('maxSubscriptionsPerPrincipal', maxSubscriptionsPerPrincipal, {
      infinite,
    }),
  };
}
