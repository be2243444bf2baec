import type { RequestId } from '../../core/protocol/json-rpc.js';
import {
  McpEventLogFullError,
  McpSessionGoneError,
  McpStreamEndedError,
  McpStreamNotFoundError,
} from '../../core/log/event-store.errors.js';
import {
  MCP_DROPPED_SESSION_MS,
  type McpAppendedMessage,
  type McpAppendOptions,
  type McpAppendResult,
  type McpClaimResult,
  type McpLastError,
  type McpSharedEventStore,
  type McpReaderRef,
  type McpReadResult,
  type McpStoredEvent,
  type McpStreamHead,
  type McpUnfinishedStream,
} from '../../core/log/event-store.js';
import { inBatches, type RedisConnection } from '../connection/redis-connection.js';
import { RedisScript } from '../connection/redis-connection.js';
import { decoded, encoded } from '../redis-keys.js';
import * as log from './session-log.scripts.js';

/** The open streams of a node are kept for this many milliseconds, if no other node has ended them. */
const NOTED_MS = 7 * 86_400_000;

/**
 * # The event log in Redis
 *
 * The log of a session lies in one slot, and each call is one script on it: so a call is atomic, and an append assigns the
 * indices, evicts, and notifies the newest reader's node, in one step (see session-log.scripts.ts).
 *
 * Beside it, in a slot of its own, each node has a set of its streams with open requests, so that another node can answer
 * them. A stream is added at its first append and removed after its last; an outdated entry is found by a look into the log.
 * That costs a second command, in parallel, at the first append of a POST stream, and one at the end that nothing waits for.
 *
 * @publicApi
 */
export class RedisEventStore implements McpSharedEventStore {
  readonly scope = 'shared';

  /**
   * @param nodeId of the message bus: an append publishes nothing for readers on this node
   * @param known settles when other nodes can detect the death of this one
   */
  constructor(
    private readonly connection: RedisConnection,
    private readonly nodeId: string,
    private readonly known: () => Promise<void> = () => Promise.resolve(),
  ) {}

  async open(session: string): Promise<void> {
    await this.#run(log.openLog, session, this.#lifeMs);
  }

