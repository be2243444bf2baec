/*
 * # Values: what a message costs
 *
 * A value is an item of a list or a member of an object; an empty list or object counts once more. Schemas of any library
 * take microseconds and kilobytes for each value that does not fit, and parsing takes up to 100 bytes for each. So the
 * number of values decides what a message costs, and not its bytes: a text is one value, however long it is.
 */

/**
 * By default a message of a client has at most this many values.
 *
 * @internal
 */
export const MAX_VALUES = 100_000;

/**
 * Parameters and answers that a schema of the specification checks have at most this many values: in records of the
 * specification it looks for all problems.
 *
 * @internal
 */
export const MAX_CHECKED_VALUES = 10_000;

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];
const [LIST, LIST_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Tells whether a JSON text has more than `max` values. It counts commas and opening brackets outside of strings, before
 * anything is made of the text.
 *
 * @internal
 */
export function hasMoreValues(text: string, max: number): boolean {
  // Each value takes a character at least: most texts are too short to have so many.
  if (text.length <= max) return false;
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if ((code === COMMA || code === LIST || code === OBJECT) && ++count > max) return true;
  }
  return false;
}

/**
 * Returns the short members of the object that a JSON text is: those of a message that is refused before it is parsed.
 *
 * @param maxLength of the text of a member
 * @returns an empty object for any other text
 * @internal
 */
export function shortMembersOf(text: string, maxLength: number): Readonly<Record<string, unknown>> {
  let members: Readonly<Record<string, unknown>> = {};
  let [depth, start, count] = [0, 0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === LIST || code === OBJECT) {
      if (++depth === 1) start = at + 1;
    } else if (code === LIST_END || code === OBJECT_END || code === COMMA) {
      if (depth === 1) {
        if (at - start <= maxLength) members = { ...members, ...memberOf(text.slice(start, at)) };
        // A message has five at most.
        if (++count > 10) return {};
        start = at + 1;
      }
      if (code !== COMMA) depth--;
    }
  }
  return members;
}

function memberOf(text: string): object | undefined {
  try {
    return JSON.parse(`{${text}}`) as object;
  } catch {
    return undefined;
  }
}

/**
 * Tells whether a value as it comes from `JSON.parse` has more than `max` values. It looks at no more than that many.
 *
 * @internal
 */
export function isLarger(root: unknown, max: number): boolean {
  return countValues(root, max) > max;
}

/** Counts the values of a value as it comes from `JSON.parse`, up to a little more than `max`. @internal */
export function countValues(root: unknown, max = Infinity): number {
  const pending = [root];
  let count = 0;
  while (pending.length > 0 && count <= max) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null) continue;
    const children: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
    count += children.length || 1;
    if (count > max) break;
    for (const child of children) if (typeof child === 'object' && child !== null) pending.push(child);
  }
  return count;
}

/** Returns the position of the closing quote of the string that begins at a position. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at++;
    else if (code === QUOTE) break;
  }
  return at;
}

/**
 * Returns the canonical text of a JSON value: sorted keys, no white space. Equal values have the same text.
 *
 * @param value a value as it comes from `JSON.parse`; members that are `undefined` count as absent
 * @internal
 */
export function canonicalJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join()}]`;
  let members = '';
  // Without a comparison of its own, it orders texts by their UTF-16 code units.
  for (const key of Object.keys(value).toSorted()) {
    const member = (value as Readonly<Record<string, unknown>>)[key];
    if (member === undefined) continue;
    members += `${members === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson(member)}`;
  }
  return `{${members}}`;
}

/** Tokenizers of today make about one token of so many bytes of JSON. */
export const BYTES_PER_TOKEN = 4;

/** Estimates the tokens of a text of so many bytes; a tokenizer may count a third more or less. */
export function tokensOf(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

/** Estimates the tokens of a value as JSON. */
export function tokensOfJson(value: unknown): number {
  return tokensOf(Buffer.byteLength(JSON.stringify(value)));
}
