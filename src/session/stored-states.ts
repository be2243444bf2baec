import { createHash } from 'node:crypto';
import type { Clock } from '../common/clock.js';
import { randomToken, TOKEN_LENGTH } from '../common/random-token.js';
import { Turns } from '../common/promises.js';
import type { McpPrincipalState, McpState, McpStatePort } from '../context/mcp-state.js';
import { McpStateError, UnknownStateError } from '../context/mcp-state.errors.js';
import { shown } from '../wire/wire.messages.js';
import { mergedData } from './merged-data.js';
import { RecentTouches } from './recent-touches.js';
import { sessionMessages } from './session.messages.js';
import { capsFor, type SessionLimits } from './session.options.js';
import type { InitializeParams, McpSessionRecord, McpSessionStore } from './session-store.js';

/** What {@link randomToken} makes. Nothing else that a client calls a handle gets near the store. */
const HANDLE = new RegExp(`^[A-Za-z0-9]{${TOKEN_LENGTH}}$`);

/** Whoever is beaten to beginning a state, or finds it gone, looks again; more often than this, something is wrong. */
const ATTEMPTS = 4;

const NOTHING: Readonly<Record<string, unknown>> = Object.freeze({});

/**
 * # State that outlives a call
 *
 * For callers without a session, in both eras. It is a record of the kind `state` in the session store: it counts as a
 * session does, expires as a session does, and is none: nothing that is asked for by session id ever finds it.
 *
 *     (nothing) ──first patch──▶ stored ──delete(), idleTimeoutMs without use──▶ gone
 *
 * - **With a handle**: 22 random characters, which the client passes on. A handle that was minted costs nothing until
 *   something is stored under it; one that is gone stays gone.
 * - **Of the principal**: named by a hash of who calls, so it needs no handle, and may begin again.
 *
 * Invariants:
 * - the id of a record is made of the endpoint and a handle, or a hash, which is longer than any handle: no client can name
 *   the state of a principal, or of another endpoint. It has a space in it, which no session id has;
 * - a state is used by the principal in whose call it began; for others it does not exist;
 * - patches are merged in the store. On this node those of one state run one after the other, so that the bound on its size
 *   holds; several nodes may together exceed it by a patch each.
 */
export class StoredStates {
  readonly #turns = new Turns();
  readonly #touches: RecentTouches;
  #watcher: StateWatcher | undefined;

  constructor(private readonly parts: StoredStatesParts) {
    this.#touches = new RecentTouches(parts.clock, parts.idleTimeoutMs / 10);
  }

  /** Says who ends what expires. */
  watchedBy(watcher: StateWatcher): void {
    this.#watcher = watcher;
  }

  /** State as one call gets at it. */
  of(owner: StateOwner): McpStatePort {
    return {
      open: (handle) => (handle === undefined || handle === null ? this.#minted(owner) : this.#opened(handle, owner)),
      ofPrincipal: () => this.#ofPrincipal(owner),
    };
  }

  async #minted(owner: StateOwner): Promise<McpState> {
    const handle = randomToken();
    return new HandledState(this, { id: this.#idOf(handle), owner, handle }, undefined);
  }

  /** @throws UnknownStateError */
  async #opened(given: unknown, owner: StateOwner): Promise<McpState> {
    const handle = typeof given === 'string' ? given : shown(given);
    const id = this.#idOf(handle);
    const record = HANDLE.test(handle) ? await this.#asking((store) => store.get(id)) : undefined;
    const theirs = record?.kind === 'state' && record.principal === owner.principal;
    if (!theirs || !(await this.#used(id))) throw new UnknownStateError(handle);
    return new HandledState(this, { id, owner, handle }, record.data);
  }

  /** @throws McpStateError NO_PRINCIPAL */
  async #ofPrincipal(owner: StateOwner): Promise<McpPrincipalState> {
    const { principal } = owner;
    if (principal === undefined) throw new McpStateError('NO_PRINCIPAL', sessionMessages.anonymousState());
    const id = this.#idOf(createHash('sha256').update(principal).digest('base64url'));
    const record = await this.#asking((store) => store.get(id));
    const data = record && (await this.#used(id)) ? record.data : undefined;
    return new OwnState(this, { id, owner, handle: undefined }, data);
  }

  #idOf(name: string): string {
    return `state ${this.parts.endpoint} ${name}`;
  }

  /** Notes a sign of life, and sees to it that somebody ends it one day. @returns whether it is still there */
  async #used(id: string): Promise<boolean> {
    this.#watcher?.watch();
    if (!this.#touches.due(id)) return true;
    const exists = await this.#asking((store) => store.touch(id));
    if (exists) this.#touches.note(id);
    return exists;
  }

  /**
   * @param begins the state may begin with this
   * @returns the data after the change
   * @throws UnknownStateError, McpStateError
   * @internal
   */
  patch(place: StatePlace, changes: Record<string, unknown>, begins: boolean): Promise<McpSessionRecord['data']> {
    const { id, handle } = place;
    const plain = plainJson(changes);
    return this.#turns.run(id, async () => {
      for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
        const present = await this.#asking((store) => store.get(id));
        if (!present && !begins) throw new UnknownStateError(handle!);
        const data = mergedData(present?.data ?? NOTHING, plain);
        this.#assertSize(data);
        const record = present ? await this.#patched(id, plain) : await this.#begun(place, data);
        if (record) return record.data;
      }
      throw new Error(sessionMessages.contendedState(ATTEMPTS));
    });
  }

  /** @internal */
  async delete({ id }: StatePlace): Promise<boolean> {
    const record = await this.#turns.run(id, () => this.#asking((store) => store.delete(id)));
    this.#touches.forget(id);
    this.#watcher?.relax();
    return record !== undefined;
  }

  async #patched(id: string, changes: Record<string, unknown>): Promise<McpSessionRecord | undefined> {
    return (await this.#used(id)) ? this.#asking((store) => store.patch(id, { data: changes })) : undefined;
  }

  /** @returns `undefined` if another call has begun it meanwhile @throws McpStateError TOO_MANY_STATES */
  async #begun({ id, owner }: StatePlace, data: Record<string, unknown>): Promise<McpSessionRecord | undefined> {
    const { store } = this.parts;
    const { principal } = owner;
    const outcome = await this.#reserve(id, principal);
    const initialize = owner.client();
    const { protocolVersion } = initialize;
    try {
      // Also when it is taken: of those who begin a principal's state at the same time, the first one does.
      const record = await store.create({ id, kind: 'state', principal, protocolVersion, initialize, data });
      this.#touches.note(id);
      this.#watcher?.watch();
      return record;
    } catch (error) {
      if (outcome === 'reserved') await store.release(id).catch(() => {});
      if (await this.#asking(() => store.get(id))) return undefined;
      throw this.#away(error);
    }
  }

  async #reserve(id: string, principal: string | undefined): Promise<'reserved' | 'taken'> {
    const caps = capsFor(principal, this.parts.limits);
    const outcome = await this.#asking((store) => store.reserve(id, principal, caps));
    if (outcome === 'total-cap') {
      throw new McpStateError('TOO_MANY_STATES', sessionMessages.tooManyStates(caps.total));
    }
    if (outcome === 'principal-cap') {
      const anonymous = principal === undefined;
      const say = anonymous ? sessionMessages.tooManyAnonymousStates : sessionMessages.tooManyStatesOfPrincipal;
      throw new McpStateError('TOO_MANY_STATES', say(caps.perPrincipal));
    }
    return outcome;
  }

  /** @throws McpStateError STORE_UNAVAILABLE */
  async #asking<T>(ask: (store: McpSessionStore) => Promise<T>): Promise<T> {
    try {
      return await ask(this.parts.store);
    } catch (error) {
      throw this.#away(error);
    }
  }

  /** A handler that passes it on tells the client; the operator hears of the fault itself. */
  #away(error: unknown): McpStateError {
    this.#watcher?.fault(error);
    return new McpStateError('STORE_UNAVAILABLE', sessionMessages.stateAway(), { cause: error });
  }

  #assertSize(data: Record<string, unknown>): void {
    const { maxStateBytes } = this.parts;
    const bytes = Buffer.byteLength(JSON.stringify(data));
    if (bytes <= maxStateBytes) return;
    throw new McpStateError('STATE_TOO_LARGE', sessionMessages.largeState(bytes, maxStateBytes));
  }
}

