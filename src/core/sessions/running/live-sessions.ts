import { Inject, Injectable } from '@nestjs/common';
import { type Observable, Subject } from 'rxjs';
import type { ClockTimer } from '../../common/clock.js';
import { FORMATS } from '../../common/formats.js';
import { isThenable, quiet } from '../../common/promises.js';
import { Retry } from '../../common/retry.js';
import { MCP_OPTIONS } from '../../common/options.js';
import type { McpSessionInfo } from '../../calls/mcp-call.js';
import type { McpSessionSettings } from '../../calls/mcp-dispatcher.js';
import { logger } from '../../calls/operator-log.js';
import type { ResolvedResponseOptions } from '../../calls/response.options.js';
import { REQUEST_FAILED, shutdownRefusal } from '../../protocol/errors.js';
import { McpSession } from './mcp-session.js';
import type { McpSessionEndReason } from '../session-events.js';
import { infoOf } from './session-state.js';
import { type McpNewcomer, type McpSessionRecord, McpSessionStore } from '../store/session-store.js';
import { endedText } from '../session.errors.js';
import { SessionRuntime } from '../session-runtime.js';
import type { ResolvedSessionOptions } from '../session.options.js';

/** A session that is live on this node. */
export interface LiveSession {
  readonly session: McpSession;
  /** The time of the last touch in the store, in milliseconds since the epoch; -Infinity if this node knows of none. */
  touchedAt: number;
  /** Says whether its client has sent something to this node after `initialize`. */
  used: boolean;
  /** The time at which its record was last read, in milliseconds since the epoch. */
  verifiedAt: number;
  /** Resolves when the log of a rebuilt session is readable. @throws (rejects) McpError UNAVAILABLE */
  ready?: Promise<void> | undefined;
}

/** A request finds a session as its live copy on this node, or as its record. */
export interface KnownSession {
  readonly info: McpSessionInfo;
  readonly live?: LiveSession;
  readonly record?: McpSessionRecord;
}

type Timing = Pick<ResolvedSessionOptions, 'idleTimeoutMs'> & Pick<ResolvedResponseOptions, 'keepAliveMs'>;

/**
 * # The sessions that are live on this node
 *
 * The {@link McpSessionStore} holds the record of a session; its live copy is a {@link McpSession}. The first request
 * that names a session without a live copy creates one from the record: after a restart, or on another node than
 * before.
 *
 *     record only ──request──▶ live ──end──▶ (nothing)
 *
 * Invariants:
 * - at most one live copy per session and node;
 * - no request finds a session that is being initialized, though its record is there;
 * - the one caller that gets the record from `delete` or `claimExpired` cleans up;
 * - after an end there is no record, no live object, no stream, no log entry and no timer.
 */
@Injectable()
export class LiveSessions {
  readonly #live = new Map<string, LiveSession>();
  /** The sessions that are being initialized, which no request finds. */
  readonly #initializing = new Map<string, McpSession>();
  readonly #ending = new Set<Promise<void>>();
  readonly #drops: Retry;
  /** Runs until this node stops: it may be the only node left, and must also end expired sessions of dead nodes. */
  readonly #sweeping: ClockTimer;
  readonly #swept$ = new Subject<void>();
  /** Emits at each sweep, for others that look into the stores as often. */
  readonly swept$: Observable<void> = this.#swept$;
  #closing = false;
  /** Whether an anonymous session has given way on this node. */
  #gaveWay = false;

  constructor(
    @Inject(McpSessionStore) private readonly store: McpSessionStore,
    @Inject(SessionRuntime) private readonly runtime: SessionRuntime,
    @Inject(MCP_OPTIONS) private readonly timing: Timing,
  ) {
    runtime.serve(this);
    this.#drops = new Retry(runtime.retry, runtime.clock, () => false);
    const { idleTimeoutMs, keepAliveMs } = timing;
    const periodMs = Math.max(1, Math.min(idleTimeoutMs / 10, keepAliveMs));
    this.#sweeping = runtime.clock.setInterval(() => void this.#sweep(), periodMs);
  }

