import type { Implementation, SubscriptionFilter } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { Observable, type Subscriber, Subscription as RxSubscription } from 'rxjs';
import { McpClock, systemClock } from '../../common/clock.js';
import { MCP_OPTIONS } from '../../common/options.js';
import { deferred, isThenable, quiet } from '../../common/promises.js';
import { type CallingClient, McpCall, type McpHttpCall, runInCall } from '../../calls/mcp-call.js';
import { McpDispatcher } from '../../calls/mcp-dispatcher.js';
import type { McpTarget } from '../../calls/mcp-target.js';
import type { McpCallOutcome } from '../../calls/mcp-instrumentation.js';
import type { McpReply, PendingReply, StreamFlow } from '../../calls/reply.js';
import { logError } from '../../calls/operator-log.js';
import { CallObserver } from '../../calls/call-observer.js';
import { ListenTopics, type McpTopic } from '../../plugins/listen-topics.js';
import { ChangeFeed, type ChangeHint } from '../../nodes/change-feed.js';
import { SERVER_INFO_META_KEY, SUBSCRIPTION_ID_META_KEY } from '../../protocol/era.js';
import { limitReached, McpError, refusalOf, rpcErrorOf, shutdownRefusal } from '../../protocol/errors.js';
import type { JsonRpcRequest } from '../../protocol/json-rpc.js';
import { type McpChange, notificationOf } from '../../protocol/notifications.js';
import { canonicalUri } from '../../protocol/uris.js';
import type { McpEvent } from '../../protocol/events.js';
import type { ResolvedProtocolOptions } from '../protocol.options.js';
import { ListenBudget } from './listen-budget.js';
import { ModernClient } from './modern-client.js';
import {
  ChangeSet,
  deliverable,
  idsOf,
  isEmpty,
  type ListenFilter,
  requestedFilter,
  withUris,
} from './subscription-filter.js';

/**
 * At most so many guards of URIs run at the same time. One begins in a turn of the event loop: there may be a thousand.
 */
const ASKED_AT_ONCE = 50;
const LISTEN: McpTarget = { kind: 'method', key: 'subscriptions/listen' };

interface SubscriptionOptions extends Pick<
  ResolvedProtocolOptions,
  'maxSubscriptions' | 'maxSubscriptionsPerPrincipal'
> {
  readonly serverInfo: Implementation;
}

/**
 * # The subscriptions of modern clients on this node
 *
 * A `subscriptions/listen` is a request whose response stays open until the client closes it. It carries an
 * acknowledgement of the changes that follow, then these changes, and at last, if the server ends it, a result (M7).
 *
 *     open ──close()──▶ closed (newcomers are refused)
 *
 * Invariants: a subscription and its principal are counted from its arrival until everything of it is released; caps
 * refuse new subscriptions and end no open one.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
 */
@Injectable()
export class Subscriptions {
  readonly #open = new Set<Subscription>();
  /** Open subscriptions are counted by principal; the anonymous ones count as one. */
  readonly #held = new Map<string | undefined, number>();
  readonly #budget: ListenBudget;
  #closed = false;

  readonly changes$: Observable<ChangeHint>;
  /** Introduces the server in the result that ends a subscription. */
  readonly serverInfo: Implementation;

  constructor(
    @Inject(ModernClient) private readonly client: CallingClient,
    @Inject(ChangeFeed) { changes$ }: Pick<ChangeFeed, 'changes$'>,
    @Inject(McpDispatcher) private readonly dispatcher: Pick<McpDispatcher, 'capabilities' | 'admitsResource'>,
    @Inject(MCP_OPTIONS) private readonly options: SubscriptionOptions,
    @Inject(CallObserver) readonly observer: CallObserver = new CallObserver(),
    @Inject(ListenTopics) readonly topics: Iterable<readonly [field: string, topic: McpTopic]> = [],
    @Inject(McpClock) clock: Pick<McpClock, 'now'> = systemClock,
  ) {
    this.#budget = new ListenBudget(clock);
    this.changes$ = changes$;
    this.serverInfo = options.serverInfo;
  }