  async append(
    session: string,
    stream: string,
    events: readonly string[],
    options: McpAppendOptions,
  ): Promise<McpAppendResult> {
    const order = JSON.stringify(this.#orderOf(stream, options));
    // In the envelope of the RedisMessageBus, whose channel the script publishes to.
    const signal = JSON.stringify({ message: { type: 'appended', session, stream } satisfies McpAppendedMessage });
    const texts = events.flatMap((data) => [data.length, data]);
    const noted = options.opens && this.#note(options.opens.node, session, stream);
    const [answer] = await Promise.all([this.#run(log.appendToLog, session, order, signal, ...texts), noted]);
    const [outcome, first, reader, done, lost] = answer as [string, number, string, string, number];
    if (outcome !== 'ok') {
      if (options.opens) this.#unnote(options.opens.node, session, stream);
      throw refusal(outcome, session, stream, String(first));
    }
    if (done !== '' && (options.settles || options.end)) this.#unnote(decoded(done), session, stream);
    return {
      first,
      ...(lost === 1 && { lost: true }),
      ...(reader !== '' && { reader: { node: this.nodeId, reader: decoded(reader) } }),
    };
  }

  async read(session: string, stream: string, after: number, limit: number, delivered = 0): Promise<McpReadResult> {
    const answer = await this.#run(log.readLog, session, encoded(stream), after, limit, delivered);
    const { head, reader, rest } = this.#headOf(answer, session, stream);
    const events: McpStoredEvent[] = [];
    for (let at = 0; at < rest.length; at += 2) events.push({ index: Number.parseInt(rest[at]!), data: rest[at + 1]! });
    return { events, more: head.last > (events.at(-1)?.index ?? after), ...head, ...(reader && { reader }) };
  }

  async claim(session: string, stream: string, ref: McpReaderRef, first = false): Promise<McpClaimResult> {
    const { node, reader } = ref;
    const names = [stream, node, reader].map(encoded);
    const answer = await this.#run(log.claimStream, session, this.#lifeMs, ...names, first ? '1' : '0');
    const { head, reader: before } = this.#headOf(answer, session, stream);
    return { ...head, ...(before && before.reader !== reader && { before }) };
  }

  async release(session: string, stream: string, { reader }: McpReaderRef, delivered = 0): Promise<void> {
    await this.#run(log.releaseReader, session, encoded(stream), encoded(reader), delivered);
  }

  unfinished(node: string): Promise<McpUnfinishedStream[]> {
    // A stream of this node may just be written for the first time.
    return this.#unfinished(node, node !== this.nodeId);
  }

  /** Removes the notes of calls that are over, when this node writes nothing more. @internal */
  async tidy(): Promise<void> {
    await this.#unfinished(this.nodeId, true);
  }

  /** @param tidies removes the notes that are outdated */
  async #unfinished(node: string, tidies: boolean): Promise<McpUnfinishedStream[]> {
    const key = this.connection.keys.calls(node);
    const notes = await this.connection.command('notes', (client) => client.smembers(key));
    const sessions = new Map<string, string[]>();
    for (const note of notes) {
      const [session, stream] = note.split(' ') as [string, string];
      sessions.set(session, [...(sessions.get(session) ?? []), stream]);
    }
    const found = await inBatches([...sessions], async ([code, streams]) => {
      const session = decoded(code);
      const unfinished = (await this.#run(log.unfinishedOf, session, encoded(node), ...streams)) as string[][];
      const known = new Set(unfinished.map(([stream]) => stream));
      const over = tidies ? streams.filter((stream) => !known.has(stream)) : [];
      for (const stream of over) this.#unnote(node, session, decoded(stream));
      return unfinished.map(([stream, ...requests]) => ({
        session,
        stream: decoded(stream!),
        requests: requests.map((request) => JSON.parse(request) as RequestId),
      }));
    });
    return found.flat();
  }

  async drop(session: string, lastError?: McpLastError): Promise<void> {
    const { code, message } = lastError ?? { code: 0, message: '' };
    const error = [lastError ? '1' : '0', '{"jsonrpc":"2.0","id":', `,"error":${JSON.stringify({ code, message })}}`];
    const noted = (await this.#run(log.dropLog, session, MCP_DROPPED_SESSION_MS, ...error)) as string[];
    for (let at = 0; at < noted.length; at += 2) this.#unnote(decoded(noted[at + 1]!), session, decoded(noted[at]!));
  }

  get #lifeMs(): number {
    return this.connection.options.expireAfterMs;
  }

  #run(script: RedisScript, session: string, ...args: (string | number)[]): Promise<unknown> {
    return this.connection.run(script, this.connection.keys.log(session), ...args);
  }

  /**
   * Makes the arguments of the append script. Names are codes; ids of requests are JSON, as they go into a last error.
   */
  #orderOf(stream: string, { writer, seq, newest, opens, settles = [], end = false }: McpAppendOptions): object {
    const { maxEvents, maxBytes, finishedStreamMs } = this.connection.options.eventLog;
    return {
      stream: encoded(stream),
      writer: encoded(writer),
      seq,
      newest,
      ends: end,
      ...(opens && { node: encoded(opens.node), requests: opens.requests.map((id) => JSON.stringify(id)) }),
      settles: settles.map((id) => JSON.stringify(id)),
      life: this.#lifeMs,
      finished: finishedStreamMs,
      maxEvents,
      maxBytes,
      self: encoded(this.nodeId),
      channel: this.connection.keys.nodeChannel,
    };
  }

  /** @throws McpEventStoreError */
  #headOf(answer: unknown, session: string, stream: string): Answer {
    const [outcome, last, oldest, delivered, ended, node, reader, ...rest] = answer as HeadAnswer;
    if (outcome !== 'ok') throw refusal(outcome, session, stream);
    const head = { last, oldest, delivered, ended: ended === 1 };
    return { head, reader: node === '' ? undefined : { node: decoded(node), reader: decoded(reader) }, rest };
  }

  async #note(node: string, session: string, stream: string): Promise<void> {
    const note = `${encoded(session)} ${encoded(stream)}`;
    await this.known();
    await this.connection.run(writeNote, this.connection.keys.calls(node), NOTED_MS, note);
  }

  /** Removes the note of an open stream. If that fails, the note stays until the log shows that it is outdated. */
  #unnote(node: string, session: string, stream: string): void {
    const key = this.connection.keys.calls(node);
    const note = `${encoded(session)} ${encoded(stream)}`;
    this.connection.command('note', (client) => client.srem(key, note)).catch(() => {});
  }
}

/** ARGV: life, note. */
const writeNote = new RedisScript(
  'note',
  `
call('SADD', KEYS[1], ARGV[2])
call('PEXPIRE', KEYS[1], ARGV[1])
`,
);

type HeadAnswer = [
  outcome: string,
  last: number,
  oldest: number,
  delivered: number,
  ended: number,
  node: string,
  reader: string,
  ...rest: string[],
];

interface Answer {
  readonly head: McpStreamHead;
  readonly reader: McpReaderRef | undefined;
  readonly rest: readonly string[];
}

function refusal(outcome: string, session: string, stream: string, limit = ''): Error {
  switch (outcome) {
    case 'gone':
      return new McpSessionGoneError(session);
    case 'ended':
      return new McpStreamEndedError(stream);
    case 'full':
      return new McpEventLogFullError(stream, limit);
    default:
      return new McpStreamNotFoundError(stream);
  }
}