  get size(): number {
    return this.#live.size;
  }
  /** Says that the node is stopping: no further session becomes live. */
  get closing(): boolean {
    return this.#closing;
  }

  all(): Iterable<LiveSession> {
    return this.#live.values();
  }

  /** Returns the live copy of a session, if this node has one. */
  peek(id: string): LiveSession | undefined {
    return this.#live.get(id);
  }

  /** Finds a session, live or not. @throws McpError (rejects) UNAVAILABLE while the store is unavailable */
  lookup(id: string): KnownSession | undefined | Promise<KnownSession | undefined> {
    const live = this.#live.get(id);
    if (live) return { info: live.session.info, live };
    if (this.#initializing.has(id)) return undefined;
    return this.runtime
      .ask(id, () => this.store.get(id))
      .then((record) => (record && isServed(record) ? { info: infoOf(record), record } : undefined));
  }

  /** Returns the live copy of a session for a request of its client, and makes it from the record if there is none. */
  enter({ info: { id }, live: known, record }: KnownSession): LiveSession | undefined {
    const live = this.#live.get(id);
    if (live) this.#touch(live);
    else if (record && !known) return this.#rebuild(record);
    return live;
  }

  /** Keeps a session that has a record and is being initialized, until it is added or discarded. */
  begin(session: McpSession): void {
    this.#initializing.set(session.sessionId, session);
  }

  /** Tells whether a session that has a record is being initialized here. */
  isInitializing(id: string): boolean {
    return this.#initializing.has(id);
  }

  /**
   * Removes a session whose `initialize` failed. Never rejects.
   *
   * @param session `undefined`: whether there is a record is not known, and there is no log yet
   */
  async discard(id: string, session: McpSession | undefined): Promise<void> {
    await session?.end('initialize-failed');
    // A record that could not be deleted expires.
    await this.store.delete(id).catch((error: unknown) => this.runtime.storeFault(id, error));
    if (!session) return;
    this.#initializing.delete(id);
    void this.dropLog(id);
  }

  /** Makes a session known. @returns `false` if it has ended meanwhile, is live already, or the node stops */
  add(session: McpSession): boolean {
    const { sessionId } = session;
    if (session.over || this.#closing || this.#live.has(sessionId)) return false;
    this.#initializing.delete(sessionId);
    this.#enter(session);
    return true;
  }

  #enter(session: McpSession): LiveSession {
    const { sessionId } = session;
    const now = this.runtime.clock.now();
    const live: LiveSession = { session, touchedAt: -Infinity, used: false, verifiedAt: now };
    this.#live.set(sessionId, live);
    return live;
  }

  /** Returns the live copy of a session, when it is ready to be used. @returns `undefined` if there is no record */
  async acquire(id: string): Promise<LiveSession | undefined> {
    const found = this.lookup(id);
    const known = isThenable(found) ? await found : found;
    const live = known && this.enter(known);
    await live?.ready;
    return live?.session.over ? undefined : live;
  }

  /**
   * Ends a session, wherever it is live.
   *
   * @returns whether this call ended the session: `true` for exactly one caller
   */
  async end(id: string, reason: McpSessionEndReason): Promise<boolean> {
    const record = await this.store.delete(id);
    // An earlier attempt may have removed the record without getting the answer. Ending the rest twice does no harm.
    const taken = record !== undefined || !this.runtime.sharedRecords;
    const rest = record !== undefined || (!taken && this.#live.has(id));
    // Only the node that removed the record reports the end; the client gets the reason in any case.
    if (!taken) void this.#live.get(id)?.session.end('ended-elsewhere', endedText(reason));
    this.#endHere(id, taken ? reason : 'ended-elsewhere', { dropLog: rest, notifyNodes: rest, record });
    return record !== undefined;
  }

  /**
   * Ends the session that is unused for longest, so that a new one gets its place. Its client had some seconds to use it.
   *
   * @returns whether there was one
   */
  async endUnused(newcomer: McpNewcomer): Promise<boolean> {
    return (await this.#endExpired(Infinity, 1, GIVES_WAY_MS, newcomer)) > 0;
  }

  /**
   * Ends the anonymous session that is idle for longest, so that a caller with a principal gets its place.
   *
   * @returns whether there was one
   */
  async endAnonymous(newcomer: McpNewcomer): Promise<boolean> {
    const record = await this.store.claimAnonymous?.(newcomer);
    if (!record) return false;
    this.#endHere(record.id, 'idle', { dropLog: true, notifyNodes: true, record });
    if (!this.#gaveWay) logger.warn(GAVE_WAY);
    this.#gaveWay = true;
    return true;
  }

  /** Removes the live copy and keeps the record, as a restart would. Open calls are answered with an error. */
  async release(id: string, reason: McpSessionEndReason = 'shutdown'): Promise<void> {
    const live = this.#live.get(id);
    this.#live.delete(id);
    await live?.session.end(reason);
  }

  /**
   * Ends all live copies; removes records and logs only if no other node could use them. Calls are answered first, so
   * that an unavailable store delays no answer.
   */
  async shutdown(): Promise<void> {
    this.#closing = true;
    this.runtime.clock.clear(this.#sweeping);
    this.#swept$.complete();
    this.#drops.cancel();
    const known = new Set([...this.#initializing.keys(), ...this.#live.keys()]);
    for (const [id, session] of this.#initializing) this.#track(this.discard(id, session));
    const forget = !this.runtime.sharedRecords;
    for (const id of this.#live.keys()) this.#endHere(id, 'shutdown', { dropLog: forget || this.#ownsLogs });
    if (forget) await this.#endOthers(known).catch((error: unknown) => this.runtime.storeFault('', error));
    await this.settled();
  }

  /** @param known those that are ended by other means */
  async #endOthers(known: ReadonlySet<string>): Promise<void> {
    for (const { id } of await this.store.list()) {
      await this.store.delete(id);
      if (!known.has(id)) this.#endHere(id, 'shutdown', { dropLog: true });
    }
  }

  /** Resolves when every end that is under way is complete. */
  async settled(): Promise<void> {
    while (this.#ending.size > 0) await Promise.all(this.#ending);
  }

  /** Tells whether the logs are in this process, so that no other node can drop them. */
  get #ownsLogs(): boolean {
    return !this.runtime.sharedLogs;
  }

  #endHere(id: string, reason: McpSessionEndReason, rest: Rest): void {
    const live = this.#live.get(id);
    this.#live.delete(id);
    void this.#initializing.get(id)?.end(reason);
    if (!live && !rest.dropLog) return;
    this.#track(this.#endLive(id, live, reason, rest));
  }

  /** @param end never rejects */
  #track(end: Promise<void>): void {
    const ending = end.then(() => void this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async #endLive(id: string, live: LiveSession | undefined, reason: McpSessionEndReason, rest: Rest): Promise<void> {
    const [also, advice] = this.runtime.sharedRecords
      ? ['', 'Repeat it']
      : [', and its session with it', 'Start a new session, and repeat the request'];
    const text = `This server is shutting down and ended this request before it was answered${also}. Whether it had an effect is not known. ${advice} if that does no harm.`;
    await live?.session.end(reason, reason === 'shutdown' ? text : undefined);
    this.runtime.event({ type: 'closed', sessionId: id, reason });
    if (rest.record) this.runtime.sessionOver(rest.record);
    if (rest.dropLog) await this.dropLog(id, reason);
    // Afterwards, so that readers on other nodes find the end in the log. Without a record they do not have the session.
    if (rest.notifyNodes && this.runtime.sharedRecords) this.runtime.nodes.ended(id, reason);
  }

  /** Drops a log; retries after transient faults, since no other node would. Never rejects. */
  dropLog(id: string, reason: McpSessionEndReason = 'ended-elsewhere'): Promise<void> {
    const lastError = { code: REQUEST_FAILED, message: endedText(reason) };
    const drop = () => this.runtime.store.drop(id, lastError);
    return this.#drops.run(drop).catch((error: unknown) => this.runtime.storeFault(id, error));
  }

  /** @throws McpError UNAVAILABLE when this node stops */
  #rebuild(record: McpSessionRecord): LiveSession {
    const { runtime } = this;
    const { id } = record;
    if (this.#closing) throw shutdownRefusal();
    const session = McpSession.rebuilt(record, runtime);
    const live = this.#enter(session);
    session.inbox.skip();
    if (this.#ownsLogs) {
      live.ready = this.#openLog(live).finally(() => {
        live.ready = undefined;
      });
      void quiet(live.ready);
    }
    runtime.dispatcher.sessionRebuilt?.(session, settingsOf(record));
    runtime.event({ type: 'rebuilt', sessionId: id, session: session.info });
    // The session may have ended or changed on another node since its record was read.
    this.#touchNow(live);
    if (this.runtime.sharedRecords) this.#verify(live);
    return live;
  }

  /** Opens the log again: one in the memory of this process did not survive a restart as the record did. */
  async #openLog(live: LiveSession): Promise<void> {
    const { runtime } = this;
    const { sessionId: id } = live.session;
    try {
      await runtime.ask(id, () => runtime.store.open(id));
      // The session ended meanwhile, and `open` has created its log again.
      if (live.session.over) await this.dropLog(id);
    } catch (error) {
      // The next request tries again.
      if (this.#live.get(id) === live) await this.release(id);
      throw error;
    }
  }

  /** Ends the live copy of a session that another node has ended. */
  endedElsewhere(id: string, why?: McpSessionEndReason): void {
    void this.#live.get(id)?.session.end('ended-elsewhere', why && endedText(why));
    this.#endHere(id, 'ended-elsewhere', { dropLog: this.#ownsLogs });
  }

  /** Compares records, and checks streams and inboxes, because messages of other nodes may have been lost. */
  refreshAll(): void {
    for (const live of this.#live.values()) {
      this.#verify(live);
      live.session.refresh(true);
    }
  }

  /** Compares a live copy that may be out of date with its record. */
  suspect(id: string): void {
    const live = this.#live.get(id);
    if (live) this.#verify(live);
  }

  /** Compares a live copy with its record. Does not count as activity. */
  #verify(live: LiveSession): void {
    const { session } = live;
    const { changes, recording } = session.state;
    // Until then the record lacks changes of this copy.
    if (recording) return void recording.then(() => this.suspect(session.sessionId));
    live.verifiedAt = this.runtime.clock.now();
    this.store.get(session.sessionId).then(
      (record) => {
        if (!record) return this.#endHere(session.sessionId, 'ended-elsewhere', { dropLog: this.#ownsLogs });
        // Changes that came meanwhile may be newer.
        const missed = session.state.changes === changes ? session.state.missed(record) : undefined;
        if (missed && !session.over) session.follow(missed);
      },
      (error: unknown) => this.runtime.storeFault(session.sessionId, error),
    );
  }

  /** Keeps busy sessions alive, ends idle ones, and acknowledges delivered events in the log. */
  async #sweep(): Promise<void> {
    this.#swept$.next();
    for (const live of this.#live.values()) this.#lookAfter(live);
    // A server of the app may take longer to be made than a session may be unused.
    for (const id of this.#initializing.keys()) {
      this.store.touch(id).catch((error: unknown) => this.runtime.storeFault(id, error));
    }
    const { idleTimeoutMs } = this.timing;
    try {
      await this.#endExpired(idleTimeoutMs, EXPIRED_AT_ONCE, Math.min(idleTimeoutMs, UNUSED_MS));
    } catch (error) {
      this.runtime.storeFault('', error);
    }
  }

  async #endExpired(...claim: Parameters<McpSessionStore['claimExpired']>): Promise<number> {
    const expired = await this.store.claimExpired(...claim);
    for (const record of expired) this.#endHere(record.id, 'idle', { dropLog: true, notifyNodes: true, record });
    return expired.length;
  }

  #lookAfter(live: LiveSession): void {
    const { session, touchedAt, used, verifiedAt: askedAt } = live;
    const { idleTimeoutMs } = this.timing;
    const now = this.runtime.clock.now();
    // The session ended on this node while the store was unavailable.
    if (session.over)
      this.end(session.sessionId, 'terminated').catch((error: unknown) => this.runtime.storeFault('', error));
    else if (session.busy || (used && session.lastSeenAt > touchedAt)) this.#touch(live);
    // Idle on this node. The message of another node that ended it may have been lost.
    else if (this.runtime.sharedRecords && now - Math.max(touchedAt, askedAt) >= Math.min(idleTimeoutMs, VERIFY_MS)) {
      this.#verify(live);
    }
    session.refresh();
  }

  /** Writes activity to the store: at once when it is the first, then at most ten times per idle timeout. */
  #touch(live: LiveSession): void {
    const now = this.runtime.clock.now();
    if (now - live.touchedAt >= this.timing.idleTimeoutMs / 10) this.#touchNow(live);
  }

  #touchNow(live: LiveSession): void {
    const first = live.touchedAt === -Infinity;
    live.touchedAt = this.runtime.clock.now();
    live.used = true;
    const { sessionId } = live.session;
    this.store.touch(sessionId).then(
      (exists) => {
        if (!exists) this.#endHere(sessionId, 'ended-elsewhere', { dropLog: this.#ownsLogs });
      },
      (error: unknown) => {
        // For the store the session is still unused: the next message, or the next sweep, tells it again.
        if (first) live.touchedAt = -Infinity;
        this.runtime.storeFault(sessionId, error);
      },
    );
  }
}