  /** Counts the subscriptions that are open, or being opened. */
  get count(): number {
    return this.#open.size;
  }

  /**
   * Serves a `subscriptions/listen`.
   *
   * @returns events without ids: a subscription is not resumed but opened again
   * @throws McpError UNAVAILABLE: there are `maxSubscriptions`, or the server stops; TOO_MANY_REQUESTS: the caller has
   *   `maxSubscriptionsPerPrincipal`, or opens them too often; INVALID_PARAMS: the filter is missing, malformed, or too large
   */
  listen(http: McpHttpCall, message: JsonRpcRequest): PendingReply {
    this.#assertRoom(http.principal);
    const requested = requestedFilter(message, this.topics);
    const { resourceSubscriptions: uris = [] } = requested;
    let named = uris.length;
    for (const [field] of this.topics) named += idsOf(requested, field).length;
    this.#budget.take(http.principal, named);
    const call = new McpCall(http, message, this.client);
    const subscription = new Subscription(call, this);
    this.#open.add(subscription);
    this.#hold(http.principal, 1);
    call.target = LISTEN;
    const ask = (): unknown => subscription.ask(requested);
    const inPlugins = (): unknown => (call.hooks ? call.hooks.serve(ask) : ask());
    subscription.begin(this.observer.active ? () => this.observer.around(call, inPlugins) : ask);
    return subscription;
  }

