import { reachesLevel } from '../wire/notifications.js';
import type { McpSessionInfo } from '../context/mcp-call.js';
import type { McpSessionRecord } from './session-store.js';

/**
 * Whether the client of a session gets a notification: log messages only at or above the level that it set.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
 */
export function wantsNotification(
  { logLevel }: McpSessionRecord,
  { method, params }: { method: string; params?: Record<string, unknown> },
): boolean {
  const level = method === 'notifications/message' ? params?.['level'] : undefined;
  return typeof level !== 'string' || reachesLevel(level, logLevel);
}

export function infoOf({ id, principal, routeParams, protocolVersion, initialize }: McpSessionRecord): McpSessionInfo {
  const { clientInfo, capabilities: clientCapabilities } = initialize;
  const info = { id, principal, protocolVersion, clientInfo, clientCapabilities };
  return routeParams ? { ...info, routeParams } : info;
}
