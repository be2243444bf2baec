import { hash } from 'node:crypto';
import type { McpClock } from '../../common/clock.js';
import { fromStored, toStored } from '../../common/formats.js';
import { randomToken, TOKEN_LENGTH } from '../../common/random-token.js';
import { Turns } from '../../common/promises.js';
import { type McpHttpCall, routeText } from '../../calls/mcp-call.js';
import { type McpPrincipalState, type McpState, McpStateError, McpUnknownStateError } from '../../calls/mcp-state.js';
import { limitText, shown } from '../../protocol/errors.js';
import { isObject } from '../../protocol/json-rpc.js';
import type { McpStateStore, McpStateQuota } from './state-store.js';
import type { ResolvedStateOptions } from './state.options.js';

/** The format of {@link randomToken}. Any other handle of a client is refused without a call to the store. */
const HANDLE = new RegExp(`^[A-Za-z0-9]{${TOKEN_LENGTH}}$`);

/** Stands for the hash of an anonymous principal. */
const ANONYMOUS = '-';
/** Stands for the handle of the state of a principal. */
const OWN = '-';

const NOTHING: Data = Object.freeze({});

/**
 * # State that outlives a call
 *
 * For callers without a session, in both eras.
 *
 *     (nothing) ──first patch──▶ stored ──delete(), ttlMs without use──▶ gone
 *
 * - **With a handle**: 22 random characters, which the client passes on. A new handle takes no storage before the first
 *   patch; an ended state cannot begin again.
 * - **Of the principal**: needs no handle, and may begin again.
 *
 * Invariants:
 * - a key is made of the endpoint, a hash of the principal, the handle, and a hash of the path parameters: no caller can name
 *   the state of another one, of another endpoint or tenant, or that of a principal;
 * - operations on one state run one after the other on this node, so that all patches take effect and the bound on its size
 *   holds. Of two nodes that change one state at the same moment the later one wins.
 */
export class StoredStates {
  readonly #turns = new Turns();

  constructor(
    private readonly store: McpStateStore,
    private readonly clock: McpClock,
    private readonly options: StoredStatesOptions,
    /** Called with each failure of the store. */
    private readonly fault: (error: unknown) => void,
  ) {}

  /**
   * Opens a state for a caller.
   *
   * @param given the handle that its client passed; without one, a new state
   * @throws (rejects) McpUnknownStateError
   */
  async of(caller: StateOwner, given: unknown): Promise<McpState> {
    if (given === undefined || given === null) {
      return new StoredState(this, this.#place(caller, randomToken()), undefined);
    }
    const handle = typeof given === 'string' ? given : shown(given);
    if (!HANDLE.test(handle)) throw new McpUnknownStateError(handle);
    const place = this.#place(caller, handle);
    const data = await this.#open(place);
    if (!data) throw new McpUnknownStateError(handle);
    return new StoredState(this, place, data);
  }

  /** Opens the state of a caller that has no handle. @throws (rejects) McpStateError NO_PRINCIPAL */
  async ofPrincipal(caller: StateOwner): Promise<McpPrincipalState> {
    if (caller.principal === undefined) {
      const message = 'This call needs state of its caller, but the caller is anonymous. Sign in, and call again.';
      throw new McpStateError('NO_PRINCIPAL', message);
    }
    const place = this.#place(caller, undefined);
    return new StoredState(this, place, await this.#open(place));
  }

  #place({ principal, routeParams }: StateOwner, handle: string | undefined): StatePlace {
    const { endpoint, maxStatesPerPrincipal, maxAnonymousStates } = this.options;
    const anonymous = principal === undefined;
    const who = anonymous ? ANONYMOUS : hashOf(principal);
    const where = routeText(routeParams);
    const owner = `${endpoint}:${who}`;
    const quota = { owner, max: anonymous ? maxAnonymousStates : maxStatesPerPrincipal };
    // The quota is one for all paths: a caller may be free to choose the parameters.
    const key = `${owner}:${handle ?? OWN}${where === undefined ? '' : `.${hashOf(where)}`}`;
    return { key, quota, anonymous, handle };
  }

  /** Reads a state; opening it is a use of it. @returns `undefined` if there is none, or it has expired */
  #open(place: StatePlace): Promise<Data | undefined> {
    return this.#turns.run(place.key, async () => {
      const kept = await this.#get(place);
      if (!kept || !this.#isToBeRenewed(kept)) return kept?.data;
      // A change of another node between these two calls is lost: the later one wins.
      await this.#set(place, kept.data);
      return kept.data;
    });
  }

  /**
   * Changes a state.
   *
   * @param begins whether the state may begin with this
   * @returns the data after the change
   * @throws McpUnknownStateError, McpStateError
   * @internal
   */
  patch(place: StatePlace, changes: Record<string, unknown>, begins: boolean): Promise<Data> {
    const plain = plainJson(changes);
    return this.#turns.run(place.key, async () => {
      const kept = await this.#get(place);
      if (!kept && !begins) throw new McpUnknownStateError(place.handle!);
      const data = merged(kept?.data ?? NOTHING, plain);
      this.#assertSize(data);
      if ((await this.#set(place, data)) === 'full') throw tooMany(place);
      return data;
    });
  }

  /** @internal */
  delete({ key }: StatePlace): Promise<boolean> {
    return this.#turns.run(key, () => this.#asking(() => this.store.delete(key)));
  }

  #get({ key }: StatePlace): Promise<Kept | undefined> {
    return this.#asking(async () => {
      const kept = fromStored('states', await this.store.get(key));
      if (kept === undefined || isKept(kept)) return kept;
      // It is not replaced: another program may still need it.
      throw new Error(`What the state store has under "${key}" is no state: ${shown(kept)}.`);
    });
  }

  #set({ key, quota }: StatePlace, data: Data): Promise<'full' | boolean | void> {
    const { ttlMs } = this.options;
    const kept = toStored('states', { data, usedAt: this.clock.now() } satisfies Kept);
    return this.#asking(async () => {
      const outcome = await this.store.set(key, kept, ttlMs === Infinity ? undefined : ttlMs, quota);
      if (outcome === false) throw new Error('The state store did not keep a value: set() returned false.');
      return outcome;
    });
  }

  /**
   * Returns whether a use is to be stored: at most ten times per `ttlMs`. Clocks of nodes may differ: a use in the
   * future is due.
   */
  #isToBeRenewed({ usedAt }: Kept): boolean {
    return Math.abs(this.clock.now() - usedAt) >= this.options.ttlMs / 10;
  }

  /** Calls the store. @throws McpStateError STORE_UNAVAILABLE */
  async #asking<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      // The handler may send the McpStateError to the client; the log of the app has the cause.
      this.fault(error);
      const message =
        'The storage of this server is unavailable, so state can be neither read nor changed. The request may be repeated: try again soon.';
      throw new McpStateError('STORE_UNAVAILABLE', message, { cause: error });
    }
  }

  #assertSize(data: Data): void {
    const { maxStateBytes } = this.options;
    const bytes = Buffer.byteLength(JSON.stringify(data));
    if (bytes <= maxStateBytes) return;
    const message = `The state would have ${bytes} bytes as JSON; the maximum is ${maxStateBytes} ("maxStateBytes"). Keep less in it.`;
    throw new McpStateError('STATE_TOO_LARGE', message);
  }
}

