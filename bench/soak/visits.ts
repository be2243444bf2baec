import type { EventStream } from '../harness/event-stream.js';
import type { HttpConnection } from '../harness/http-connection.js';
import {
  callAdd,
  callModernAdd,
  endSession,
  modernRequest,
  NO_SESSION,
  openSession,
  progressRequest,
  type Session,
} from '../harness/mcp-client.js';
import type { Visitor } from './visitor.js';

/** What clients do during the soak test. */

type Visit = (visitor: Visitor) => Promise<void>;

/** By what they are called in the table. */
export const VISITS: Readonly<Record<string, Visit>> = {
  /** A session with some calls. */
  calls: inSession(async (connection, session, { random }) => {
    for (let i = 0; i < 1 + random() * 5; i++) await callAdd(connection, session, i);
  }),

  /** Several readers of a session's standalone stream, which come and drop. */
  streams: inSession(async (connection, session, visitor) => {
    const streams: EventStream[] = [];
    for (let i = 0; i < 1 + visitor.random() * 3; i++) {
      streams.push(await visitor.get(session.headers));
      if (visitor.random() < 0.3) streams.shift()?.close();
      await callAdd(connection, session, i);
    }
    await pause(visitor.random() * 100);
    for (const stream of streams) stream.close();
  }),

  /** A call that reports, dropped on the way, and sometimes taken up again. */
  drops: inSession(async (_connection, session, visitor) => {
    const reports = 20;
    const stream = await visitor.listen(session.post, progressRequest(1, reports));
    const seen = Math.floor(visitor.random() * reports);
    if (seen > 0) await stream.receive(seen, () => true);
    stream.close();
    // More may have come than was waited for.
    const over = stream.received > reports;
    if (visitor.random() < 0.5 || over || stream.lastEventId === undefined) return;
    const rest = await visitor.get(`${session.headers}Last-Event-ID: ${stream.lastEventId}\r\n`);
    await rest.receive(reports + 1 - stream.received, () => true);
    rest.close();
  }),

  /** A call that is cancelled by a notification. */
  cancels: inSession(async (connection, session, visitor) => {
    const call = await visitor.connect();
    const state = { answered: false };
    const answer = awaitedLater(call.exchange(session.post, waitRequest(7)).finally(() => (state.answered = true)));
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };
    // It may overtake the call, and is forgotten then.
    while (!state.answered) {
      await pause(visitor.random() * 30);
      await connection.exchange(session.post, JSON.stringify(cancelled));
    }
    await answer;
  }),

  /** A call that is still running when its session ends. */
  leaves: inSession(async (connection, session, visitor) => {
    const call = await visitor.connect();
    const answer = awaitedLater(call.exchange(session.post, waitRequest(8)));
    await pause(visitor.random() * 30);
    await endSession(connection, session);
    await answer;
  }, 'ended'),

  /** A client that is gone before it has heard of its session. */
  stillborn: async (visitor) => {
    const connection = await visitor.connect();
    connection.exchange(NO_SESSION.post, INITIALIZE_ONLY).catch(() => {});
    await pause(visitor.random() * 5);
  },

  /** Calls of 2026-07-28. */
  modern: async (visitor) => {
    const connection = await visitor.connect();
    for (let i = 0; i < 1 + visitor.random() * 5; i++) await callModernAdd(connection, '/mcp', i);
  },

  /** A call of 2026-07-28 that is cancelled by hanging up. */
  'hang-ups': async (visitor) => {
    const connection = await visitor.connect();
    const { head, body } = modernRequest(9, 'tools/call', '"name":"wait","arguments":{}');
    connection.exchange(`${head}Mcp-Name: wait\r\n`, body).catch(() => {});
    await pause(visitor.random() * 30);
  },

  /** A subscription of 2026-07-28, dropped. */
  subscriptions: async (visitor) => {
    const { head, body } = modernRequest(10, 'subscriptions/listen', '"notifications":{"toolsListChanged":true}');
    const stream = await visitor.listen(head, body);
    // The acknowledgement.
    await stream.receive(1, () => true);
    await pause(visitor.random() * 100);
  },
};

const INITIALIZE_ONLY = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'stillborn', version: '1.0.0' } },
});

/** A visit in a session of its own, which half of the clients forget to end. */
function inSession(
  visit: (connection: HttpConnection, session: Session, visitor: Visitor) => Promise<void>,
  leaves: 'open' | 'ended' = 'open',
): Visit {
  return async (visitor) => {
    const connection = await visitor.connect();
    const session = await openSession(connection);
    await visit(connection, session, visitor);
    if (leaves === 'open' && visitor.random() < 0.5) await endSession(connection, session);
  };
}

function waitRequest(id: number): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'wait', arguments: {} } });
}

/** A promise that is awaited later: if it fails until then, it is whoever awaits it who hears of it. */
function awaitedLater<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
