/**
 * A copy of a value as JSON transports it, frozen throughout: what goes over the wire is shared by all sessions.
 *
 * @throws TypeError for cycles and bigints
 */
export function frozenJson<T>(value: T): Readonly<T> {
  return deepFreeze(JSON.parse(JSON.stringify(value)) as T);
}

function deepFreeze<T>(value: T): Readonly<T> {
  if (typeof value !== 'object' || value === null) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
