import type { McpSessionRecord, NewSessionRecord, SessionPatch } from '../../session/store/session-store.js';

/**
 * # A record as the fields of a hash
 *
 *     fixed      what never changes: principal, routeParams, initialize
 *     created    when it was made
 *     seen       the last activity
 *     revision   the protocol version
 *     level      the log level
 *     u:<uri>    a subscription; value: its number, for the order
 *     count      how many subscriptions were ever numbered
 *
 * URIs are written as JSON, which keeps lone surrogates distinct.
 */
type Fixed = Pick<McpSessionRecord, 'principal' | 'routeParams' | 'initialize'>;

/** Fields and values in turn; the script that creates the record adds the times. */
export function fieldsOf({ principal, routeParams, protocolVersion, initialize }: NewSessionRecord): string[] {
  return ['fixed', JSON.stringify({ principal, routeParams, initialize }), 'revision', protocolVersion];
}

/** The arguments of the patch script: see there. */
export function changesOf({ protocolVersion, logLevel, unsubscribe = [], subscribe = [] }: SessionPatch): string[] {
  return [
    ...(protocolVersion === undefined ? [] : ['revision', protocolVersion]),
    ...(logLevel === undefined ? [] : ['level', logLevel]),
    ...unsubscribe.flatMap((uri) => ['-', subscriptionField(uri)]),
    ...subscribe.flatMap((uri) => ['+', subscriptionField(uri)]),
  ];
}

/** @returns `undefined` when there are no fields */
export function recordOf(id: string, fields: readonly (readonly [string, string])[]): McpSessionRecord | undefined {
  const plain = new Map<string, string>();
  const subscriptions: [uri: string, number: number][] = [];
  for (const [field, value] of fields) {
    if (field.startsWith('u:')) subscriptions.push([JSON.parse(field.slice(2)) as string, Number(value)]);
    else plain.set(field, value);
  }
  const text = plain.get('fixed');
  if (text === undefined) return undefined;
  const { initialize, ...owner } = JSON.parse(text) as Fixed;
  const logLevel = plain.get('level');
  return {
    id,
    ...owner,
    ...{ protocolVersion: plain.get('revision')!, initialize },
    ...(logLevel !== undefined && { logLevel }),
    subscriptions: subscriptions.toSorted((a, b) => a[1] - b[1]).map(([uri]) => uri),
    ...{ createdAt: Number(plain.get('created')), lastSeenAt: Number(plain.get('seen')) },
  };
}

/** Fields and values in turn, as a script returns them. */
export function pairs(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, n) => [flat[2 * n]!, flat[2 * n + 1]!]);
}

function subscriptionField(uri: string): string {
  return `u:${JSON.stringify(uri)}`;
}
