import { merge, Subject, type Observable } from 'rxjs';
import type { McpLostNode, McpMessageBus } from 'nestjs-mcp-streamable/stores';

/**
 * What lies between one node and what it shares with the others.
 *
 *     fine ⇄ away (every call is refused) ; fine ⇄ paused (calls wait: the node is stopped, or its network) ; ──▶ dead (for good)
 */
export class NodeBackend {
  #state: 'fine' | 'away' | 'paused' | 'dead' = 'fine';
  readonly #resumed: (() => void)[] = [];
  #refused: readonly string[] = [];
  #unanswered: readonly string[] = [];
  #running = 0;

  /** Calls are refused as a lost connection refuses them. */
  away(): void {
    this.#state = 'away';
  }

  /** Calls of some methods are refused. */
  refuse(...methods: string[]): void {
    this.#refused = methods;
  }

  /** Calls of some methods are carried out, and fail all the same: the answer is lost. */
  loseAnswers(...methods: string[]): void {
    this.#unanswered = methods;
  }

  /** Calls wait until `back()`. */
  pause(): void {
    this.#state = 'paused';
  }

  /** How many calls wait. */
  get waiting(): number {
    return this.#resumed.length;
  }

  /** How many calls have no result yet. */
  get running(): number {
    return this.#running;
  }

  /** Calls are refused from now on, and nothing more is heard of the node. */
  die(): void {
    this.#state = 'dead';
    this.#release();
  }

  back(): void {
    if (this.#state === 'dead') return;
    this.#state = 'fine';
    this.#refused = this.#unanswered = [];
    this.#release();
  }

  /** A store as this node sees it. */
  over<T extends object>(store: T): T {
    return new Proxy(store, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value !== 'function') return value;
        return async (...of: unknown[]): Promise<unknown> => {
          this.#running++;
          try {
            await this.#passable(String(key));
            const result: unknown = await (value as (...of: unknown[]) => unknown).apply(target, of);
            if (this.#unanswered.includes(String(key))) throw new Error(`the answer to "${String(key)}" is lost`);
            return result;
          } finally {
            this.#running--;
          }
        };
      },
    });
  }

  async #passable(method: string): Promise<void> {
    while (this.#state === 'paused') await new Promise<void>((resolve) => this.#resumed.push(resolve));
    if (this.#refused.includes(method)) throw new Error(`"${method}" failed: the backend refuses it`);
    if (this.#state !== 'fine') throw new Error(`"${method}" failed: the backend is ${this.#state}`);
  }

  #release(): void {
    for (const resume of this.#resumed.splice(0)) resume();
  }
}

/** What becomes of a message on its way to a node. */
export type Fate = 'arrives' | 'lost' | 'doubled' | 'late';

/** A bus whose messages get lost, come twice, or come late. */
export class LossyBus implements McpMessageBus {
  readonly messages$: Observable<unknown>;
  readonly reconnected$: Observable<void>;
  readonly lost$: McpMessageBus['lost$'];
  readonly #messages$ = new Subject<unknown>();
  readonly #reconnected$ = new Subject<void>();
  readonly #lost$ = new Subject<McpLostNode>();
  readonly #late: unknown[] = [];
  /** Decides about each message that comes to this node. */
  fate: (message: { type?: unknown }) => Fate = () => 'arrives';

  constructor(private readonly bus: McpMessageBus) {
    this.messages$ = this.#messages$.asObservable();
    this.reconnected$ = this.#reconnected$.asObservable();
    this.lost$ = merge(bus.lost$, this.#lost$);
    bus.messages$.subscribe({
      next: (message) => this.#receive(message),
      complete: () => {
        this.#messages$.complete();
        this.#reconnected$.complete();
        this.#lost$.complete();
      },
    });
  }

  get nodeId(): string {
    return this.bus.nodeId;
  }

  send(node: string, message: unknown): void {
    this.bus.send(node, message);
  }

  broadcast(message: unknown): void {
    this.bus.broadcast(message);
  }

  close(): Promise<void> {
    return this.bus.close();
  }

  /** Every message arrives again. */
  heal(): void {
    this.fate = () => 'arrives';
  }

  /** What was late comes now, the last first. */
  deliverLate(): void {
    for (const message of this.#late.splice(0).toReversed()) this.#messages$.next(message);
  }

  /** As after a lost connection. */
  reconnect(): void {
    this.heal();
    this.#reconnected$.next();
  }

  /** This node is told that another one has died. */
  mourn(node: string): void {
    this.#lost$.next({ node, done: () => Promise.resolve() });
  }

  #receive(message: unknown): void {
    const fate = this.fate(message as { type?: unknown });
    if (fate === 'late') this.#late.push(message);
    else if (fate !== 'lost') this.#messages$.next(message);
    if (fate === 'doubled') this.#messages$.next(message);
  }
}
