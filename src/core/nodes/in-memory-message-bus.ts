import { type Observable, Subject } from 'rxjs';
import { randomToken } from '../common/random-token.js';
import type { McpLostNode, McpMessageBus } from './message-bus.js';

const NODE_ID_LENGTH = 10;

/**
 * # The message bus inside one process
 *
 * Buses of one {@link InMemoryMessageHub} are nodes that exchange messages, so that tests can have several nodes in one
 * process. By default each bus has a hub of its own: a deployment of one node.
 *
 * A message is delivered in a microtask, never within `send`: as with a network, the sender continues first. A message
 * to the sending node is handed over without copying; a message to another node is copied through JSON at the time of
 * sending, so that only values that a network carries arrive.
 *
 * States: open ──close()──▶ closed (both streams complete; sending and receiving do nothing).
 *
 * @publicApi
 */
export class InMemoryMessageBus<Message = unknown> implements McpMessageBus<Message> {
  readonly messages$: Observable<Message>;
  readonly reconnected$: Observable<void>;
  readonly lost$: Observable<McpLostNode>;
  readonly #messages$ = new Subject<Message>();
  /** Only completes, because messages are never lost in one process. */
  readonly #reconnected$ = new Subject<void>();
  readonly #lost$ = new Subject<McpLostNode>();
  readonly #leave: () => void;
  #closed = false;

  /**
   * @param nodeId `[A-Za-z0-9]`, unique on the hub
   * @throws Error another bus on the hub has this id
   */
  constructor(
    readonly nodeId: string = randomToken(NODE_ID_LENGTH),
    private readonly hub: InMemoryMessageHub = new InMemoryMessageHub(),
  ) {
    this.messages$ = this.#messages$.asObservable();
    this.reconnected$ = this.#reconnected$.asObservable();
    this.lost$ = this.#lost$.asObservable();
    this.#leave = hub.join(nodeId, {
      receive: (message) => this.#messages$.next(message as Message),
      nodeLost: (node) => this.#lost$.next({ node, done: () => Promise.resolve() }),
    });
  }

  send(node: string, message: Message): void {
    if (!this.#closed) this.hub.send(this.nodeId, node, message);
  }

  broadcast(message: Message): void {
    if (!this.#closed) this.hub.broadcast(this.nodeId, message);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#leave();
    this.#messages$.complete();
    this.#reconnected$.complete();
    this.#lost$.complete();
  }
}

/** Connects the buses of several nodes in one process. @publicApi */
export class InMemoryMessageHub {
  readonly #members = new Map<string, Member>();

  /** @returns leaves the hub @internal */
  join(node: string, member: Member): () => void {
    if (this.#members.has(node)) {
      const message = `A message bus with the node id "${node}" is already on this hub. Give each bus its own id, or omit the id to get a random one.`;
      throw new Error(message);
    }
    this.#members.set(node, member);
    return () => this.#members.delete(node);
  }

  /**
   * Simulates the death of a node: it no longer sends or receives, and one other node emits it on `lost$`.
   *
   * @returns whether there was such a node
   */
  kill(node: string): boolean {
    const died = this.#members.delete(node);
    const [survivor] = this.#members.values();
    if (died && survivor) queueMicrotask(() => survivor.nodeLost(node));
    return died;
  }

  /** @internal */
  send(from: string, to: string, message: unknown): void {
    const member = this.#members.get(to);
    if (!member || !this.#members.has(from)) return;
    const received = from === to ? message : copyOf(message);
    queueMicrotask(() => member.receive(received));
  }

  /** @internal */
  broadcast(from: string, message: unknown): void {
    for (const node of this.#members.keys()) this.send(from, node, message);
  }
}

interface Member {
  receive(message: unknown): void;
  /** Is called when another node has died. */
  nodeLost(node: string): void;
}

function copyOf(message: unknown): unknown {
  return JSON.parse(JSON.stringify(message));
}
