import { DONE } from '../common/promises.js';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import { McpEventStoreError, McpSessionGoneError, McpStreamNotFoundError } from '../log/event-store.errors.js';
import { MCP_INBOX_STREAM, type McpReadResult } from '../log/event-store.js';
import { McpError } from '../protocol/errors.js';
import { isResponse, type JsonRpcMessage } from '../protocol/json-rpc.js';
import { issuerElsewhere } from '../sessions/streams/outbound-requests.js';
import { SESSION_OVER } from '../sessions/session.errors.js';
import type { FromClient, InboxOwner, InboxRuntime, SessionInbox } from '../sessions/other-nodes.js';
import { ALL_NODES } from './node-messages.js';

/**
 * # Messages of a client that arrived on another node
 *
 * An answer, its progress or a cancellation may arrive on any node, while the handler that waits for it runs on one. It is put
 * into the log of its session, on a stream of its own, before the client gets its 202; the bus carries only a hint. Every
 * live copy of the session reads on from where it stopped, also when the hint was lost.
 *
 *     idle ──look──▶ reading ──all read, or the log stays unavailable──▶ idle
 *
 * A log that fails over may lose a message that was put a short while before (G12). So the node that took it looks for it once more
 * later, and whenever the log may have failed over, and puts it again if it is lost.
 *
 * Invariants:
 * - a message of a client is in the log, within its bounds, or was refused (503): no message is lost after a 202, unless the node
 *   that took it ends with the log that lost it;
 * - each entry is handed over once, in the order of the log, which uses no index twice (G12); a node ignores its own entries. Only a
 *   message that was put again may be handed over again: what waited for it is over.
 */
export class Inbox implements SessionInbox {
  /** The index of the last entry that was read. */
  #seen = 0;
  /**
   * Settles when the first entry to read is known; `undefined` once it is known, or if it is the first one of the log.
   */
  #skipping: Promise<void> | undefined;
  #reading = false;
  /** An entry was announced during the read. */
  #again = false;
  /** What was put here, until it is confirmed. */
  #kept: Put[] | undefined;
  #confirming = DONE;
  readonly #retry: Retry;

  constructor(
    private readonly session: InboxOwner,
    private readonly runtime: InboxRuntime,
    /** Notifies a node, or `*`, that there is something to read. */
    private readonly announce: (to: string) => void,
  ) {
    const { retry, clock } = runtime;
    this.#retry = new Retry(retry, clock, (error) => error instanceof McpEventStoreError);
  }

  isAwaitedElsewhere(id: unknown): boolean {
    return issuerElsewhere(id, this.runtime.nodeId) !== undefined;
  }

