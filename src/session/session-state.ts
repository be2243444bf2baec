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

/** Keeps count of subscriptions, as the record does. */
export function notePatch(subscriptions: Set<string>, { subscribe = [], unsubscribe = [] }: SessionPatch): void {
  for (const uri of subscribe) subscriptions.add(uri);
  for (const uri of unsubscribe) subscriptions.delete(uri);
}
