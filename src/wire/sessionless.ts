import type { ServerCapabilities } from '@modelcontextprotocol/server';
import { changeOf } from './notifications.js';

/*
 * The features that the legacy era loses without sessions (option `sessions: 'off'`, row S17): nothing is kept of a client, so it has no
 * log level and no subscriptions; and it has no stream on which a change could be announced.
 */

/** Methods by which a client tells its session something. */
const OF_SESSIONS: ReadonlySet<string> = new Set(['logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']);

/** Whether a method of the legacy era needs a session. @internal */
export function needsSession(method: string): boolean {
  return OF_SESSIONS.has(method);
}

/** Whether a notification is of a capability that is not declared without sessions. @internal */
export function isOfSession(notification: { method: string; params?: Record<string, unknown> }): boolean {
  return notification.method === 'notifications/message' || changeOf(notification) !== undefined;
}

/** The capabilities of a server that its clients have without sessions. @internal */
export function withoutSessions({ logging: _, ...capabilities }: ServerCapabilities): ServerCapabilities {
  const { tools, prompts, resources } = capabilities;
  return {
    ...capabilities,
    ...(tools && { tools: unannounced(tools) }),
    ...(prompts && { prompts: unannounced(prompts) }),
    ...(resources && { resources: unannounced(resources) }),
  };
}

function unannounced(capability: { listChanged?: boolean; subscribe?: boolean }): object {
  const { listChanged: _, subscribe: __, ...kept } = capability;
  return kept;
}
