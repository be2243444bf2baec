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
/** So much of what two long texts have in common is shown before they differ. */
const CONTEXT = 30;

/** Returns two values for a message, such as `was 1, and is 2`; of long ones the part in which they differ. */
export function difference(was: unknown, is: unknown): string {
  const [before, after] = [was, is].map((value) => (value === undefined ? 'absent' : jsonOf(value))) as [
    string,
    string,
  ];
  let common = 0;
  while (common < before.length && before[common] === after[common]) common++;
  const from = Math.max(before.length, after.length) > CHARACTERS ? Math.max(0, common - CONTEXT) : 0;
  const [start, end] = [from > 0 ? '…' : '', from + CHARACTERS];
  const cut = (text: string): string => `${start}${text.slice(from, end)}${text.length > end ? '…' : ''}`;
  return `was ${cut(before)}, and is ${cut(after)}`;
}

/** Returns a value as JSON for a message; a long one is cut. */
export function shortened(value: unknown): string {
  const json = value === undefined ? 'absent' : jsonOf(value);
  return json.length > CHARACTERS ? `${json.slice(0, CHARACTERS)}…` : json;
}