  /** Tells whether a POST has messages for other nodes. */
  concerns(messages: readonly JsonRpcMessage[]): boolean {
    return messages.some((message) => this.#addressee(message) !== undefined);
  }

  /**
   * Puts the messages for other nodes into the log.
   *
   * @returns settles when it is in the log
   * @throws McpError (rejects) UNAVAILABLE while the log is unavailable, SESSION_NOT_FOUND when the session has ended
   */
  async put(messages: readonly JsonRpcMessage[]): Promise<void> {
    const { nodeId: from } = this.runtime;
    const entries = messages.flatMap((message): Entry[] => {
      const to = this.#addressee(message);
      return to === undefined ? [] : [{ from, to, message }];
    });
    const texts = entries.map((entry) => JSON.stringify(entry));
    const to = new Set(entries.map((entry) => entry.to));
    const first = await this.runtime.ask(this.session.sessionId, () => this.#appendFirst(texts));
    to.forEach(this.announce);
    // A lost progress is made up for by the next.
    if (entries.every(({ message }) => 'method' in message && message.method === PROGRESS)) return;
    (this.#kept ??= []).push({ texts, to, first, at: this.runtime.clock.now() });
  }

  /**
   * Looks for messages that were put here, and puts those again that the log has lost.
   *
   * @param missed the log may have failed over: looks for all of them, otherwise for those that replicas should have
   */
  confirm(missed: boolean): void {
    if (this.#kept) this.#confirming = this.#confirming.then(() => this.#confirmSome(missed));
  }

  /**
   * Skips the entries that are older than this copy of the session: they are for others. Only the first look waits for
   * it, and it reads once: later entries must not be skipped.
   */
  skip(): void {
    const skipped = this.#read(0).then(
      ({ last }) => {
        this.#seen = Math.max(this.#seen, last);
      },
      () => {},
    );
    this.#skipping = skipped.finally(() => (this.#skipping = undefined));
  }

  /** Reads the entry that another node has announced; retries while the log is unavailable. */
  look(): void {
    this.#again = true;
    if (this.#reading) return;
    this.#reading = true;
    void this.#readWhile(() => this.#retry.run(() => this.#readSome())).finally(() => {
      this.#reading = false;
      // Announced between the last look and now.
      if (this.#again) this.look();
    });
  }

  /** Reads once, in case an announcement was lost. @returns settles when it was read, or cannot be */
  lookOnce(): Promise<void> {
    return this.#readWhile(() => this.#readSome());
  }

  /** Cancels the retries, because the session is over. */
  end(): void {
    this.#retry.cancel();
    this.#kept = undefined;
  }

  async #confirmSome(missed: boolean): Promise<void> {
    const now = this.runtime.clock.now();
    const isOld = ({ at }: Put): boolean => now - at >= REPLICATED_MS;
    for (const put of this.#kept?.filter((one) => missed || isOld(one)) ?? []) {
      try {
        const confirm = () => this.#confirm(put);
        await (missed ? this.#retry.run(confirm) : confirm());
      } catch (error) {
        if (!this.#kept) return;
        this.#failed(error);
        // The next tick tries again.
        if (!(error instanceof McpEventStoreError)) return;
      }
      if (isOld(put)) this.#kept = this.#kept?.filter((other) => other !== put);
    }
    if (this.#kept?.length === 0) this.#kept = undefined;
  }

  async #confirm(put: Put): Promise<void> {
    if (await this.#has(put)) return;
    put.first = await this.#append(put.texts);
    put.to.forEach(this.announce);
  }

  /**
   * Tells whether the log still has what was put. It keeps an event for a minute: one that it has evicted during an outage is put again,
   * because a log that lost its first events looks the same.
   */
  async #has({ first, texts }: Put): Promise<boolean> {
    try {
      const { events } = await this.runtime.store.read(this.session.sessionId, MCP_INBOX_STREAM, first - 1, 1);
      return events[0]?.index === first && events[0].data === texts[0];
    } catch (error) {
      if (error instanceof McpStreamNotFoundError) return false;
      throw error;
    }
  }

  /** @returns the index of the first entry */
  async #append(texts: readonly string[]): Promise<number> {
    const options = { writer: randomToken(), seq: 1 };
    return (await this.runtime.store.append(this.session.sessionId, MCP_INBOX_STREAM, texts, options)).first;
  }

  async #appendFirst(texts: readonly string[]): Promise<number> {
    try {
      return await this.#append(texts);
    } catch (error) {
      if (!(error instanceof McpSessionGoneError)) throw error;
      this.runtime.suspect(this.session.sessionId);
      throw new McpError('SESSION_NOT_FOUND', SESSION_OVER);
    }
  }

  async #readWhile(more: () => Promise<boolean>): Promise<void> {
    try {
      while (await more());
    } catch (error) {
      this.#failed(error);
    }
  }

  /** @returns whether there is more */
  async #readSome(): Promise<boolean> {
    await this.#skipping;
    this.#again = false;
    try {
      const { events, more } = await this.#read(AT_ONCE);
      for (const { index, data } of events) {
        // Two may be reading at once.
        if (index <= this.#seen) continue;
        this.#seen = index;
        this.#open(JSON.parse(data) as Entry);
      }
      // There may be nothing behind a gap yet (G12).
      return (more && events.length > 0) || this.#again;
    } catch (error) {
      // There was no entry yet.
      if (error instanceof McpStreamNotFoundError) return this.#again;
      throw error;
    }
  }

  async #read(limit: number): Promise<McpReadResult> {
    return this.runtime.store.read(this.session.sessionId, MCP_INBOX_STREAM, this.#seen, limit);
  }

  #open({ from, to, message }: Entry): void {
    const { nodeId } = this.runtime;
    if (from === nodeId || (to !== nodeId && to !== ALL_NODES)) return;
    try {
      this.session.take(message);
    } catch (error) {
      this.runtime.event({ type: 'protocol-error', sessionId: this.session.sessionId, error });
    }
  }

  /** Returns the other node that has to get a message, `*` for all, or `undefined`. */
  #addressee(message: JsonRpcMessage): string | undefined {
    return addressee(message, this.runtime.nodeId, this.session);
  }

  #failed(error: unknown): void {
    if (error instanceof McpSessionGoneError) return this.runtime.suspect(this.session.sessionId);
    this.runtime.storeFault(this.session.sessionId, error, MCP_INBOX_STREAM);
  }
}

/** One step reads this many entries. */
const AT_ONCE = 100;
/** A replica of the log should have what was appended so many milliseconds ago. */
const REPLICATED_MS = 10_000;
const PROGRESS = 'notifications/progress';

/** Entries that were appended in one step. */
interface Put {
  readonly texts: readonly string[];
  readonly to: ReadonlySet<string>;
  /** The index of the first one. */
  first: number;
  /** The time at which it was put, in milliseconds since the epoch. */
  readonly at: number;
}

interface Entry {
  readonly from: string;
  /** A node, or `*` for all. */
  readonly to: string;
  readonly message: FromClient;
}

/**
 * Returns the node that has to get a message of the client, `*` for all nodes, `undefined` for this one alone.
 *
 * @param calls the requests in flight here
 */
export function addressee(
  message: JsonRpcMessage,
  nodeId: string,
  calls: Pick<InboxOwner, 'isRunning'>,
): string | undefined {
  if (isResponse(message)) return issuerElsewhere(message.id, nodeId);
  const { method, params } = message;
  switch (method) {
    case 'notifications/cancelled':
      return isElsewhere(params?.['requestId'], calls) ? ALL_NODES : undefined;
    case PROGRESS:
      return issuerElsewhere(params?.['progressToken'], nodeId);
    case 'notifications/roots/list_changed':
      return ALL_NODES;
    default:
      return undefined;
  }
}

/** Tells whether a request may run on another node. */
function isElsewhere(id: unknown, calls: Pick<InboxOwner, 'isRunning'>): boolean {
  return (typeof id === 'string' || typeof id === 'number') && !calls.isRunning(id);
}

/** Stands for the inbox where no other node has the session. */
export const NO_INBOX: SessionInbox = {
  concerns: () => false,
  isAwaitedElsewhere: () => false,
  put: () => DONE,
  skip: () => {},
  look: () => {},
  lookOnce: () => undefined,
  confirm: () => {},
  end: () => {},
};
