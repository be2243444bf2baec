import { EventStream } from '../harness/event-stream.js';
import { CONCURRENCY, inParallel, requestsFor } from '../harness/in-parallel.js';
import { callProgress, type Session } from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import { sseSplitter } from '../harness/sse.js';
import { type Load, memoryWork, timedWork } from '../harness/work.js';
import { endSessions, openSessionsOf } from './sessions.js';

const STREAMS = 1_000;
const EVENTS = 1_000;
/** How many clients replay at a time. */
const READERS = 4;

/** Memory of a session that does nothing, with so many tools beside `progress`. */
export function sessionMemory(tools: number) {
  return memoryWork({
    name: 'session-memory',
    title: `memory per idle session, ${tools} tools`,
    env: { TOOLS: String(tools) },
    count: 1_000,
    prepare: async (server, subject, count) => {
      // What the first sessions load stays.
      await endSessions(server, await openSessionsOf(server, subject, 200));
      return { open: async () => void (await openSessionsOf(server, subject, count)) };
    },
  });
}

export const streamMemory = memoryWork({
  name: 'stream-memory',
  title: 'memory per open GET stream',
  count: 2 * STREAMS,
  prepare: async (server, subject, count) => {
    const sessions = await openSessionsOf(server, subject, count + 50);
    const streams = await openStreams(server, sessions.splice(0, 50));
    for (const stream of streams) stream.close();
    return {
      open: async () => void streams.push(...(await openStreams(server, sessions))),
      close: () => streams.forEach((stream) => stream.close()),
    };
  },
});

export const notify = timedWork({
  name: 'notify',
  title: `one notification to each of ${STREAMS} open streams`,
  step: STREAMS,
  warmUp: 15 * STREAMS,
  prepare: async (server, subject) => {
    const streams = await openStreams(server, await openSessionsOf(server, subject, STREAMS));
    return { load: notifications(server, streams), close: () => streams.forEach((stream) => stream.close()) };
  },
});

/** Deliveries of notifications, each to all streams. */
export function notifications(server: ServerProcess, streams: readonly EventStream[]): Load {
  let sequence = 0;
  return async (count) => {
    for (let i = 0; i < requestsFor(count, streams.length); i++) {
      const said = ++sequence;
      const heard = streams.map((stream) => stream.receive(1, (message) => dataOf(message) === said));
      await Promise.all([server.notify(said), ...heard]);
    }
  };
}

export const replay = timedWork({
  name: 'replay',
  title: `one event of a replay, ${EVENTS} a request`,
  env: { ANSWERS: 'sse', RESUMABLE: '1' },
  step: EVENTS * READERS,
  warmUp: 40 * EVENTS * READERS,
  times: 2,
  prepare: async (server, subject) => {
    const finished: { session: Session; cursor: string }[] = [];
    const sessions = await openSessionsOf(server, subject, READERS);
    await inParallel(server.port, READERS, async (connection, index) => {
      const session = sessions[index]!;
      // The answer is an event too.
      const { body } = await callProgress(connection, session, 1, EVENTS - 1);
      finished.push({ session, cursor: firstCursor(body) });
    });
    const load: Load = async (count) => {
      const times = requestsFor(count, EVENTS * READERS);
      await Promise.all(finished.map((one) => readAgain(server, one, times)));
    };
    return { load };
  },
});

async function readAgain(
  server: ServerProcess,
  { session, cursor }: { session: Session; cursor: string },
  times: number,
): Promise<void> {
  for (let i = 0; i < times; i++) {
    const stream = await EventStream.get(server.port, `${session.headers}Last-Event-ID: ${cursor}\r\n`);
    await stream.receive(EVENTS, (message, index) =>
      index < EVENTS - 1 ? progressOf(message) === index + 1 : isAnswer(message),
    );
    stream.close();
  }
}

/** A few at a time: thousands at once would not fit into the queue of the operating system. */
export async function openStreams(server: ServerProcess, sessions: readonly Session[]): Promise<EventStream[]> {
  const streams: EventStream[] = [];
  const waiting = sessions.values();
  const worker = async (): Promise<void> => {
    for (const { headers } of waiting) streams.push(await EventStream.get(server.port, headers));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return streams;
}

/** Where a stream begins: the event without data that comes first says so. */
function firstCursor(body: string): string {
  let cursor: string | undefined;
  let count = 0;
  sseSplitter((data, id) => {
    if (count++ === 0 && data === '') cursor = id;
  })(body);
  if (!cursor) throw new Error(`The stream does not begin with a cursor: ${body.slice(0, 200)}`);
  return cursor;
}

const dataOf = (message: unknown): unknown => (message as { params?: { data?: unknown } }).params?.data;
const progressOf = (message: unknown): unknown => (message as { params?: { progress?: unknown } }).params?.progress;
const isAnswer = (message: unknown): boolean => (message as { result?: unknown }).result !== undefined;
