import { EventStream } from '../harness/event-stream.js';
import { HttpConnection } from '../harness/http-connection.js';
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

/** What clients do during the soak test. Each visit ends with nothing of its own left open on this side. */

export interface Visitor {
  readonly port: number;
  /** Numbers in [0, 1). */
  readonly random: () => number;
}

type Visit = (visitor: Visitor) => Promise<void>;

/** By what they are called in the table. */
export const VISITS: Readonly<Record<string, Visit>> = {
  /** A session with some calls. */
  calls: inSession(async (connection, session, { random }) => {
    for (let i = 0; i < 1 + random() * 5; i++) await callAdd(connection, session, i);
  }),

  /** Several readers of a session's standalone stream, which come and drop. */
  streams: inSession(async (connection, session, { port, random }) => {
    const streams: EventStream[] = [];
    for (let i = 0; i < 1 + random() * 3; i++) {
      streams.push(await EventStream.get(port, session.headers));
      if (random() < 0.3) streams.shift()?.close();
      await callAdd(connection, session, i);
    }
    await pause(random() * 100);
    for (const stream of streams) stream.close();
  }),

  /** A call that reports, dropped on the way, and sometimes taken up again. */
  drops: inSession(async (_connection, session, { port, random }) => {
    const reports = 20;
    const stream = await EventStream.open(port, session.post, progressRequest(1, reports));
    const seen = Math.floor(random() * reports);
    if (seen > 0) await stream.receive(seen, () => true);
    stream.close();
    // More may have come than was waited for.
    const over = stream.received > reports;
    if (random() < 0.5 || over || stream.lastEventId === undefined) return;
    const rest = await EventStream.get(port, `${session.headers}Last-Event-ID: ${stream.lastEventId}\r\n`);
    await rest.receive(reports + 1 - stream.received, () => true);
    rest.close();
  }),

  /** A call that is cancelled by a notification. */
  cancels: inSession(async (connection, session, { port, random }) => {
    const call = await HttpConnection.open(port);
    const state = { answered: false };
    const answer = call.exchange(session.post, waitRequest(7)).finally(() => (state.answered = true));
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };
    // It may overtake the call, and is forgotten then.
    while (!state.answered) {
      await pause(random() * 30);
      await connection.exchange(session.post, JSON.stringify(cancelled));
    }
    await answer;
    call.close();
  }),

  /** A call that is still running when its session ends. */
  leaves: inSession(async (connection, session, { port, random }) => {
    const call = await HttpConnection.open(port);
    const answer = call.exchange(session.post, waitRequest(8));
    await pause(random() * 30);
    await endSession(connection, session);
    await answer;
    call.close();
  }, 'ended'),

  /** A client that is gone before it has heard of its session. */
  stillborn: async ({ port, random }) => {
    const connection = await HttpConnection.open(port);
    connection.exchange(NO_SESSION.post, INITIALIZE_ONLY).catch(() => {});
    await pause(random() * 5);
    connection.close();
  },

  /** Calls of 2026-07-28. */
  modern: async ({ port, random }) => {
    const connection = await HttpConnection.open(port);
    for (let i = 0; i < 1 + random() * 5; i++) await callModernAdd(connection, '/mcp', i);
    connection.close();
  },

  /** A call of 2026-07-28 that is cancelled by hanging up. */
  'hang-ups': async ({ port, random }) => {
    const connection = await HttpConnection.open(port);
    const { head, body } = modernRequest(9, 'tools/call', '"name":"wait","arguments":{}');
    connection.exchange(`${head}Mcp-Name: wait\r\n`, body).catch(() => {});
    await pause(random() * 30);
    connection.close();
  },

  /** A subscription of 2026-07-28, dropped. */
  subscriptions: async ({ port, random }) => {
    const { head, body } = modernRequest(10, 'subscriptions/listen', '"notifications":{"toolsListChanged":true}');
    const stream = await EventStream.open(port, head, body);
    // The acknowledgement.
    await stream.receive(1, () => true);
    await pause(random() * 100);
    stream.close();
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
    const connection = await HttpConnection.open(visitor.port);
    const session = await openSession(connection);
    await visit(connection, session, visitor);
    if (leaves === 'open' && visitor.random() < 0.5) await endSession(connection, session);
    connection.close();
  };
}

function waitRequest(id: number): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'wait', arguments: {} } });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
