import { Subscription } from 'rxjs';
import { fromStored, toStored } from '../core/common/formats.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import { Turns, within } from '../core/common/promises.js';
import { McpStateError } from '../core/calls/mcp-state.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { logger } from '../core/calls/operator-log.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { LiveSessions } from '../core/sessions/running/live-sessions.js';
import { keyOf } from '../core/handlers/registry/uri-template.js';
import {
  type ListedKind,
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
} from '../core/plugins/mcp-plugin.js';
import { type HandlerOff, OffSwitch } from '../core/plugins/off-switch.js';
import { McpStateStore } from '../core/questions/state/state-store.js';
import { offHooks } from './off-hooks.js';

/** The last change of a handler. One that is on again is kept for a week, so that no node brings back an older one. */
interface Switched {
  readonly kind: ListedKind;
  readonly key: string;
  readonly off: boolean;
  readonly reason?: string | undefined;
  /** Orders the changes of a handler: milliseconds since the epoch, and later than all that its node knew. */
  readonly at: number;
}

const KINDS: readonly unknown[] = ['tool', 'resource', 'template', 'prompt'] satisfies ListedKind[];
const SIGNAL = 'switched';
const KEPT_MS = 7 * 24 * 60 * 60 * 1_000;
/** The store has so many milliseconds, at start, for a change, and for a call that has to know. */
const STORE_LIMIT_MS = 5_000;
/** Each attempt fails only because another node has written, so that many nodes may write at the same moment. */
const MOST_ATTEMPTS = 100;

/**
 * # What is switched off, on all nodes
 *
 *     set() ──▶ this node ──signal──▶ the others
 *                  └──▶ state store ◀── nodes that start, and, once per sweep of the sessions, all: a signal may be lost
 *
 * All changes of an endpoint are one value in the store, without an end. A node replaces the value that it has read, and begins
 * again if another node was quicker. In a store without `compareAndSet` two nodes may overwrite each other: every node knows all
 * changes, and writes those that the store lacks. Of two changes of one handler the later wins.
 *
 *     unknown ──the store was read──▶ known
 *
 * Unknown is the state of a node that could not read the store since its start: it could run a handler that was switched off. Names
 * without a handler may be off, too: a plugin of the app may register one later.
 *
 * Invariants: what this node has switched and the store has not taken is `unsaved`, and no older record replaces it; a store
 * that fails changes nothing of what is known; with `compareAndSet`, what `set()` has resolved for stays in the store.
 */
export class EndpointSwitches extends OffSwitch implements McpEndpointPlugin {
  readonly #known = new Map<string, Switched>();
  readonly #off = new Map<string, HandlerOff>();
  readonly #unsaved = new Set<string>();
  readonly #turns = new Turns();
  readonly #watching = new Subscription();
  readonly #owner: string;
  readonly #store: McpStateStore;
  /** Whether the store is one of the app: one in the memory of this process keeps nothing that the process does not know. */
  readonly #isStored: boolean;
  #isKnown: boolean;
  #looking: Promise<void> | undefined;
  #again = false;
  #isStarted = false;