export interface StoredStatesOptions extends ResolvedStateOptions {
  /** Separates the states of endpoints that share a store; it is the same on all nodes, and without colons. */
  readonly endpoint: string;
  /** A state ends so many milliseconds after its last use. */
  readonly ttlMs: number;
}

type Data = Readonly<Record<string, unknown>>;

/** Identifies the owner of a state. */
type StateOwner = Pick<McpHttpCall, 'principal' | 'routeParams'>;

/** A value in the store. */
interface Kept {
  readonly data: Data;
  /** The time of the last use, in milliseconds since the epoch, by the clock of the node that set it. */
  readonly usedAt: number;
}

/** The key of a state, and its owner. */
interface StatePlace {
  readonly key: string;
  readonly quota: McpStateQuota;
  readonly anonymous: boolean;
  readonly handle: string | undefined;
}

/**
 * One state, as a caller has opened it.
 *
 *     with a handle: minted ──first patch──▶ stored ──▶ gone, for good
 *     of a principal: a patch begins it whenever there is none
 */
class StoredState implements McpState {
  /** Whether a patch may begin the state. */
  #begins: boolean;
  #data: Data;

  constructor(
    private readonly states: StoredStates,
    private readonly place: StatePlace,
    data: Data | undefined,
  ) {
    this.#begins = this.#own || data === undefined;
    this.#data = data ?? NOTHING;
  }

  get handle(): string {
    return this.place.handle!;
  }

  get data(): Data {
    return this.#data;
  }

  async patch(changes: Record<string, unknown>): Promise<Data> {
    this.#data = await this.states.patch(this.place, changes, this.#begins);
    this.#begins = this.#own;
    return this.#data;
  }

  async delete(): Promise<boolean> {
    this.#begins = this.#own;
    const existed = await this.states.delete(this.place);
    this.#data = NOTHING;
    return existed;
  }

  /** Returns whether the state is that of a principal. */
  get #own(): boolean {
    return this.place.handle === undefined;
  }
}

function isKept(value: unknown): value is Kept {
  return isObject(value) && isObject(value['data']) && typeof value['usedAt'] === 'number';
}

function tooMany({ anonymous, quota: { max } }: StatePlace): McpStateError {
  const advice = anonymous
    ? '. Sign in, or try again later.'
    : '. Use the handle of an existing state, or wait until an unused state expires.';
  const option = anonymous ? 'maxAnonymousStates' : 'maxStatesPerPrincipal';
  const of = anonymous ? 'anonymous' : 'caller';
  return new McpStateError('TOO_MANY_STATES', limitText({ of, max, what: 'states', option, advice }));
}

/** Returns what stands for a text in the keys of a state store: no key names a principal. */
export function hashOf(text: string): string {
  return hash('sha256', text, 'base64url');
}

/** Merges key by key; `null` removes a key. It uses a Map, so that keys such as `__proto__` are not special. */
function merged(data: Data, changes: Data): Data {
  const entries = new Map(Object.entries(data));
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) entries.delete(key);
    else entries.set(key, value);
  }
  return Object.fromEntries(entries);
}

/** Checks that changes are plain JSON. @throws TypeError for what is no object, or cannot be JSON */
function plainJson(changes: unknown): Record<string, unknown> {
  const plain: unknown = changes === undefined ? undefined : JSON.parse(JSON.stringify(changes) ?? 'null');
  if (typeof plain === 'object' && plain !== null && !Array.isArray(plain)) return plain as Record<string, unknown>;
  throw new TypeError(
    `patch() of a state takes an object of plain JSON; got ${shown(changes)}. Give each value a key.`,
  );
}