  /** Ends all subscriptions gracefully, and refuses new ones. Idempotent. */
  close(): void {
    this.#closed = true;
    for (const subscription of Array.from(this.#open)) subscription.close();
  }

  // ---- for the subscriptions -------------------------------------------------------------------------------------

  /**
   * Returns the honored part of a filter. What does not exist, or what the caller may not read, is omitted without an
   * error: it must not learn what exists.
   */
  async honored(requested: ListenFilter, call: McpCall): Promise<ListenFilter> {
    const filter: ListenFilter = await this.#honored(requested, call);
    for (const [field, topic] of this.topics) {
      const asked = idsOf(requested, field);
      const ids = asked.length > 0 ? await topic.honored(asked, call) : [];
      if (ids.length > 0) filter[field] = ids;
    }
    return filter;
  }

  async #honored(requested: SubscriptionFilter, call: McpCall): Promise<SubscriptionFilter> {
    const filter = deliverable(requested, await this.dispatcher.capabilities(call));
    const { resourceSubscriptions: uris = [] } = filter;
    const { dispatcher } = this;
    if (!dispatcher.admitsResource || uris.length === 0) return filter;
    const answers: Promise<boolean>[] = [];
    for (const uri of uris) {
      if (answers.length > 0) await nextTurn();
      if (call.signal.aborted) break;
      const answer = runInCall(call, async () => dispatcher.admitsResource!(uri, call));
      answers.push(quiet(answer));
      if (answers.length % ASKED_AT_ONCE === 0) await Promise.all(answers);
    }
    const decided = await Promise.all(answers);
    const admitted = uris.filter((_, position) => decided[position]);
    return withUris(filter, admitted);
  }

  left(subscription: Subscription): void {
    if (this.#open.delete(subscription)) this.#hold(subscription.principal, -1);
  }

  // ---- caps ------------------------------------------------------------------------------------------------------

  #assertRoom(principal: string | undefined): void {
    const { maxSubscriptions, maxSubscriptionsPerPrincipal } = this.options;
    if (this.#closed) throw shutdownRefusal();
    if (this.#open.size >= maxSubscriptions) {
      const option = 'maxSubscriptions';
      throw limitReached('UNAVAILABLE', { of: 'server', max: maxSubscriptions, what: 'subscriptions', option });
    }
    if ((this.#held.get(principal) ?? 0) >= maxSubscriptionsPerPrincipal) {
      throw limitReached('TOO_MANY_REQUESTS', {
        of: 'caller',
        max: maxSubscriptionsPerPrincipal,
        what: 'subscriptions',
        option: 'maxSubscriptionsPerPrincipal',
        advice: '; all anonymous callers count as one. Close a subscription, or try again later.',
      });
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
 * # One `subscriptions/listen`, from its arrival to its end
 *
 *     asked ──honored──▶ honored ──open──▶ open ──close()──▶ ended (acknowledged, then a proper result)
 *       │                   └── close(), or nothing honored: open ──▶ ended (the same, at once)
 *       ├──close(): refused──▶ ended
 *     any ──client gone──▶ ended
 *
 * It collects changes from its arrival on and keeps those that the client was not notified of: while the guards decide,
 * until its response is there, and while its reader is slow. That is a set, so its size is bounded by the filter, and a
 * resource that changed a hundred times is sent once.
 *
 * A topic provides its own notifications, with the state at the time of sending.
 *
 * Invariants: the acknowledgement comes first, the result last; nothing is sent that was not honored; `left` is called
 * exactly once, and then nothing is subscribed any more.
 */
class Subscription implements PendingReply {
  readonly #reply = deferred<McpReply>();
  readonly #upstream = new RxSubscription();
  readonly #unsent = new ChangeSet();
  /** The URIs that the client has spelled otherwise, by the form in which URIs are compared. */
  readonly #spellings = new Map<string, string>();
  #accepted = new ChangeSet();
  #state: SubscriptionState = { is: 'asked' };

  constructor(
    private readonly call: McpCall,
    private readonly host: Subscriptions,
  ) {}

  get reply(): Promise<McpReply> {
    return this.#reply.promise;
  }

  get principal(): string | undefined {
    return this.call.principal;
  }

  /** Begins inside of what acts on the call, which may have it wait, or refuse it. */
  begin(asking: () => unknown): void {
    try {
      const asked = asking();
      if (isThenable(asked)) asked.then(undefined, (error: unknown) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Begins to collect changes, and asks the guards which of them this caller may receive. */
  ask(requested: ListenFilter): void {
    this.#accepted = ChangeSet.acceptedBy(requested);
    const { notifications } = this.call.received.params as { notifications: ListenFilter };
    for (const uri of notifications.resourceSubscriptions ?? []) {
      const form = canonicalUri(uri);
      if (form !== uri) this.#spellings.set(form, uri);
    }
    const { changes$ } = this.host;
    this.#upstream.add(changes$.subscribe({ next: (change) => this.#collect(change), complete: () => this.close() }));
    this.host.honored(requested, this.call).then(
      (filter) => this.#honor(filter),
      (error: unknown) => this.#fail(error),
    );
  }

  /** Ends the subscription of a client that has disconnected before there was a response. */
  cancel(): void {
    this.call.cancelled(new Error('The client closed the connection.'));
    this.#reply.resolve(UNREAD);
    // An opened response reports its own end.
    if (this.#state.is !== 'open') this.#leave('cancelled');
  }

  /** Ends the subscription gracefully, with a result. */
  close(): void {
    const state = this.#state;
    if (state.is === 'asked') {
      const refusal = shutdownRefusal();
      this.call.cancelled(refusal);
      this.#refuse(refusal);
    } else if (state.is === 'honored') this.#state = { ...state, goesOn: false };
    else if (state.is === 'open') this.#end(state.subscriber);
  }

  #honor(filter: ListenFilter): void {
    if (this.#state.is !== 'asked') return;
    this.#accepted = ChangeSet.acceptedBy(filter);
    for (const change of this.#unsent) if (!this.#accepted.has(change)) this.#unsent.delete(change);
    this.#state = { is: 'honored', filter, goesOn: !isEmpty(filter) };
    this.#reply.resolve({
      kind: 'events',
      open: (flow) => new Observable((subscriber) => this.#open(subscriber, flow)),
    });
  }

  #open(subscriber: Subscriber<McpEvent>, flow: StreamFlow): void {
    const state = this.#state;
    if (state.is !== 'honored') return subscriber.complete();
    this.#state = { is: 'open', subscriber, flow };
    // This runs at every end: a client ends its subscription by closing the response.
    subscriber.add(() => this.#leave('ok'));
    const uris = state.filter.resourceSubscriptions ?? [];
    const notifications = withUris(
      state.filter,
      uris.map((uri) => this.#spelled(uri)),
    );
    subscriber.next(this.#event({ method: ACKNOWLEDGED, params: { notifications } }));
    if (!state.goesOn) return this.#end(subscriber);
    subscriber.add(flow.resumed$.subscribe(() => this.#sendUnsent()));
    this.#sendUnsent();
    for (const [field, topic] of this.host.topics) {
      const ids = idsOf(state.filter, field);
      if (ids.length === 0) continue;
      const news$ = topic.watch(ids, flow);
      subscriber.add(news$.subscribe((notification) => subscriber.next(this.#event(notification))));
    }
  }

  #collect(change: ChangeHint): void {
    if (change !== 'missed' && 'list' in change && change.only?.has(this.principal ?? null) === false) return;
    if (change === 'missed') for (const any of this.#accepted) this.#unsent.add(any);
    else if (this.#accepted.has(change)) this.#unsent.add(change);
    else return;
    this.#sendUnsent();
  }

  /** Sends the changes that the client has not received, until its reader is slow. */
  #sendUnsent(): void {
    const state = this.#state;
    if (state.is !== 'open') return;
    for (const change of this.#unsent) {
      if (state.flow.paused) return;
      this.#unsent.delete(change);
      state.subscriber.next(this.#changed(change));
    }
  }

  /** Sends all remaining changes even to a slow reader: a graceful end means that none is missing. */
  #end(subscriber: Subscriber<McpEvent>): void {
    for (const change of this.#unsent) subscriber.next(this.#changed(change));
    const meta = { ...this.#meta, [SERVER_INFO_META_KEY]: this.host.serverInfo };
    const result = { resultType: 'complete', _meta: meta };
    subscriber.next({ data: JSON.stringify({ jsonrpc: '2.0', id: this.call.requestId, result }) });
    subscriber.complete();
  }

  #changed(change: McpChange): McpEvent {
    return this.#event(notificationOf('uri' in change ? { uri: this.#spelled(change.uri) } : change));
  }

  #spelled(uri: string): string {
    return this.#spellings.get(uri) ?? uri;
  }

  #event({ method, params }: { method: string; params?: object }): McpEvent {
    return { data: JSON.stringify({ jsonrpc: '2.0', method, params: { ...params, _meta: this.#meta } }) };
  }

  get #meta(): object {
    return { [SUBSCRIPTION_ID_META_KEY]: this.call.requestId! };
  }

  #fail(error: unknown): void {
    const refusal = refusalOf(error);
    if (refusal) return this.#refuse(refusal);
    if (this.#state.is === 'asked') logError(error);
    const text = 'The subscription could not be opened. See the server log.';
    this.#refuse(new McpError('INTERNAL_ERROR', text, { cause: error }));
  }

  #refuse(error: McpError): void {
    this.#reply.reject(error);
    this.#leave(rpcErrorOf(error)!.code);
  }

  #leave(outcome: McpCallOutcome): void {
    if (this.#state.is === 'ended') return;
    this.#state = ENDED;
    this.#upstream.unsubscribe();
    this.#unsent.clear();
    this.host.left(this);
    this.host.observer.ended(this.call, outcome);
  }
}

type SubscriptionState =
  | { readonly is: 'asked' }
  | { readonly is: 'honored'; readonly filter: ListenFilter; readonly goesOn: boolean }
  | { readonly is: 'open'; readonly subscriber: Subscriber<McpEvent>; readonly flow: StreamFlow }
  | { readonly is: 'ended' };

const ENDED: SubscriptionState = { is: 'ended' };
/** The reply for a client that has disconnected: it is not sent. */
const UNREAD: McpReply = { kind: 'accepted' };
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
