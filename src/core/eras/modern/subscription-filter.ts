import type { ServerCapabilities, SubscriptionFilter } from '@modelcontextprotocol/server';
import type { McpTopic } from '../../plugins/listen-topics.js';
import { MAX_SUBSCRIPTIONS } from '../../sessions/running/admission.js';
import type { ChangedList, McpChange } from '../../protocol/notifications.js';
import { McpError, shown } from '../../protocol/errors.js';
import { isObject, type JsonRpcRequest } from '../../protocol/json-rpc.js';
import { assertUri, canonicalUri } from '../../protocol/uris.js';

const FLAGS = {
  toolsListChanged: 'tools',
  promptsListChanged: 'prompts',
  resourcesListChanged: 'resources',
} as const satisfies Record<string, ChangedList>;
const FLAG_NAMES = Object.keys(FLAGS) as (keyof typeof FLAGS)[];

/** The notifications that a client requests; other fields are those of topics, with ids. */
export type ListenFilter = SubscriptionFilter & { [topic: string]: unknown };

/** The fields of the topics of an endpoint. */
type Topics = Iterable<readonly [field: string, topic: Pick<McpTopic, 'maxIds'>]>;

/**
 * Returns the filter of a `subscriptions/listen`, in the form in which it is honored: flags only if true, each URI (in
 * the form in which URIs are compared) and each id once, and no field that is neither the specification's nor a topic's.
 *
 * @throws McpError INVALID_PARAMS: the filter is missing, malformed or too large
 */
export function requestedFilter({ params }: JsonRpcRequest, topics: Topics = []): ListenFilter {
  const refuse = (message: string): never => {
    throw new McpError('INVALID_PARAMS', message);
  };
  const notifications: unknown = params?.['notifications'];
  if (!isObject(notifications))
    return refuse(
      `"subscriptions/listen" needs params.notifications, an object that names the notifications to send; got ${shown(notifications)}.`,
    );
  const filter: ListenFilter = {};
  for (const name of FLAG_NAMES) {
    const flag = notifications[name];
    if (flag !== undefined && typeof flag !== 'boolean')
      refuse(
        `params.notifications.${name} must be true or false; got ${shown(flag)}. Omit it to receive no such notifications.`,
      );
    if (flag === true) filter[name] = true;
  }
  const texts = (name: string, what: string, limit: number): string[] => {
    const given = notifications[name] === undefined ? [] : notifications[name];
    if (!isTexts(given))
      return refuse(`params.notifications.${name} must be an array of ${what}, as strings; got ${shown(given)}.`);
    if (given.length > limit)
      refuse(
        `params.notifications.${name} has ${given.length} ${what}; the maximum is ${limit}. Name fewer, or open another subscription.`,
      );
    return [...new Set(given)];
  };
  for (const [field, { maxIds }] of topics) {
    const ids = texts(field, 'ids', maxIds);
    if (ids.length > 0) filter[field] = ids;
  }
  const uris = texts('resourceSubscriptions', 'URIs', MAX_SUBSCRIPTIONS);
  for (const uri of uris) assertUri(uri, 'A URI in params.notifications.resourceSubscriptions');
  return withUris(filter, [...new Set(uris.map(canonicalUri))]);
}

/** Returns the ids of a topic. */
export function idsOf(filter: ListenFilter, field: string): readonly string[] {
  return (filter[field] as readonly string[] | undefined) ?? [];
}

/** Returns the part of a filter that a server with these capabilities can serve. */
export function deliverable(filter: SubscriptionFilter, capabilities: ServerCapabilities): SubscriptionFilter {
  const flags: SubscriptionFilter = {};
  for (const name of FLAG_NAMES) if (filter[name] && capabilities[FLAGS[name]]?.listChanged) flags[name] = true;
  const { resourceSubscriptions = [] } = filter;
  return withUris(flags, capabilities.resources?.subscribe ? resourceSubscriptions : []);
}

/** Returns the same filter for these resources. */
export function withUris(filter: ListenFilter, uris: readonly string[]): ListenFilter {
  const { resourceSubscriptions: _, ...flags } = filter;
  return uris.length === 0 ? flags : { ...flags, resourceSubscriptions: [...uris] };
}

export function isEmpty(filter: SubscriptionFilter): boolean {
  return Object.keys(filter).length === 0;
}

/** Keeps changes in order of arrival: those that a filter accepts, or those that were not sent yet. */
export class ChangeSet implements Iterable<McpChange> {
  readonly #lists = new Set<ChangedList>();
  readonly #uris = new Set<string>();

  static acceptedBy(filter: SubscriptionFilter): ChangeSet {
    const changes = new ChangeSet();
    for (const name of FLAG_NAMES) if (filter[name]) changes.#lists.add(FLAGS[name]);
    for (const uri of filter.resourceSubscriptions ?? []) changes.#uris.add(uri);
    return changes;
  }

  has(change: McpChange): boolean {
    return 'list' in change ? this.#lists.has(change.list) : this.#uris.has(change.uri);
  }

  add(change: McpChange): void {
    if ('list' in change) this.#lists.add(change.list);
    else this.#uris.add(change.uri);
  }

  delete(change: McpChange): void {
    if ('list' in change) this.#lists.delete(change.list);
    else this.#uris.delete(change.uri);
  }

  clear(): void {
    this.#lists.clear();
    this.#uris.clear();
  }

  /** Iterates lists first: there are few of them, and they matter more. Changes may be removed during the iteration. */
  *[Symbol.iterator](): Iterator<McpChange> {
    for (const list of this.#lists) yield { list };
    for (const uri of this.#uris) yield { uri };
  }
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === 'string');
}
