/** Only an explicit zero excludes; a weight that is no number is taken for no weight. */
const EXCLUDES = /;\s*q\s*=\s*0(?:\.0*)?\s*(?:;|$)/i;

/**
 * Tells whether an `Accept` header admits every one of the given media types (RFC 9110 §12.5.1, E5).
 *
 * Understood are the full wildcard and `application/*`, any case, several header lines, parameters, and `;q=0` of a type.
 * Not understood are commas in quotes, and a family that is excluded while everything is admitted: no client sends them.
 *
 * @param header the header's line or lines; `undefined` if there is none, which admits nothing: the transport demands
 * that clients name what they read
 * @param types media types in lower case, without parameters
 * @internal
 */
export function acceptsMediaTypes(header: string | readonly string[] | undefined, ...types: string[]): boolean {
  if (header === undefined) return false;
  const admitted = new Set<string>();
  const excluded = new Set<string>();
  for (const range of String(header).split(',')) {
    const name = range.split(';', 1)[0]!.trim().toLowerCase();
    (EXCLUDES.test(range) ? excluded : admitted).add(name);
  }
  return types.every((type) => {
    const family = `${type.split('/', 1)[0]}/*`;
    return admitted.has(type) || (!excluded.has(type) && (admitted.has(family) || admitted.has('*/*')));
  });
}

const JSON_MEDIA_TYPE = /^[ \t]*application\/json[ \t]*(?:;|$)/i;

/**
 * Tells whether a `Content-Type` says JSON; parameters and case do not matter (E4).
 *
 * Exact on purpose: no browser sends `application/json` across origins without asking first (CORS preflight), whereas it
 * does send `text/plain; application/json`.
 *
 * @param header the `Content-Type`; `undefined` if there is none, which is not JSON
 * @internal
 */
export function isJsonMediaType(header: string | undefined): boolean {
  return header !== undefined && JSON_MEDIA_TYPE.test(header);
}
