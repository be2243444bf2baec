import { randomToken } from '../common/random-token.js';
import { STANDALONE_STREAM } from '../protocol/events.js';
import { isFinal, McpStreamNotFoundError } from './event-store.errors.js';
import type { McpClaimResult, McpSharedEventStore, McpReaderRef, McpReadResult } from './event-store.js';
import type { StreamReader } from './stream-reader.js';
import { LocalReaders, type ReadStream } from './stream-readers.js';
import type { StreamEnvironment } from './stream.options.js';

/**
 * # The readers of a stream whose log other nodes read too
 *
 * The log decides which reader is the newest, by `claim`; it names that one with each append:
 *
 *     added ──claim──▶ reading ──the log names another one──▶ silent ──▶ ended
 *                         └──response closed──▶ released
 *
 * A reader hands out events when its claim is in the log; the first reader of a stream that begins here does so before.
 * Nodes notify each other of a newer reader and of events. If such a hint is lost, `refresh` finds the same in the log; it
 * also acknowledges the events that were handed out, so that a GET on another node begins after them.
 *
 * Answers of the log may cross: a store may use several connections.
 */
export class SharedReaders extends LocalReaders<SharedStream> {
  readonly #claims = new Map<StreamReader, Claim>();
  /** A command that reads the head of the stream is under way. */
  #looking = false;

  override add(reader: StreamReader, first: boolean): void {
    super.add(reader, first);
    const ref = { node: this.stream.environment.nodeId, reader: randomToken() };
    const since = this.stream.environment.clock.now();
    const claim: Claim = { ref, since, first, known: undefined, before: undefined, claiming: undefined };
    this.#claims.set(reader, claim);
    if (!first) reader.hold();
    this.#claim(reader, claim);
  }

  override remove(reader: StreamReader): void {
    const { ref, before, claiming } = this.#claims.get(reader)!;
    this.#claims.delete(reader);
    super.remove(reader);
    const { session, id, store } = this.stream;
    // A silent one is released too: hints come late. After its claim, or the log would keep it.
    const release = () => this.stream.retry.run(() => store.release(session, id, ref, reader.cursor));
    this.stream.inBackground(() => (claiming ? claiming.then(release) : release()));
    if (before) this.#notifyReplaced(before, reader.cursor);
  }

