/** Returns a value with the keys of all objects in alphabetical order, and `required` too, so that equal schemas are equal texts. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, each]): [string, unknown] => [key, key === 'required' ? sorted(each) : canonical(each)]);
  // A property named __proto__ stays one.
  return Object.fromEntries(entries);
}

function sorted(required: unknown): unknown {
  const isList = Array.isArray(required) && required.every((name) => typeof name === 'string');
  return isList ? required.toSorted() : canonical(required);
}

/** Returns a value as canonical JSON. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(canonical(value)) ?? 'undefined';
}

const CHARACTERS = 120;

/** Returns a value as JSON for a message; a long one is cut. */
export function shortened(value: unknown): string {
  const json = value === undefined ? 'absent' : jsonOf(value);
  return json.length > CHARACTERS ? `${json.slice(0, CHARACTERS)}…` : json;
}
