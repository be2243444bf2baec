/**
 * Data after a change: merged key by key, `null` removes a key.
 *
 * By way of a Map: a key such as `__proto__` is a key like any other.
 */
export function mergedData(
  data: Readonly<Record<string, unknown>>,
  changes: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const entries = new Map(Object.entries(data));
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) entries.delete(key);
    else entries.set(key, value);
  }
  return Object.fromEntries(entries);
}
