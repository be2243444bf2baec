import { defer, type Observable, Subject } from 'rxjs';
import type { McpLostNode, McpMessageBus } from '../../core/nodes/message-bus.js';
import { deferred, within } from '../../core/common/promises.js';
import { randomToken } from '../../core/common/random-token.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { Heartbeat } from './heartbeat.js';
import { Subscription } from './subscription.js';

const NODE_ID_LENGTH = 10;
/** At most this many messages wait for Redis; further ones are lost. */
const MOST_UNDER_WAY = 10_000;
/**
 * Publishes with a key, because a cluster routes by keys alone: so all messages of a node take one connection, in
 * order.
 */
const PUBLISH = `return redis.call('PUBLISH', ARGV[1], ARGV[2])`;

/**
 * # The message bus on Redis
 *
 * Plain pub/sub: a channel of each node, one of all, and one for the notice that messages of a node were lost. Messages
 * of a node to itself are not sent through Redis, so they arrive while Redis is unavailable.
 *
 *     idle ──first subscriber to one of its streams──▶ open (subscribed, beating) ──close()──▶ closed
 *
 * A message whose PUBLISH fails is not repeated: the logs and records are authoritative. `reconnected$` emits whenever
 * some may have been lost: the subscription was interrupted (or came late: between the first subscriber and the first
 * subscription), another node could not publish, or this node had counted as dead.
 *
 * Closing it closes the connection, which the stores share: the module closes it last.
 *
 * @publicApi
 */
export class RedisMessageBus<Message = unknown> implements McpMessageBus<Message> {
  readonly nodeId = randomToken(NODE_ID_LENGTH);
  readonly messages$: Observable<Message>;
  readonly reconnected$: Observable<void>;
  readonly lost$: Observable<McpLostNode>;
  readonly #messages$ = new Subject<Message>();
  readonly #reconnected$ = new Subject<void>();
  readonly #subscription: Subscription;
  readonly #heartbeat: Heartbeat;
  readonly #connected = deferred();
  readonly #publishing = new Set<Promise<void>>();
  /** Messages were lost, and the other nodes have not been notified yet. */
  #lost = false;
  /** Runs before this node leaves the list of nodes. @internal */
  leaving = (): Promise<void> => Promise.resolve();
  #state: 'idle' | 'open' | 'closed' = 'idle';

  constructor(private readonly connection: RedisConnection) {
    const { keys } = connection;
    this.#subscription = new Subscription(connection, [keys.channel(this.nodeId), keys.everyone, keys.gaps], {
      received: (channel, text) => this.#received(channel, text),
      subscribed: () => this.#subscribed(),
    });
    this.#heartbeat = new Heartbeat(connection, this.nodeId, (forgotten) => this.#beaten(forgotten));
    this.messages$ = this.#opening(this.#messages$);
    this.reconnected$ = this.#opening(this.#reconnected$);
    this.lost$ = this.#opening(this.#heartbeat.lost$);
  }

  /** Resolves when this node is subscribed and has beaten for the first time; not before Redis can be reached. */
  connected(): Promise<void> {
    this.#open();
    return this.#connected.promise;
  }

  /** Settles when this node is registered, if the bus is used. @throws (rejects) RedisUnavailableError @internal */
  async known(): Promise<void> {
    if (this.#state === 'open') await this.#heartbeat.known();
  }

  /** @throws (rejects) RedisUnavailableError while this node is not subscribed, or Redis does not answer */
  async ping(): Promise<void> {
    if (this.#state === 'open') await this.#subscription.ping();
  }

  /** @throws (rejects) RedisUnavailableError */
  async nodes(): Promise<string[]> {
    return this.#state === 'open' ? this.#heartbeat.nodes() : [this.nodeId];
  }

  send(node: string, message: Message): void {
    if (this.#state === 'closed') return;
    if (node === this.nodeId) this.#deliver(message);
    else this.#publish(this.connection.keys.channel(node), { from: this.nodeId, message });
  }

  broadcast(message: Message): void {
    if (this.#state === 'closed') return;
    this.#deliver(message);
    this.#publish(this.connection.keys.everyone, { from: this.nodeId, message });
  }

  async flushed(): Promise<void> {
    await Promise.all(this.#publishing);
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#messages$.complete();
    this.#reconnected$.complete();
    this.#heartbeat.lost$.complete();
    const { clock, options } = this.connection;
    const leave = async (): Promise<void> => {
      await this.leaving().catch(() => {});
      await this.#heartbeat.stop();
    };
    const left = Promise.all([this.flushed(), leave(), this.#subscription.close()]);
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
    // It may serve calls before it is subscribed, and other nodes have to find them if it dies.
    void this.#heartbeat.start();
  }

  #subscribed(): void {
    void this.#heartbeat.start().then(() => this.#connected.resolve());
    this.#reconnected$.next();
  }

  #beaten(forgotten: boolean): void {
    if (forgotten) {
      this.connection.outages.warn(
        `This node ("${this.nodeId}") is no longer registered in Redis: the other nodes considered it dead and ended its open calls, or Redis lost its data. This node continues to serve. Raise "deadAfterMs" if the process or its machine pauses for long.`,
      );
      this.#reconnected$.next();
    }
    this.#subscription.check();
    if (!this.#lost) return;
    this.#lost = false;
    this.#publish(this.connection.keys.gaps, {});
  }

  #publish(channel: string, envelope: Partial<Envelope<Message>>): void {
    if (this.#publishing.size >= MOST_UNDER_WAY) {
      this.#lost = true;
      return;
    }
    const text = JSON.stringify(envelope);
    const { bus } = this.connection.keys;
    const published: Promise<void> = this.connection
      .command('publish', (client) => client.eval(PUBLISH, 1, bus, channel, text))
      .then(
        () => {},
        () => {
          this.#lost = true;
        },
      )
      .finally(() => this.#publishing.delete(published));
    this.#publishing.add(published);
  }

  #received(channel: string, text: string): void {
    if (channel === this.connection.keys.gaps) return this.#reconnected$.next();
    const envelope = parsed<Message>(text);
    if (!envelope) {
      const strange = `A message on the channel "${channel}" is not a message of this library and was ignored.`;
      return this.connection.outages.debug(strange);
    }
    if (envelope.from !== this.nodeId) this.#messages$.next(envelope.message);
  }

  /** Delivers a message of this node to itself, not within the call that sends it. */
  #deliver(message: Message): void {
    queueMicrotask(() => {
      if (this.#state !== 'closed') this.#messages$.next(message);
    });
  }
}

interface Envelope<Message> {
  /** The sending node; it is absent if the append script of the event log sends the message. */
  readonly from?: string;
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
