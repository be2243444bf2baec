import type { McpSessionInfo } from '../context/mcp-call.js';
import { ServerFactoryError } from './session.errors.js';
import { sessionMessages } from './session.messages.js';
import type { McpSession } from './mcp-session.js';
import { requestsOf } from './session-state.js';
import type { McpSessionRecord } from './session-store.js';

/** A record of the other kind, state that outlives a call, is no session to anybody who asks for one. */
export function isSession(record: McpSessionRecord | undefined): record is McpSessionRecord {
  return record !== undefined && record.kind !== 'state';
}

/** From the least to the most severe (RFC 5424). */
const LOG_LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/**
 * Whether the client of a session gets a notification: log messages only at or above the level that it set.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
 */
export function wantsNotification(
  { logLevel }: McpSessionRecord,
  { method, params }: { method: string; params?: Record<string, unknown> },
): boolean {
  if (method !== 'notifications/message' || logLevel === undefined) return true;
  const severity = LOG_LEVELS.indexOf(params?.['level'] as string);
  return severity === -1 || severity >= LOG_LEVELS.indexOf(logLevel);
}

export function infoOf({ id, principal, protocolVersion, initialize }: McpSessionRecord): McpSessionInfo {
  const { clientInfo, capabilities: clientCapabilities } = initialize;
  return { id, principal, protocolVersion, clientInfo, clientCapabilities };
}

/**
 * Tells a fresh server what the client has said so far.
 *
 * @throws ServerFactoryError the server refuses what it agreed to once; McpError UNAVAILABLE while the log is away
 */
export async function replayRecord(record: McpSessionRecord, session: McpSession): Promise<void> {
  const { initialize, protocolVersion, logLevel, subscriptions } = record;
  await session.inbox.skip();
  // What was agreed on then, whatever the server would agree on by now.
  const answer = await session.replay('initialize', { ...initialize, protocolVersion });
  if ('error' in answer) throw new ServerFactoryError(sessionMessages.notRebuilt(answer.error.message));
  session.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' });
  const said = { ...(logLevel !== undefined && { logLevel }), subscribe: subscriptions };
  for (const { method, params } of requestsOf(said)) await session.replay(method, params);
  session.state.note(said);
}
