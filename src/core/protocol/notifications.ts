import { type Capabilities, missingCapabilities } from './client-capabilities.js';
import type { McpEra } from './era.js';
import { canonicalUri } from './uris.js';

/**
 * The notifications of the specification that a server may send in both eras; those of an application have names of
 * their own.
 */
const OF_BOTH = [
  'notifications/cancelled',
  'notifications/progress',
  'notifications/message',
  'notifications/resources/updated',
  'notifications/resources/list_changed',
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
];
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const ELICITATION_COMPLETE = 'notifications/elicitation/complete';
const OF_ERA: Readonly<Record<McpEra, ReadonlySet<string>>> = {
  legacy: new Set([...OF_BOTH, ELICITATION_COMPLETE, 'notifications/tasks/status']),
  modern: new Set([...OF_BOTH, ACKNOWLEDGED]),
};
/** Clients alone send these notifications. */
const OF_CLIENTS: readonly string[] = ['notifications/initialized', 'notifications/roots/list_changed'];

/**
 * Refuses a notification of the specification for clients whose revision does not have it.
 *
 * @throws Error when the era, or the client, does not know it
 * @internal
 */
export function assertNotificationOfEra(method: string, era: McpEra, declared: () => Capabilities): void {
  if (OF_ERA[era].has(method)) {
    if (method !== ELICITATION_COMPLETE || !missingCapabilities({ elicitation: { url: {} } }, declared())) return;
    throw new Error(`"${method}" cannot be sent: the client did not declare the capability "elicitation.url".`);
  }
  const known = OF_ERA.legacy.has(method) || OF_ERA.modern.has(method) || OF_CLIENTS.includes(method);
  if (!known) return;
  throw new Error(`"${method}" cannot be sent: ${REVISION_OF[era]} has no such server notification.`);
}

const REVISION_OF: Readonly<Record<McpEra, string>> = {
  legacy: 'the revision of this session',
  modern: 'revision 2026-07-28',
};

/** A list whose changes are announced to clients. @internal */
export type ChangedList = 'tools' | 'prompts' | 'resources';

/**
 * Clients can subscribe to a change of a list, or of the resource at a URI. A list may have changed for some principals only, `null`
 * for anonymous callers.
 *
 * @internal
 */
export type McpChange =
  { readonly list: ChangedList; readonly only?: ReadonlySet<string | null> } | { readonly uri: string };

const LISTS: Readonly<Record<string, ChangedList>> = Object.freeze({
  'notifications/tools/list_changed': 'tools',
  'notifications/prompts/list_changed': 'prompts',
  'notifications/resources/list_changed': 'resources',
});
const RESOURCE_UPDATED = 'notifications/resources/updated';

/**
 * Returns the change that a notification is about.
 *
 * @returns `undefined` when it is about something else, or of a resource without a URI
 * @internal
 */
export function changeOf(notification: { method: string; params?: Record<string, unknown> }): McpChange | undefined {
  const { method, params } = notification;
  if (Object.hasOwn(LISTS, method)) return { list: LISTS[method]! };
  const uri = params?.['uri'];
  return method === RESOURCE_UPDATED && typeof uri === 'string' ? { uri: canonicalUri(uri) } : undefined;
}

/** Makes the notification of a change, which is the same in both eras except for `_meta`. @internal */
export function notificationOf(change: McpChange): { method: string; params?: { uri: string } } {
  return 'list' in change
    ? { method: `notifications/${change.list}/list_changed` }
    : { method: RESOURCE_UPDATED, params: { uri: change.uri } };
}

/** @internal */
export function isChangedList(value: unknown): value is ChangedList {
  return value === 'tools' || value === 'prompts' || value === 'resources';
}
