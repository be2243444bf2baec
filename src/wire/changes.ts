/** A list that clients can be told of. @internal */
export type ChangedList = 'tools' | 'prompts' | 'resources';

/** What clients can ask to be told of: that a list, or what is read at a URI, is no longer what it was. @internal */
export type McpChange = { readonly list: ChangedList } | { readonly uri: string };

const LISTS: Readonly<Record<string, ChangedList>> = Object.freeze({
  'notifications/tools/list_changed': 'tools',
  'notifications/prompts/list_changed': 'prompts',
  'notifications/resources/list_changed': 'resources',
});
const RESOURCE_UPDATED = 'notifications/resources/updated';

/**
 * The change that a notification tells of.
 *
 * @returns `undefined` when it tells of something else, or of a resource without a URI
 * @internal
 */
export function changeOf(notification: { method: string; params?: Record<string, unknown> }): McpChange | undefined {
  const { method, params } = notification;
  if (Object.hasOwn(LISTS, method)) return { list: LISTS[method]! };
  const uri = params?.['uri'];
  return method === RESOURCE_UPDATED && typeof uri === 'string' ? { uri } : undefined;
}

/** The notification that tells of a change; the same in both eras but for `_meta`. @internal */
export function notificationOf(change: McpChange): { method: string; params?: { uri: string } } {
  return 'list' in change
    ? { method: `notifications/${change.list}/list_changed` }
    : { method: RESOURCE_UPDATED, params: { uri: change.uri } };
}

/** @internal */
export function isChangedList(value: unknown): value is ChangedList {
  return value === 'tools' || value === 'prompts' || value === 'resources';
}
