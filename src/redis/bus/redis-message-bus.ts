import { defer, type Observable, Subject } from 'rxjs';
import type { LostNode, McpMessageBus } from '../../bus/message-bus.js';
import { deferred, within } from '../../common/promises.js';
import { randomToken } from '../../common/random-token.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { redisMessages } from '../redis.messages.js';
import { Heartbeat } from './heartbeat.js';
import { Outbox } from './outbox.js';
import { Subscription } from './subscription.js';

const NODE_ID_LENGTH = 10;
/** More than there are nodes at a time. */
const SENDERS_REMEMBERED = 1_000;

/**
 * # The message bus on Redis
 *
 * Pub/sub: a channel of each node, one of all, and one on which a node says that it has lost messages. What a node tells itself
 * does not go by way of Redis, so that it gets there when Redis is away.
 *
 *     idle ──first subscriber to one of its streams──▶ open (heard by the others, beating) ──close()──▶ closed
 *
 * `reconnected$` emits whenever something may have been missed: the subscription was interrupted (or came late: between the first
 * subscriber and the first subscription), another node could not send, or this node was taken for dead.
 *
 * Closing it closes the connection, which the stores share: it is what the module closes last.
 *
 * @publicApi
 */
export class RedisMessageBus<Message = unknown> implements McpMessageBus<Message> {
  readonly nodeId = randomToken(NODE_ID_LENGTH);
  readonly messages$: Observable<Message>;
  readonly reconnected$: Observable<void>;
  readonly lost$: Observable<LostNode>;
  readonly #messages$ = new Subject<Message>();
  readonly #reconnected$ = new Subject<void>();
  readonly #lost$ = new Subject<LostNode>();
  readonly #outbox: Outbox;
  readonly #subscription: Subscription;
  readonly #heartbeat: Heartbeat;
  readonly #connected = deferred();
  /** By sender, of nodes that may be gone by now. */
  readonly #heardUpTo = new Map<string, number>();
  #sent = 0;
  #state: 'idle' | 'open' | 'closed' = 'idle';

  constructor(
    private readonly connection: RedisConnection,
    private readonly life: NodeLife = NOTHING_ELSE,
  ) {
    const { keys } = connection;
    this.#outbox = new Outbox(connection);
    this.#subscription = new Subscription(connection, [keys.channel(this.nodeId), keys.everyone, keys.gaps], {
      heard: (channel, text) => this.#heard(channel, text),
      hears: () => this.#hears(),
    });
    this.#heartbeat = new Heartbeat(connection, this.nodeId, this.#onBeat());
    this.messages$ = this.#opening(this.#messages$);
    this.reconnected$ = this.#opening(this.#reconnected$);
    this.lost$ = this.#opening(this.#lost$);
  }

  /** Settles when this node is heard and hears for the first time; not before Redis can be reached. */
  connected(): Promise<void> {
    this.#open();
    return this.#connected.promise;
  }

  /** Settles when other nodes know of this one, if it takes part at all. @throws (rejects) RedisUnavailableError @internal */
  async known(): Promise<void> {
    if (this.#state === 'open') await this.#heartbeat.known();
  }

  send(node: string, message: Message): void {
    if (this.#state === 'closed') return;
    if (node === this.nodeId) this.#deliver(message);
    else this.#outbox.push(this.connection.keys.channel(node), this.#envelope(message));
  }

  broadcast(message: Message): void {
    if (this.#state === 'closed') return;
    this.#deliver(message);
    this.#outbox.push(this.connection.keys.everyone, this.#envelope(message));
  }

  flushed(): Promise<void> {
    return this.#outbox.flushed();
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#messages$.complete();
    this.#reconnected$.complete();
    this.#lost$.complete();
    const { clock, options } = this.connection;
    const left = Promise.all([this.#outbox.close(), this.#heartbeat.stop(), this.#subscription.close()]);
    await within(left, options.commandTimeoutMs, clock);
    await this.connection.close();
  }

  #opening<T>(subject: Subject<T>): Observable<T> {
    return defer(() => {
      this.#open();
      return subject;
    });
  }

  #open(): void {
    if (this.#state !== 'idle') return;
    this.#state = 'open';
    this.#subscription.start();
    // From here on, as it may serve calls before it hears: what it leaves behind, others have to find.
    void this.#heartbeat.start();
  }

  #hears(): void {
    void this.#heartbeat.start().then(() => this.#connected.resolve());
    this.#reconnected$.next();
  }

  #onBeat() {
    const mourns = () => this.#lost$.observed;
    return {
      get mourns(): boolean {
        return mourns();
      },
      lost: (node: LostNode) => this.#lost$.next(node),
      presumedDead: () => {
        this.connection.outages.warn(redisMessages.mourned(this.nodeId));
        this.#reconnected$.next();
      },
      beaten: () => {
        this.#subscription.check();
        this.#outbox.confess();
        void this.life.beaten();
      },
      leaves: () => this.life.leaves(),
    };
  }

  #heard(channel: string, text: string): void {
    if (channel === this.connection.keys.gaps) return this.#reconnected$.next();
    const envelope = parsed<Message>(text);
    if (!envelope) return this.connection.outages.debug(redisMessages.strange(channel));
    if (!this.#isNews(envelope)) return;
    this.#messages$.next(envelope.message);
  }

  /** A message is sent again when its sender does not know whether it was sent. */
  #isNews({ from, n = 0 }: Envelope<Message>): boolean {
    if (from === undefined) return true;
    if (from === this.nodeId || n <= (this.#heardUpTo.get(from) ?? 0)) return false;
    this.#heardUpTo.set(from, n);
    if (this.#heardUpTo.size > SENDERS_REMEMBERED) this.#heardUpTo.delete(this.#heardUpTo.keys().next().value!);
    return true;
  }

  /** Not within the call that sends it. */
  #deliver(message: Message): void {
    queueMicrotask(() => {
      if (this.#state !== 'closed') this.#messages$.next(message);
    });
  }

  #envelope(message: Message): string {
    return JSON.stringify({ from: this.nodeId, n: ++this.#sent, message } satisfies Envelope<Message>);
  }
}

/** What else lives and dies with this node. Nothing here rejects. @internal */
export interface NodeLife {
  /** It has given a sign of life. */
  beaten(): Promise<void>;
  /** It is about to go. @returns whether it leaves nothing behind */
  leaves(): Promise<boolean>;
}

const NOTHING_ELSE: NodeLife = {
  beaten: () => Promise.resolve(),
  leaves: () => Promise.resolve(true),
};

interface Envelope<Message> {
  /** Absent: from the event log. */
  readonly from?: string;
  /** Counts what the sender sends, from 1. */
  readonly n?: number;
  readonly message: Message;
}

function parsed<Message>(text: string): Envelope<Message> | undefined {
  try {
    const envelope = JSON.parse(text) as Envelope<Message> | null;
    return typeof envelope === 'object' && envelope !== null && 'message' in envelope ? envelope : undefined;
  } catch {
    return undefined;
  }
}
