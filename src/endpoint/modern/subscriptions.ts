import type { Implementation, SubscriptionFilter } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { logError } from '../../context/operator-log.js';
import { MCP_OPTIONS } from '../../common/option-checks.js';
import { quiet } from '../../common/promises.js';
import { type CallingClient, McpCall, type McpHttpCall, runInCall } from '../../context/mcp-call.js';
import { type McpClientPort, McpContext } from '../../context/mcp-context.js';
import { McpDispatcher } from '../../context/mcp-dispatcher.js';
import type { PendingReply } from '../../context/mcp-exchange.js';
import { ServerRequestError } from '../../context/server-request.error.js';
import { ChangeFeed, type HeardChange } from '../../session/change-feed.js';
import { McpError, shutdownRefusal } from '../../wire/errors.js';
import type { JsonRpcRequest } from '../../wire/json-rpc.js';
import { PROTOCOL_OPTIONS, type ResolvedProtocolOptions } from '../protocol.options.js';
import { ModernClient } from './modern-client.js';
import { deliverable, requestedFilter, withUris } from './subscription-filter.js';
import { Subscription, type SubscriptionHost } from './subscription.js';

/** Seconds after which a refused newcomer may try again. */
const RETRY_AFTER = { 'Retry-After': '5' };

/** URIs whose guards are asked side by side; between them, others get their turn. */
const ASKED_AT_ONCE = 50;

/**
 * # The subscriptions of modern clients on this node
 *
 * A `subscriptions/listen` is a request that is answered for as long as the client likes: first with an acknowledgement of
 * what it will be told of, then with what changes, last, if the server ends it, with a result (M7).
 *
 *     open ──close()──▶ closed (newcomers are refused)
 *
 * Invariants: a subscription is counted from its arrival until nothing is left of it, and so is its principal; caps refuse
 * newcomers, they end nobody.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
 */
@Injectable()
export class Subscriptions implements SubscriptionHost {
  readonly #open = new Set<Subscription>();
  /** By principal; the anonymous ones count as one. */
  readonly #held = new Map<string | undefined, number>();
  #closed = false;

  readonly changes$: Observable<HeardChange>;
  /** How the server introduces itself in the result that ends a subscription. */
  readonly serverInfo: Implementation;

  constructor(
    @Inject(ModernClient) private readonly client: CallingClient,
    @Inject(ChangeFeed) { changes$ }: Pick<ChangeFeed, 'changes$'>,
    @Inject(McpDispatcher) private readonly dispatcher: Pick<McpDispatcher, 'capabilities' | 'admitsResource'>,
    @Inject(MCP_OPTIONS) { serverInfo }: { readonly serverInfo: Implementation },
    @Inject(PROTOCOL_OPTIONS)
    private readonly limits: Pick<ResolvedProtocolOptions, 'maxSubscriptions' | 'maxSubscriptionsPerPrincipal'>,
  ) {
    this.changes$ = changes$;
    this.serverInfo = serverInfo;
  }

  /** Subscriptions that are open, or being opened. */
  get count(): number {
    return this.#open.size;
  }

  /**
   * Serves a `subscriptions/listen`.
   *
   * @returns a stream of frames without event ids: a subscription is not resumed but opened again
   * @throws McpError UNAVAILABLE: there are `maxSubscriptions`, or the server stops; TOO_MANY_REQUESTS: the caller has
   *   `maxSubscriptionsPerPrincipal`; INVALID_PARAMS: the filter is missing, malformed, or too large
   */
  listen(http: McpHttpCall, message: JsonRpcRequest): PendingReply {
    this.#assertRoom(http.principal, message);
    const requested = requestedFilter(message);
    const subscription = new Subscription(new McpCall(http, message, this.client), this);
    this.#open.add(subscription);
    this.#hold(http.principal, 1);
    subscription.ask(requested);
    return subscription;
  }

  /** Ends all of them gracefully, and takes no more. Idempotent. */
  close(): void {
    this.#closed = true;
    for (const subscription of [...this.#open]) subscription.close();
  }

  // ---- for the subscriptions -------------------------------------------------------------------------------------

  /** Resources that are not there, or not for this caller, are left out without a word: it must not learn which. */
  async honored(requested: SubscriptionFilter, call: McpCall): Promise<SubscriptionFilter> {
    const filter = deliverable(requested, await this.dispatcher.capabilities(call));
    const { resourceSubscriptions: uris = [] } = filter;
    const { dispatcher } = this;
    if (!dispatcher.admitsResource || uris.length === 0) return filter;
    const context = listeningContext(call);
    const admitted: string[] = [];
    for (let start = 0; start < uris.length && !call.signal.aborted; start += ASKED_AT_ONCE) {
      if (start > 0) await nextTurn();
      const asked = uris.slice(start, start + ASKED_AT_ONCE);
      const answers = await runInCall(call, () =>
        Promise.all(asked.map((uri) => dispatcher.admitsResource!(uri, context))),
      );
      admitted.push(...asked.filter((_, position) => answers[position]));
    }
    return withUris(filter, admitted);
  }

  left(subscription: Subscription): void {
    if (this.#open.delete(subscription)) this.#hold(subscription.principal, -1);
  }

  report(error: unknown): void {
    logError(error);
  }

  // ---- caps ------------------------------------------------------------------------------------------------------

  #assertRoom(principal: string | undefined, { id: requestId }: JsonRpcRequest): void {
    const { maxSubscriptions, maxSubscriptionsPerPrincipal } = this.limits;
    const options = { requestId, headers: RETRY_AFTER };
    if (this.#closed) throw shutdownRefusal().withRequestId(requestId);
    if (this.#open.size >= maxSubscriptions) {
      const message = `This server has ${maxSubscriptions} subscriptions, the most it may have ("maxSubscriptions"). Try again later.`;
      throw new McpError('UNAVAILABLE', message, { ...options, option: 'maxSubscriptions' });
    }
    if ((this.#held.get(principal) ?? 0) >= maxSubscriptionsPerPrincipal) {
      const message = `There are ${maxSubscriptionsPerPrincipal} subscriptions of this caller, the most that one may have; anonymous callers count as one ("maxSubscriptionsPerPrincipal"). Close one, or try again later.`;
      throw new McpError('TOO_MANY_REQUESTS', message, { ...options, option: 'maxSubscriptionsPerPrincipal' });
    }
  }

  #hold(principal: string | undefined, difference: 1 | -1): void {
    const held = (this.#held.get(principal) ?? 0) + difference;
    if (held > 0) this.#held.set(principal, held);
    else this.#held.delete(principal);
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/**
 * The context of guards that say what a caller may listen to: before there is anything to say to its client, and with nothing
 * that would be answered if it were asked.
 */
export function listeningContext(call: McpCall): McpContext {
  return new McpContext(call, new SilentPort(call), undefined);
}

class SilentPort implements McpClientPort {
  readonly inputResponses = undefined;
  readonly requestState = undefined;

  constructor(private readonly call: McpCall) {}

  get clientCapabilities(): Readonly<Record<string, unknown>> {
    return this.call.client.capabilities;
  }

  notify(): Promise<void> {
    return Promise.resolve();
  }

  log(): Promise<void> {
    return Promise.resolve();
  }

  ask(): Promise<never> {
    const text = 'The client cannot be asked before its subscription is decided. Ask in a handler.';
    return quiet(Promise.reject(new ServerRequestError('NO_STREAM', text)));
  }

  once(_key: string, fn: () => unknown): Promise<unknown> {
    return quiet(Promise.resolve().then(fn));
  }
}
