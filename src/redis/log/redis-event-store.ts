import type { RequestId } from '../../wire/json-rpc.js';
import {
  DuplicateRequestError,
  EventLogFullError,
  EventsEvictedError,
  SessionGoneError,
  StreamEndedError,
  StreamNotFoundError,
} from '../../stream/event-store.errors.js';
import type {
  AppendedMessage,
  AppendOptions,
  AppendResult,
  EventStoreStats,
  McpEventStore,
  OpenRequest,
  ReaderRef,
  ReadResult,
  StreamHead,
  StreamReaderRef,
} from '../../stream/event-store.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import type { RedisScript } from '../connection/redis-script.js';
import { inBatches } from '../in-batches.js';
import { decoded, encoded } from '../redis-keys.js';
import { everyKey } from './every-key.js';
import { NodeNotes, type Note } from './node-notes.js';
import * as log from './session-log.scripts.js';

/**
 * # The event log in Redis
 *
 * The log of a session lies in one slot, and each call is one script on it: so a call is atomic, and an append assigns the
 * indices, evicts, and tells the newest reader's node, in one step (see session-log.lua.ts). A dropped session has no `:log`, without
 * which nothing is written.
 *
 * Beside it, in a slot of its own, is noted which streams and readers concern a node (see node-notes.ts). That costs a
 * further command when a stream begins with open requests, when it ends, and when a reader comes or goes.
 *
 * | call | commands |
 * |---|---|
 * | append, read, describe, delivered, open | 1 |
 * | the first append of a POST stream, the one that settles its last request | 2 |
 * | attach, detach | 2 |
 * | drop | 1, and 1 for each node that has noted something |
 * | openRequests of a node, detachNode | 1 for the notes, 1 for each session in them |
 *
 * @publicApi
 */
export class RedisEventStore implements McpEventStore {
  readonly scope = 'shared';
  readonly #notes: NodeNotes;
  #renewedAt: number;

  /** @param nodeId of the message bus: a reader on this node needs no message to learn of an append */
  constructor(
    private readonly connection: RedisConnection,
    private readonly nodeId: string,
  ) {
    this.#notes = new NodeNotes(connection);
    this.#renewedAt = connection.clock.now();
  }

  async open(session: string): Promise<void> {
    await this.#run(log.openLog, session, this.#lifeMs);
  }

