import type { Implementation, SubscriptionFilter } from '@modelcontextprotocol/server';
import { Observable, type Subscriber, Subscription as Hearing } from 'rxjs';
import { deferred } from '../../common/promises.js';
import type { McpCall } from '../../context/mcp-call.js';
import type { McpReply, PendingReply, StreamFlow } from '../../context/mcp-exchange.js';
import type { HeardChange } from '../../session/change-feed.js';
import { SERVER_INFO_META_KEY, SUBSCRIPTION_ID_META_KEY } from '../../wire/era.js';
import { McpError, shutdownRefusal } from '../../wire/errors.js';
import { notificationOf } from '../../wire/notifications.js';
import { messageFrame } from '../../wire/sse.js';
import { ChangeSet, isEmpty } from './subscription-filter.js';

/** What a subscription needs of who keeps it. */
export interface SubscriptionHost {
  readonly serverInfo: Implementation;
  readonly changes$: Observable<HeardChange>;
  /** @returns what of it this caller may hear of */
  honored(requested: SubscriptionFilter, call: McpCall): Promise<SubscriptionFilter>;
  /** Nothing is left of it. */
  left(subscription: Subscription): void;
  /** Tells the operator. */
  report(error: unknown): void;
}

/**
 * # One `subscriptions/listen`, from its arrival to its end
 *
 *     asked ──honored──▶ honored ──open──▶ open ──close()──▶ over (acknowledged, then a proper result)
 *       │                   └── close(), or nothing honored: open ──▶ over (the same, at once)
 *       ├──close(): refused──▶ over
 *     any ──client gone──▶ over
 *
 * It hears of changes from its arrival on and keeps in mind which ones the client has not been told of: while the guards
 * decide, until its response is there, and while its reader is slow. That is a set, so what waits is bounded by what was
 * asked for, and a resource that changed a hundred times is told of once.
 *
 * Invariants: the acknowledgement comes first, the result last; nothing is sent that was not honored; `host.left` is called
 * exactly once, and then nothing is subscribed any more.
 */
export class Subscription implements PendingReply {
  readonly #reply = deferred<McpReply>();
  readonly #hearing = new Hearing();
  readonly #untold = new ChangeSet();
  #accepted = new ChangeSet();
  #state: SubscriptionState = { is: 'asked' };

  constructor(
    private readonly call: McpCall,
    private readonly host: SubscriptionHost,
  ) {}

  get reply(): Promise<McpReply> {
    return this.#reply.promise;
  }

  get principal(): string | undefined {
    return this.call.principal;
  }

  /** Begins to listen, and has it decided what this caller may hear of. */
  ask(requested: SubscriptionFilter): void {
    this.#accepted = ChangeSet.acceptedBy(requested);
    const { changes$ } = this.host;
    this.#hearing.add(changes$.subscribe({ next: (change) => this.#hear(change), complete: () => this.close() }));
    this.host.honored(requested, this.call).then(
      (filter) => this.#honor(filter),
      (error: unknown) => this.#fail(error),
    );
  }

  /** The client has gone before there was a response. */
  abandon(): void {
    this.call.cancelled(new Error('The client closed the connection.'));
    this.#reply.resolve(NOBODY);
    // A response that was opened says itself when it is over.
    if (this.#state.is !== 'open') this.#leave();
  }

  /** Ends it gracefully: the client is told that there is nothing more to come, and that it was no accident. */
  close(): void {
    const state = this.#state;
    if (state.is === 'asked') {
      const refusal = shutdownRefusal();
      this.call.cancelled(refusal);
      this.#refuse(refusal);
    } else if (state.is === 'honored') this.#state = { ...state, goesOn: false };
    else if (state.is === 'open') this.#finish(state.subscriber);
  }

  #honor(filter: SubscriptionFilter): void {
    if (this.#state.is !== 'asked') return;
    this.#accepted = ChangeSet.acceptedBy(filter);
    for (const change of this.#untold) if (!this.#accepted.has(change)) this.#untold.delete(change);
    this.#state = { is: 'honored', filter, goesOn: !isEmpty(filter) };
    this.#reply.resolve({
      kind: 'stream',
      open: (flow) => new Observable((subscriber) => this.#open(subscriber, flow)),
    });
  }

  #open(subscriber: Subscriber<string>, flow: StreamFlow): void {
    const state = this.#state;
    if (state.is !== 'honored') return subscriber.complete();
    this.#state = { is: 'open', subscriber, flow };
    subscriber.add(() => this.#leave());
    subscriber.next(this.#frame({ method: ACKNOWLEDGED, params: { notifications: state.filter } }));
    if (!state.goesOn) return this.#finish(subscriber);
    subscriber.add(flow.resumed$.subscribe(() => this.#tell()));
    this.#tell();
  }

  #hear(change: HeardChange): void {
    if (change === 'missed') for (const any of this.#accepted) this.#untold.add(any);
    else if (this.#accepted.has(change)) this.#untold.add(change);
    else return;
    this.#tell();
  }

  /** Says what is to be said, as far as the reader takes it. */
  #tell(): void {
    const state = this.#state;
    if (state.is !== 'open') return;
    for (const change of this.#untold) {
      if (state.flow.paused) return;
      this.#untold.delete(change);
      state.subscriber.next(this.#frame(notificationOf(change)));
    }
  }

  /** However slow the reader is: a proper end means that nothing was kept back. */
  #finish(subscriber: Subscriber<string>): void {
    for (const change of this.#untold) subscriber.next(this.#frame(notificationOf(change)));
    const meta = { ...this.#meta, [SERVER_INFO_META_KEY]: this.host.serverInfo };
    const result = { resultType: 'complete', _meta: meta };
    subscriber.next(messageFrame(undefined, JSON.stringify({ jsonrpc: '2.0', id: this.call.requestId, result })));
    subscriber.complete();
  }

  #frame({ method, params }: { method: string; params?: object }): string {
    return messageFrame(
      undefined,
      JSON.stringify({ jsonrpc: '2.0', method, params: { ...params, _meta: this.#meta } }),
    );
  }

  get #meta(): object {
    return { [SUBSCRIPTION_ID_META_KEY]: this.call.requestId! };
  }

  #fail(error: unknown): void {
    if (error instanceof McpError) return this.#refuse(error);
    if (this.#state.is === 'asked') this.host.report(error);
    const text = 'The subscription could not be opened. The log of the server says why.';
    this.#refuse(new McpError('INTERNAL_ERROR', text, { cause: error }));
  }

  #refuse(error: McpError): void {
    this.#reply.reject(error.withRequestId(this.call.requestId!));
    this.#leave();
  }

  #leave(): void {
    if (this.#state.is === 'over') return;
    this.#state = OVER;
    this.#hearing.unsubscribe();
    this.#untold.clear();
    this.host.left(this);
  }
}

type SubscriptionState =
  | { readonly is: 'asked' }
  | { readonly is: 'honored'; readonly filter: SubscriptionFilter; readonly goesOn: boolean }
  | { readonly is: 'open'; readonly subscriber: Subscriber<string>; readonly flow: StreamFlow }
  | { readonly is: 'over' };

const OVER: SubscriptionState = { is: 'over' };
const NOBODY: McpReply = { kind: 'accepted' };
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
