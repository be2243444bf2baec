import { inParallel } from '../harness/in-parallel.js';
import { endSession, NO_SESSION, openSession, type Session } from '../harness/mcp-client.js';
import type { ServerProcess } from '../harness/server-process.js';
import { hasSessions, type Subject } from '../harness/subjects.js';

/** @returns so many new sessions; on a bare route, as many times none */
export async function openSessionsOf(server: ServerProcess, subject: Subject, count: number): Promise<Session[]> {
  if (!hasSessions(subject)) return Array.from({ length: count }, () => NO_SESSION);
  return openSessions(server.port, count);
}

/** @returns so many new sessions */
export async function openSessions(port: number, count: number): Promise<Session[]> {
  const sessions: Session[] = [];
  await inParallel(port, count, async (connection) => {
    sessions.push(await openSession(connection));
  });
  return sessions;
}

export async function endSessions(server: ServerProcess, sessions: readonly Session[]): Promise<void> {
  await inParallel(server.port, sessions.length, (connection, index) => endSession(connection, sessions[index]!));
}