  async append(
    session: string,
    stream: string,
    events: readonly string[],
    options: AppendOptions,
  ): Promise<AppendResult> {
    const { opens } = options;
    if (opens) await this.#notes.addCall(opens.node, session, stream);
    const order = JSON.stringify(this.#orderOf(stream, events, options));
    const signal = JSON.stringify({ message: { type: 'appended', session, stream } satisfies AppendedMessage });
    const texts = events.flatMap((data) => [data.length, data]);
    const answer = await this.#run(log.appendToLog, session, order, signal, ...texts);
    const [outcome, first, done] = answer as [string, number, string[]];
    if (NEVER_OPENED.includes(outcome)) this.#notes.forgetCall(opens?.node ?? this.nodeId, session, stream);
    if (outcome !== 'ok') throw refusal(outcome, { session, stream, limit: String(first) });
    for (const node of new Set(done)) void this.#notes.removeCalls(decoded(node), [[session, stream]]);
    return { first };
  }

  async read(session: string, stream: string, after: number, limit: number): Promise<ReadResult> {
    const answer = await this.#run(log.readLog, session, encoded(stream), after, limit);
    const [outcome, last, ended, ...texts] = answer as [string, number, number, ...string[]];
    if (outcome !== 'ok') throw refusal(outcome, { session, stream, after, oldest: last });
    const events = texts.map((data, position) => ({ index: after + 1 + position, data }));
    return { events, more: after + events.length < last, ended: ended === 1 };
  }

  async describe(session: string, stream: string): Promise<StreamHead | undefined> {
    const head = await this.#run(log.describeStream, session, encoded(stream));
    if (head === null) return undefined;
    const [last, oldest, delivered, ended, readers, ...newest] = head as [...NumbersOfHead, ...string[]];
    const reader = readerOf(newest);
    return { last, oldest, delivered, ended: ended === 1, readers, ...(reader && { newest: reader }) };
  }

  async attach(session: string, stream: string, reader: ReaderRef): Promise<ReaderRef | undefined> {
    const note = [session, stream, reader.reader] as const;
    await this.#notes.addReader(reader.node, note);
    const args = [encoded(stream), encoded(reader.node), encoded(reader.reader)];
    const answer = await this.#run(log.attachReader, session, this.#lifeMs, ...args);
    const [outcome, ...before] = answer as [string, ...string[]];
    if (outcome === 'ok') return readerOf(before);
    await this.#notes.removeReaders(reader.node, [note]);
    throw refusal(outcome, { session, stream });
  }

  async detach(session: string, stream: string, { node, reader }: ReaderRef): Promise<ReaderRef | undefined> {
    const newest = await this.#run(log.detachReaders, session, this.#lifeMs, encoded(stream), encoded(reader));
    await this.#notes.removeReaders(node, [[session, stream, reader]]);
    return readerOf(newest as string[]);
  }

  async delivered(session: string, stream: string, index: number): Promise<void> {
    const { maxEvents, maxBytes } = this.connection.options.eventLog;
    await this.#run(log.noteDelivered, session, this.#lifeMs, encoded(stream), index, maxEvents, maxBytes);
  }

  async openRequests(of: { session: string } | { node: string }): Promise<OpenRequest[]> {
    if ('session' in of) return this.#openIn(of.session);
    const noted = bySession(await this.#notes.calls(of.node));
    const found = await inBatches([...noted], async ([session, notes]) => {
      const open = await this.#openIn(session);
      await this.#tidy(of.node, session, notes);
      return open.filter(({ node }) => node === of.node);
    });
    return found.flat();
  }

  async detachNode(node: string): Promise<StreamReaderRef[]> {
    const noted = bySession(await this.#notes.readers(node));
    const calls = await this.#notes.calls(node);
    const promoted = await inBatches([...noted], async ([session, notes]) => {
      const streams = [...new Set(notes.map(([, stream]) => stream))];
      const newest = await inBatches(streams, (stream) => this.#detachAll(session, stream, node));
      await this.#notes.removeReaders(node, notes);
      return newest;
    });
    // Of calls that it never began; those that it did were to be ended before.
    await this.#notes.removeCalls(node, calls);
    return promoted.flat().filter((reader) => reader !== undefined);
  }

  async drop(session: string): Promise<void> {
    const noted = (await this.#run(log.dropLog, session)) as string[][];
    for (const [kind, ...codes] of noted) {
      const [stream, node, reader] = codes.map(decoded) as [string, string, string];
      if (kind === 'c') await this.#notes.removeCalls(node, [[session, stream]]);
      else await this.#notes.removeReaders(node, [[session, stream, reader]]);
    }
  }

  /** Looks at every key of Redis, a thousand at a time: for tests and for a metric now and then, not for every request. */
  async stats(): Promise<EventStoreStats> {
    const stats: EventStoreStats = { sessions: 0, streams: 0, events: 0, bytes: 0 };
    for await (const keys of everyKey(this.connection, this.connection.keys.everyLog)) {
      for (const counted of await inBatches(keys, (key) => this.connection.run(log.logStats, key))) {
        if (counted === null) continue;
        const [streams, events, units] = counted as [number, number, number];
        stats.sessions++;
        stats.streams += streams;
        stats.events += events;
        stats.bytes += units * 2;
      }
    }
    return stats;
  }

  /** This node lives, and so does what is noted of it. To be called with each sign of life. Never rejects. @internal */
  async beaten(): Promise<void> {
    await this.#notes.sweep();
    const now = this.connection.clock.now();
    if (now - this.#renewedAt < this.#lifeMs / 8) return;
    this.#renewedAt = now;
    // Looks what of it is over, by the doing of other nodes.
    await this.openRequests({ node: this.nodeId }).catch(() => {});
    await this.#notes.renew();
  }

  /** Others may have taken this node for dead, and what was noted of it for theirs to see to. Never rejects. @internal */
  renew(): Promise<void> {
    return this.#notes.renew();
  }

  /** @returns whether this node leaves nothing behind that others would have to see to @internal */
  leaves(): Promise<boolean> {
    return this.#notes.settled(this.nodeId);
  }

  get #lifeMs(): number {
    return this.connection.options.expireAfterMs;
  }

  #run(script: RedisScript, session: string, ...args: (string | number)[]): Promise<unknown> {
    return this.connection.run(script, this.connection.keys.log(session), ...args);
  }

  /** What the append script is told. All ids as codes: they pass through Lua's JSON. */
  #orderOf(
    stream: string,
    events: readonly string[],
    { writer, seq, opens, settles = [], end }: AppendOptions,
  ): object {
    const { maxEvents, maxBytes, finishedStreamMs } = this.connection.options.eventLog;
    return {
      ...{ stream: encoded(stream), writer: encoded(writer), seq, ends: end ?? false },
      ...(opens && { node: encoded(opens.node), requests: opens.requests.map(codeOf) }),
      // Positions count from 1, as Lua does; an answer that is not there is none.
      settles: settles.map(({ id, answer }) =>
        answer === undefined || events[answer] === undefined ? [codeOf(id)] : [codeOf(id), answer + 1],
      ),
      ...{ life: this.#lifeMs, finished: finishedStreamMs, limits: [maxEvents, maxBytes] },
      ...{ self: encoded(this.nodeId), channel: this.connection.keys.nodeChannel },
    };
  }

  async #openIn(session: string): Promise<OpenRequest[]> {
    const found = ((await this.#run(log.openRequestsOf, session)) ?? []) as string[];
    return Array.from({ length: found.length / 3 }, (_, n) => {
      const [stream, request, node] = found.slice(n * 3, n * 3 + 3) as [string, string, string];
      return { session, stream: decoded(stream), id: requestOf(request), node: decoded(node) };
    });
  }

  /** Takes back the notes that were left about streams with nothing open: the removal may once have failed. */
  async #tidy(node: string, session: string, notes: readonly Note[]): Promise<void> {
    const idle = (await this.#run(log.idleStreams, session, ...notes.map(([, stream]) => encoded(stream)))) as string[];
    const streams = idle.map((stream): Note => [session, decoded(stream)]);
    await this.#notes.removeCalls(node, streams);
  }

  async #detachAll(session: string, stream: string, node: string): Promise<StreamReaderRef | undefined> {
    const newest = await this.#run(log.detachReaders, session, this.#lifeMs, encoded(stream), '', encoded(node));
    const reader = readerOf(newest as string[]);
    return reader && { session, stream, ...reader };
  }
}

/** Refusals after which the stream needs no note: it was not begun, or is over. */
const NEVER_OPENED = ['gone', 'ended', 'duplicate'];

type NumbersOfHead = [last: number, oldest: number, delivered: number, ended: number, readers: number];

interface Refused {
  readonly session: string;
  readonly stream: string;
  readonly limit?: string;
  readonly after?: number;
  readonly oldest?: number;
}

function refusal(outcome: string, { session, stream, limit = '', after = 0, oldest = 0 }: Refused): Error {
  switch (outcome) {
    case 'gone':
      return new SessionGoneError(session);
    case 'ended':
      return new StreamEndedError(stream);
    case 'full':
      return new EventLogFullError(stream, limit);
    case 'duplicate':
      return new DuplicateRequestError(stream, requestOf(limit));
    case 'evicted':
      return new EventsEvictedError(stream, after, oldest);
    default:
      return new StreamNotFoundError(stream);
  }
}

function readerOf([node, reader]: readonly string[]): ReaderRef | undefined {
  return node === undefined || reader === undefined ? undefined : { node: decoded(node), reader: decoded(reader) };
}

/** Numbers and texts are different ids: 1 is not "1". */
function codeOf(id: RequestId): string {
  return encoded(JSON.stringify(id));
}

function requestOf(code: string): RequestId {
  return JSON.parse(decoded(code)) as RequestId;
}

function bySession(notes: readonly Note[]): Map<string, Note[]> {
  const sessions = new Map<string, Note[]>();
  for (const note of notes) {
    const [session] = note;
    const noted = sessions.get(session);
    if (noted) noted.push(note);
    else sessions.set(session, [note]);
  }
  return sessions;
}
