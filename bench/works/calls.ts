import { inParallel, requestsFor } from '../harness/in-parallel.js';
import {
  callAdd,
  callModernAdd,
  callProgress,
  endSession,
  listOf,
  listTools,
  openSession,
} from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import type { Beginning, Subject } from '../harness/subjects.js';
import { type Load, timedWork } from '../harness/work.js';
import { openSessionsOf } from './sessions.js';

/** How many sessions the calls are spread over. */
const SESSIONS = 10;
const REPORTS = 200;

export const call = timedWork({
  name: 'call',
  title: 'tools/call in a session',
  warmUp: 16_000,
  times: 2,
  prepare: async (server, subject) => ({ load: await callsOf(server, subject, SESSIONS) }),
});

/** Calls, spread over so many new sessions. */
export async function callsOf(server: ServerProcess, subject: Subject, count: number): Promise<Load> {
  const sessions = await openSessionsOf(server, subject, count);
  return (count) =>
    inParallel(server.port, count, (connection, index) =>
      callAdd(connection, sessions[index % sessions.length]!, index),
    );
}

export const modernCall = timedWork({
  name: 'modern-call',
  title: 'tools/call, 2026-07-28',
  warmUp: 16_000,
  times: 2,
  prepare: async (server, { modernPath = '/mcp' }) => ({
    load: (count) =>
      inParallel(server.port, count, (connection, index) => callModernAdd(connection, modernPath, index)),
  }),
});

/** In each list: as many as a page has. `progress` is one of them. */
const LISTED = 1_000;

export const list = timedWork({
  name: 'list',
  title: `tools/list of ${LISTED.toLocaleString('en')} tools in a session`,
  env: { TOOLS: String(LISTED - 1) },
  warmUp: 160,
  times: 2,
  prepare: async (server, subject) => {
    const sessions = await openSessionsOf(server, subject, SESSIONS);
    const check = listOf(LISTED);
    const load: Load = (count) =>
      inParallel(server.port, count, (connection, index) =>
        listTools(connection, sessions[index % SESSIONS]!, index, check),
      );
    return { load };
  },
});

export const progress = timedWork({
  name: 'progress',
  title: `one progress event, ${REPORTS} a request`,
  env: { ANSWERS: 'sse' },
  step: REPORTS,
  warmUp: 1_000 * REPORTS,
  times: 2,
  prepare: async (server, subject) => {
    const sessions = await openSessionsOf(server, subject, SESSIONS);
    let id = 0;
    const load: Load = (count) =>
      inParallel(server.port, requestsFor(count, REPORTS), async (connection, index) => {
        await callProgress(connection, sessions[index % SESSIONS]!, ++id, REPORTS);
      });
    return { load };
  },
});

export const lifecycle = timedWork({
  name: 'lifecycle',
  title: 'initialize, initialized, DELETE',
  warmUp: 6_000,
  times: 2,
  warmth: 3,
  prepare: async (server, { beginning }) => ({ load: lifecycles(server, beginning) }),
});

/** Sessions that end as soon as they are there. */
export function lifecycles(server: ServerProcess, beginning?: Beginning): Load {
  return (count) =>
    inParallel(server.port, count, async (connection) =>
      endSession(connection, await openSession(connection, beginning)),
    );
}
