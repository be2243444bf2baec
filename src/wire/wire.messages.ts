/** Longer values are cut: enough to recognise one's own, too short to fill a log. */
const SHOWN_CHARACTERS = 100;

/**
 * A value as an error shows it: its JSON, cut to 100 characters.
 *
 * @returns `nothing` for `undefined`; never throws
 * @internal
 */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  // A long text is cut first, lest megabytes be escaped for nothing.
  const json = toJson(typeof value === 'string' ? value.slice(0, SHOWN_CHARACTERS + 1) : value);
  return json.length > SHOWN_CHARACTERS ? `${json.slice(0, SHOWN_CHARACTERS)}…` : json;
}

/** `JSON.parse` takes any depth, `JSON.stringify` overflows the stack: an error text must not become a second error. */
function toJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? `a ${typeof value}`;
  } catch {
    return 'a value that is nested too deeply to be shown';
  }
}