  constructor(private readonly host: McpEndpointHost) {
    super();
    const { stateStore, backend } = host.get<SwitchOptions>(MCP_OPTIONS);
    this.#owner = `${host.owner}:switches`;
    this.#store = host.get(McpStateStore);
    this.#isStored = stateStore !== undefined || backend !== undefined;
    this.#isKnown = !this.#isStored;
    const { signals$, missed$ } = host.nodes;
    this.#watching.add(signals$.subscribe((message) => this.#receive(message)));
    if (!this.#isStored) return;
    const look = (): void => void this.#look().catch(host.storeFault);
    this.#watching.add(missed$.subscribe(look));
    this.#watching.add(host.get(LiveSessions).swept$.subscribe(look));
  }

  handler(target: McpHandlerTarget): McpHandlerHooks | undefined {
    return offHooks(target, this);
  }

  /** Learns what is switched off before clients come. */
  async started(): Promise<void> {
    if (this.#isStored) await this.read().catch(this.host.storeFault);
    this.#isStarted = true;
    if (this.#isKnown) return;
    logger.error(
      `The endpoint "${this.host.path}" could not read which handlers are switched off: its state store did not answer. Until it does, calls of handlers are refused with 503.`,
    );
  }

  close(): void {
    this.#watching.unsubscribe();
  }

  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Reads the store. @throws (rejects) what the store throws, or that it did not answer in time */
  read(): Promise<void> {
    return this.#inTime(this.#look());
  }

  get(kind: ListedKind, key: string): HandlerOff | undefined {
    return this.#off.get(placeOf(kind, key));
  }

  keys(kind: ListedKind): string[] {
    const prefix = placeOf(kind, '');
    return [...this.#off.keys()].filter((place) => place.startsWith(prefix)).map((place) => place.slice(prefix.length));
  }

  async set(kind: ListedKind, key: string, off: Pick<HandlerOff, 'reason'> | undefined): Promise<void> {
    const id = idOf({ kind, key });
    const change: Switched = { kind, key, off: off !== undefined, ...off, at: this.#later(this.#known.get(id)) };
    this.#put(change);
    this.#signal(change);
    if (!this.#isStored) return;
    this.#unsaved.add(id);
    try {
      await this.#inTime(this.#turns.run('', () => this.#sync()));
    } catch (error) {
      this.host.storeFault(error);
      const message = `The ${kind} "${key}" is switched ${off ? 'off' : 'on'} here, but the state store did not store it. Nodes that missed the signal, and nodes that start, do not know it until the store answers: it is written then.`;
      throw new McpStateError('STORE_UNAVAILABLE', message, { cause: error });
    }
    // Again: a node that subscribed after the first signal may have read the store before it had the change.
    this.#signal(this.#known.get(id) ?? change);
  }

  /** Reads the store; at most one attempt runs. It reads again if it was asked meanwhile: it may have read before a change. */
  #look(): Promise<void> {
    this.#again = this.#looking !== undefined;
    return (this.#looking ??= this.#turns
      .run('', () => this.#readWhileAsked())
      .finally(() => {
        this.#looking = undefined;
      }));
  }

  async #readWhileAsked(): Promise<void> {
    do {
      this.#again = false;
      await this.#sync();
    } while (this.#again);
  }

  async #sync(): Promise<void> {
    for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts++) if (await this.#merge()) return;
    throw new Error('The state store did not keep what is switched off.');
  }

  /** Takes what the store has, and writes what it lacks. @returns whether the store has everything */
  async #merge(): Promise<boolean> {
    const key = `${this.#owner}:all`;
    const found = await this.#store.get(key);
    const stored = new Map(switchesIn(fromStored('switches', found)).map((each) => [idOf(each), each]));
    for (const [id, theirs] of stored) {
      const mine = this.#known.get(id);
      if (!mine || !this.#unsaved.has(id)) this.#take(theirs);
      else if (theirs.at >= mine.at) this.#put({ ...mine, at: this.#later(theirs) });
    }
    if (!this.#isKnown) {
      this.#isKnown = true;
      this.host.refresh();
    }
    this.#forgetOld();
    const all = [...this.#known.values()];
    if (all.some((each) => stored.get(idOf(each))?.at !== each.at)) {
      const quota = { owner: this.#owner, max: Infinity };
      const value = toStored('switches', all);
      const kept = this.#store.compareAndSet
        ? await this.#store.compareAndSet(key, found, value, undefined, quota)
        : await this.#store.set(key, value, undefined, quota);
      if (kept === false && this.#store.compareAndSet) return false;
      if (kept === false || kept === 'full') throw new Error('The state store did not keep what is switched off.');
    }
    for (const each of all) if (this.#known.get(idOf(each)) === each) this.#unsaved.delete(idOf(each));
    return true;
  }

  /** Takes a change of another node, unless a later one is known. */
  #take(change: Switched): void {
    const known = this.#known.get(idOf(change));
    // Of two changes at the same moment all nodes choose the same one: off.
    if (known && (known.at > change.at || (known.at === change.at && known.off))) return;
    this.#put(change);
  }

  #put(change: Switched): void {
    const { kind, key, off, reason, at: since } = change;
    this.#known.set(idOf(change), change);
    const place = placeOf(kind, key);
    const wasOff = this.#off.has(place);
    if (off) this.#off.set(place, { reason, since });
    else this.#off.delete(place);
    // At the start no client of this node is told: those of the others know it.
    if (wasOff !== off) this.host.refresh(this.#isStarted ? kind : undefined);
  }

  #signal(change: Switched): void {
    this.host.nodes.signal({ type: SIGNAL, owner: this.#owner, switches: [change] });
  }

  /** Takes a signal. Nodes may run another version: what is not understood is ignored. */
  #receive(message: unknown): void {
    const { type, owner, switches } = (message ?? {}) as { type?: unknown; owner?: unknown; switches?: unknown };
    if (type !== SIGNAL || owner !== this.#owner) return;
    for (const change of switchesIn(switches)) this.#take(change);
  }

  #later(than: Switched | undefined): number {
    return Math.max(this.host.clock.now(), (than?.at ?? 0) + 1);
  }

  #forgetOld(): void {
    const old = this.host.clock.now() - KEPT_MS;
    for (const [id, { off, at }] of this.#known) if (!off && at < old && !this.#unsaved.has(id)) this.#known.delete(id);
  }

  /** @throws (rejects) what the work throws, or that it took too long */
  async #inTime(work: Promise<void>): Promise<void> {
    if (await within(work, STORE_LIMIT_MS, this.host.clock)) return;
    throw new Error(`The state store did not answer within ${STORE_LIMIT_MS} ms.`);
  }
}

/** Switches the handlers of an endpoint off, and on again. */
export class SwitchesPlugin extends McpPlugin {
  readonly ring = 'switch';

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    return new EndpointSwitches(endpoint);
  }
}

/** The options of an endpoint that it reads. */
interface SwitchOptions {
  readonly stateStore?: unknown;
  readonly backend?: unknown;
}

function idOf({ kind, key }: Pick<Switched, 'kind' | 'key'>): string {
  return `${kind} ${key}`;
}

/** Identifies a handler, by any spelling of its URI: no kind has a space. */
function placeOf(kind: ListedKind, key: string): string {
  return `${kind} ${keyOf(kind, key)}`;
}

/** Reads changes from the store, or from a signal. */
function switchesIn(value: unknown): Switched[] {
  return Array.isArray(value) ? value.filter(isSwitched) : [];
}

function isSwitched(value: unknown): value is Switched {
  if (!isObject(value)) return false;
  const { kind, key, off, reason, at } = value;
  const explained = reason === undefined || typeof reason === 'string';
  return (
    KINDS.includes(kind) && typeof key === 'string' && typeof off === 'boolean' && Number.isSafeInteger(at) && explained
  );
}