export interface StoredStatesParts {
  readonly store: McpSessionStore;
  readonly clock: Clock;
  /** Tells the states of endpoints apart that share a store; the same on all nodes. */
  readonly endpoint: string;
  readonly limits: SessionLimits;
  readonly idleTimeoutMs: number;
  readonly maxStateBytes: number;
}

/** In whose call a state is opened. */
export interface StateOwner {
  readonly principal: string | undefined;
  /** What the client said of itself; asked for only when a state begins. */
  client(): InitializeParams;
}

/** Ends what expires, and hears of faults. */
export interface StateWatcher {
  /** The store failed. */
  fault(error: unknown): void;
  /** There is something that may expire. */
  watch(): void;
  /** Something is gone: there may be nothing left. */
  relax(): void;
}

/** Which state, and of whom. */
interface StatePlace {
  readonly id: string;
  readonly owner: StateOwner;
  readonly handle: string | undefined;
}

/** State of a principal: when there is none, the next patch begins it. */
class OwnState implements McpPrincipalState {
  #data: McpPrincipalState['data'];

  constructor(
    protected readonly states: StoredStates,
    protected readonly place: StatePlace,
    data: McpPrincipalState['data'] | undefined,
  ) {
    this.#data = data ?? NOTHING;
  }

  get data(): McpPrincipalState['data'] {
    return this.#data;
  }

  /** Whether a patch may begin it. */
  protected get begins(): boolean {
    return true;
  }

  async patch(changes: Record<string, unknown>): Promise<McpPrincipalState['data']> {
    return (this.#data = await this.states.patch(this.place, changes, this.begins));
  }

  async delete(): Promise<boolean> {
    const existed = await this.states.delete(this.place);
    this.#data = NOTHING;
    return existed;
  }
}

/**
 * State with a handle.
 *
 *     minted ──first patch──▶ stored ──▶ gone, for good
 */
class HandledState extends OwnState implements McpState {
  #minted: boolean;

  constructor(states: StoredStates, place: StatePlace, data: McpPrincipalState['data'] | undefined) {
    super(states, place, data);
    this.#minted = data === undefined;
  }

  get handle(): string {
    return this.place.handle!;
  }

  protected override get begins(): boolean {
    return this.#minted;
  }

  override async patch(changes: Record<string, unknown>): Promise<McpPrincipalState['data']> {
    const data = await super.patch(changes);
    this.#minted = false;
    return data;
  }

  override delete(): Promise<boolean> {
    this.#minted = false;
    return super.delete();
  }
}

/** @throws TypeError for what is no object, or cannot be JSON */
function plainJson(changes: unknown): Record<string, unknown> {
  const plain: unknown = changes === undefined ? undefined : JSON.parse(JSON.stringify(changes) ?? 'null');
  if (typeof plain === 'object' && plain !== null && !Array.isArray(plain)) return plain as Record<string, unknown>;
  throw new TypeError(sessionMessages.noStateChanges(changes));
}
