import type { McpSessionRecord, NewSessionRecord, SessionPatch } from '../../session/session-store.js';

/**
 * # A record as the fields of a hash
 *
 *     fixed      what never changes: kind, principal, routeParams, protocolVersion, initialize, createdAt
 *     seen       the last sign of life
 *     level      the log level
 *     u:<uri>    a subscription; value: its number, for the order
 *     d:<key>    a key of `data`; value: JSON
 *     count      how many subscriptions were ever numbered
 *
 * URIs and keys are written as JSON, which keeps apart what is no proper Unicode.
 */
type Fixed = Pick<
  McpSessionRecord,
  'kind' | 'principal' | 'routeParams' | 'protocolVersion' | 'initialize' | 'createdAt'
>;

/** Fields and values in turn. */
export function fieldsOf(record: NewSessionRecord, createdAt: number): string[] {
  const { kind, principal, routeParams, protocolVersion, initialize, data = {} } = record;
  const fixed: Fixed = {
    ...(kind !== undefined && { kind }),
    ...(principal !== undefined && { principal }),
    ...(routeParams !== undefined && { routeParams }),
    ...{ protocolVersion, initialize, createdAt },
  };
  const entries = Object.entries(data).flatMap(([key, value]) => {
    const json = jsonOf(value);
    return json === undefined ? [] : [dataField(key), json];
  });
  return ['fixed', JSON.stringify(fixed), 'seen', String(createdAt), ...entries];
}

/** What the patch script is given: see there. */
export function changesOf({ logLevel, unsubscribe = [], subscribe = [], data = {} }: SessionPatch): string[] {
  const changes: string[] = logLevel === undefined ? [] : ['level', logLevel];
  for (const uri of unsubscribe) changes.push('-', subscriptionField(uri));
  for (const uri of subscribe) changes.push('+', subscriptionField(uri));
  for (const [key, value] of Object.entries(data)) {
    const json = jsonOf(value);
    if (json === 'null') changes.push('-', dataField(key));
    else if (json !== undefined) changes.push(dataField(key), json);
  }
  return changes;
}

/** @returns `undefined` when there are no fields */
export function recordOf(id: string, fields: readonly (readonly [string, string])[]): McpSessionRecord | undefined {
  const plain = new Map<string, string>();
  const subscriptions: [uri: string, number: number][] = [];
  const data: [key: string, value: unknown][] = [];
  for (const [field, value] of fields) {
    if (field.startsWith('u:')) subscriptions.push([nameIn(field), Number(value)]);
    else if (field.startsWith('d:')) data.push([nameIn(field), JSON.parse(value)]);
    else plain.set(field, value);
  }
  const text = plain.get('fixed');
  if (text === undefined) return undefined;
  const { kind, principal, routeParams, protocolVersion, initialize, createdAt } = JSON.parse(text) as Fixed;
  const logLevel = plain.get('level');
  return {
    id,
    ...(kind !== undefined && { kind }),
    ...(principal !== undefined && { principal }),
    ...(routeParams !== undefined && { routeParams }),
    ...{ protocolVersion, initialize },
    ...(logLevel !== undefined && { logLevel }),
    subscriptions: subscriptions.toSorted((a, b) => a[1] - b[1]).map(([uri]) => uri),
    ...{ createdAt, lastSeenAt: Number(plain.get('seen')) },
    data: Object.fromEntries(data),
  };
}

/** Fields and values in turn, as a script returns them. */
export function pairs(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, n) => [flat[2 * n]!, flat[2 * n + 1]!]);
}

/** `undefined` for what JSON leaves out. */
function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value);
}

function dataField(key: string): string {
  return `d:${JSON.stringify(key)}`;
}

function subscriptionField(uri: string): string {
  return `u:${JSON.stringify(uri)}`;
}

function nameIn(field: string): string {
  return JSON.parse(field.slice(2)) as string;
}