/**
 * Tells whether this version of the package can continue a session. Another one can be ended, and ends when it is idle, but is
 * neither read nor written.
 */
export function isServed({ format }: Pick<McpSessionRecord, 'format'>): boolean {
  return format === undefined || format === FORMATS.sessions;
}

/** Returns the client's settings, for dispatchers that keep some of them. */
function settingsOf({ initialize, protocolVersion, logLevel, subscriptions }: McpSessionRecord): McpSessionSettings {
  return {
    // The revision negotiated then; a newer server might negotiate another one.
    initialize: { ...(JSON.parse(initialize) as object), protocolVersion },
    ...(logLevel !== undefined && { logLevel }),
    subscribe: subscriptions,
  };
}

/** The node that removed the record cleans this up. */
interface Rest {
  /** Says whether the log is dropped, too. */
  readonly dropLog: boolean;
  readonly notifyNodes?: boolean;
  /** The record that this end has taken from the store. */
  readonly record?: McpSessionRecord | undefined;
}

const GAVE_WAY =
  'There are "maxSessions" sessions, and a caller with a principal took the place of an idle anonymous session. To leave places to such callers, set "maxAnonymousSessions". Further ones are not logged.';
/** One sweep ends at most this many sessions; the next sweep continues. */
const EXPIRED_AT_ONCE = 1_000;
/** A session ends after this time if its client sends nothing after `initialize`. */
const UNUSED_MS = 60_000;
/** A client that has received the answer to `initialize` has this time to send something, also at the cap. */
const GIVES_WAY_MS = 5_000;
/** A copy that is idle on this node is compared with its record at least this often. */
const VERIFY_MS = 1_800_000;