  /** Asks the log again if it names another reader than this node knows; until then nothing is handed out. */
  override appended(reader: McpReaderRef | undefined): boolean {
    if (reader && reader.node !== this.stream.environment.nodeId) {
      this.stream.environment.nodes.appended(this.stream.session, this.stream.id, reader);
    }
    const newest = this.newest;
    const claim = newest && this.#claims.get(newest)!;
    if (!claim || claim.known === undefined || (claim.known && claim.ref.reader === reader?.reader)) return true;
    if (claim.known) {
      claim.known = false;
      const head = this.stream.retry.run(() => this.stream.read(0, 0));
      const asked = head.finally(() => (claim.known = true));
      // Signals that came meanwhile were not passed on.
      const compared = asked.then((found) => this.#compare(newest, found)).finally(() => this.stream.look());
      this.stream.inBackground(() => compared);
    }
    return false;
  }

  /** Acknowledges the events of stream `0` at once: its client may come back without a cursor, to another node. */
  override caughtUp(cursor: number): void {
    if (this.stream.id !== STANDALONE_STREAM || cursor <= this.acknowledged || this.#looking || this.stream.over)
      return;
    this.stream.inBackground(() => this.#look(cursor).then(() => this.caughtUp(this.cursor)));
  }

  override replaced(id: string, upTo?: number): void {
    const reader = this.all.find((one) => this.#claims.get(one)!.ref.reader === id);
    if (!reader) return;
    if (upTo === undefined) {
      if (reader === this.newest) this.silence();
      return;
    }
    reader.end(upTo);
    // The newest reader has left, and was on another node: the earlier ones on this node must be ended here.
    if (!this.newest) this.endSilent(upTo);
  }

  /** Looks whether other nodes have a newer reader, or have written without a hint coming through. */
  override refresh(): void {
    // A stream that is not in the log yet has not ended.
    if (this.size === 0 || this.stream.begun) return;
    const { newest, cursor } = this;
    if (this.#looking) return this.endSilent(cursor);
    const claiming = newest && this.#claims.get(newest)!.claiming;
    const compared = this.#look(cursor).then((head) => {
      if (newest) this.#compare(newest, head, claiming !== undefined);
      this.endSilent(Math.max(head.delivered, this.cursor));
    });
    const failed = (error: unknown): void => {
      this.endSilent(cursor);
      if (!isFinal(error)) throw error;
      // The stream was removed: reading it gives the reader the reason.
      this.stream.look();
    };
    this.stream.inBackground(() => compared.catch(failed));
  }

  override rested(): Promise<void> | undefined {
    // Other nodes write too, and drop.
    this.stream.look();
    return super.rested();
  }

  override disconnect(): boolean {
    if (!this.newest) {
      const notified = async (): Promise<void> => {
        const reader = await this.#inLog();
        if (reader) this.#notifyReplaced(reader, 0);
      };
      this.stream.inBackground(notified);
    }
    return super.disconnect();
  }

  override async exist(): Promise<boolean> {
    return this.newest !== undefined || (await this.#inLog()) !== undefined;
  }

  /** Does nothing: the release of the reader acknowledges its events. */
  protected override acknowledge(): void {}

  async #inLog(): Promise<McpReaderRef | undefined> {
    return (await this.stream.read(0, 0)).reader;
  }

  /** Claims the stream for a reader; one that begins here is claimed when the log has it. */
  #claim(reader: StreamReader, claim: Claim): void {
    claim.known = undefined;
    const { session, id, store, begun, retry } = this.stream;
    // Not repeated for a reader that has left or become silent: it would take the stream from a newer one.
    const attempt = () => (reader === this.newest ? store.claim(session, id, claim.ref, claim.first) : undefined);
    const run = () => retry.run(attempt);
    const known = (begun ? begun.then(run) : run()).then(
      (result) => result && this.#claimed(reader, claim, result),
      (error: unknown) => {
        if (!(error instanceof McpStreamNotFoundError)) this.stream.fault(error);
        if (reader.held) reader.error(error);
      },
    );
    claim.claiming = known.finally(() => (claim.claiming = undefined));
  }

  #claimed(reader: StreamReader, claim: Claim, { before, delivered, last }: McpClaimResult): void {
    claim.known = true;
    this.acknowledged = Math.max(this.acknowledged, delivered);
    const { first } = claim;
    claim.first = false;
    // The client left the first response unnoticed, and came back to another node before the claim was in the log.
    if (before && first) {
      if (reader === this.newest) this.silence();
      return;
    }
    if (before && before.node !== this.stream.environment.nodeId) {
      claim.before = before;
      // Its response may have closed meanwhile: then the one before ends at once.
      this.#notifyReplaced(before, this.#claims.has(reader) ? undefined : reader.cursor);
    }
    const { clock, comeBackMs } = this.stream.environment;
    // Its client may have opened a newer response: both end, and a client that still waits comes back.
    if (reader.held && clock.now() - claim.since >= comeBackMs) {
      reader.started?.();
      return reader.complete();
    }
    reader.start(last);
    // No hint came for what was appended before the claim.
    if (last > reader.cursor) this.stream.look();
  }

  /** @param early the log was read while the claim was under way, so that it may name the reader before */
  #compare(mine: StreamReader, { reader, last, ended }: McpReadResult, early = false): void {
    const claim = this.#claims.get(mine);
    if (!claim || mine !== this.newest || this.stream.over) return;
    if (!early && !claim.claiming && reader?.reader !== claim.ref.reader) {
      if (reader && reader.node !== this.stream.environment.nodeId) return this.silence();
      // The log has lost this reader, or still has one that left while the log was unavailable.
      const { session, id, store } = this.stream;
      if (reader) this.stream.inBackground(() => store.release(session, id, reader));
      this.#claim(mine, claim);
    }
    if (ended) this.stream.endedElsewhere();
    if (ended || last > mine.cursor) this.stream.look();
  }

  /** Reads the head, which acknowledges the events up to the cursor. At most one is under way. */
  async #look(cursor: number): Promise<McpReadResult> {
    this.#looking = true;
    try {
      const head = await this.stream.read(cursor, 0);
      // Also if the log says less: it has lost those events (G12), and asking again would not help.
      this.acknowledged = Math.max(this.acknowledged, head.delivered, cursor);
      return head;
    } finally {
      this.#looking = false;
    }
  }

  #notifyReplaced(reader: McpReaderRef, upTo?: number): void {
    const { session, id, environment } = this.stream;
    if (reader.node !== environment.nodeId) environment.nodes.replaced(session, id, reader, upTo);
  }
}

export interface SharedStream extends ReadStream {
  readonly session: string;
  readonly store: McpSharedEventStore;
  readonly environment: StreamEnvironment;
  /** Says that its session is over on this node. */
  readonly over: boolean;
  /** Settles when the log knows the stream; it is absent once the log does. */
  readonly begun: Promise<void> | undefined;
  /** Makes the reader look into the log. */
  look(): void;
  /** Another node has ended the stream. */
  endedElsewhere(): void;
  fault(error: unknown): void;
}

interface Claim {
  readonly ref: McpReaderRef;
  /** The time at which the response was opened, in milliseconds since the epoch. */
  readonly since: number;
  /** It is not in the log yet that the stream began with this response, the oldest of all. */
  first: boolean;
  /**
   * `true` when the log has it as the newest, `undefined` while the claim is under way, `false` while the log is being
   * asked.
   */
  known: boolean | undefined;
  /** The reader that it replaced on another node, which ends when this one does. */
  before: McpReaderRef | undefined;
  /** Settles with the claim; it is absent when none is under way. */
  claiming: Promise<void> | undefined;
}
