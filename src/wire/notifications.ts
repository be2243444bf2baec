import { type Capabilities, missingCapabilities } from './client-capabilities.js';
import type { Era } from './era.js';
import { wireMessages } from './wire.messages.js';

/** Notifications of the specification that a server may send; those of an application have names of their own. */
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
const OF_ERA: Readonly<Record<Era, ReadonlySet<string>>> = {
  legacy: new Set([...OF_BOTH, ELICITATION_COMPLETE, 'notifications/tasks/status']),
  modern: new Set([...OF_BOTH, ACKNOWLEDGED]),
};
/** Sent by clients only. */
const OF_CLIENTS: readonly string[] = ['notifications/initialized', 'notifications/roots/list_changed'];

/**
 * A notification of the specification is sent only to clients whose revision has it.
 *
 * @throws Error when the era, or the client, does not know it
 * @internal
 */
export function assertNotificationOfEra(method: string, era: Era, declared: () => Capabilities): void {
  if (OF_ERA[era].has(method)) {
    if (method !== ELICITATION_COMPLETE || !missingCapabilities({ elicitation: { url: {} } }, declared())) return;
    throw new Error(wireMessages.noUrlElicitation(method));
  }
  const known = OF_ERA.legacy.has(method) || OF_ERA.modern.has(method) || OF_CLIENTS.includes(method);
  if (known) throw new Error(wireMessages.notificationOfOtherEra(method, era));
}
