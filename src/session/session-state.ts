import type { SessionCall } from './session-call.js';
import type { SessionPatch } from './session-store.js';

/**
 * What a request that was answered with success has changed in the session's record, so that a session that is rebuilt
 * elsewhere behaves as this one did.
 */
export function statePatch({ message: { method, params } }: SessionCall): SessionPatch | undefined {
  switch (method) {
    case 'logging/setLevel':
      return { logLevel: String(params?.['level']) };
    case 'resources/subscribe':
      return { subscribe: [String(params?.['uri'])] };
    case 'resources/unsubscribe':
      return { unsubscribe: [String(params?.['uri'])] };
    default:
      return undefined;
  }
}

/** The requests by which a client makes such a change: served again, they make it in another server. */
export function* requestsOf({ logLevel, subscribe = [], unsubscribe = [] }: SessionPatch): Iterable<StateRequest> {
  if (logLevel !== undefined) yield { method: 'logging/setLevel', params: { level: logLevel } };
  for (const uri of unsubscribe) yield { method: 'resources/unsubscribe', params: { uri } };
  for (const uri of subscribe) yield { method: 'resources/subscribe', params: { uri } };
}

interface StateRequest {
  readonly method: string;
  readonly params: Record<string, unknown>;
}

/** Keeps count of subscriptions, as the record does. */
export function notePatch(subscriptions: Set<string>, { subscribe = [], unsubscribe = [] }: SessionPatch): void {
  for (const uri of subscribe) subscriptions.add(uri);
  for (const uri of unsubscribe) subscriptions.delete(uri);
}
