/** How narrowly a media range names a type; the narrowest range that matches decides (RFC 9110 §12.5.1). */
const enum Rank {
  None,
  Anything,
  Family,
  WithParameters,
  Exact,
}

interface MediaRange {
  /** In lower case, without parameters: `text/event-stream`, `text/*` or a lone star on both sides. */
  name: string;
  /** It has parameters of its own, besides the weight. */
  parameters: boolean;
  /** Its weight is zero: "not acceptable". */
  excluded: boolean;
}

/** Only an explicit zero excludes; a weight that is no number is taken for no weight. */
const ZERO_WEIGHT = /^0(?:\.0*)?$/;

/**
 * Whether an `Accept` header admits every one of the given media types (RFC 9110 §12.5.1, E5).
 *
 * Understood are the full wildcard and `application/*`, any case, several header lines, parameters (also quoted ones with commas in
 * them) and `;q=0`, which excludes unless a narrower range admits. A range with parameters admits the bare type, as
 * clients that write `text/event-stream;charset=utf-8` mean it, but excludes nothing by `;q=0`: it named a variant only.
 *
 * @param header the header's line or lines; `undefined` if there is none, which admits nothing: the transport demands
 * that clients name what they read
 * @param types media types in lower case, without parameters
 * @internal
 */
export function acceptsMediaTypes(header: string | readonly string[] | undefined, ...types: string[]): boolean {
  if (header === undefined) return false;
  const text = typeof header === 'string' ? header : header.join(',');
  const ranges = splitUnquoted(text, ',').map(parseRange);
  return types.every((type) => admits(ranges, type));
}

function admits(ranges: readonly MediaRange[], type: string): boolean {
  const family = `${type.slice(0, type.indexOf('/'))}/*`;
  let best = Rank.None;
  let admitted = false;
  for (const range of ranges) {
    const rank = rankOf(range, type, family);
    if (rank === Rank.None || rank < best || (range.parameters && range.excluded)) continue;
    // The same range twice: one that admits is enough.
    admitted = rank === best ? admitted || !range.excluded : !range.excluded;
    best = rank;
  }
  return admitted;
}

function rankOf(range: MediaRange, type: string, family: string): Rank {
  if (range.name === type) return range.parameters ? Rank.WithParameters : Rank.Exact;
  if (range.name === family) return Rank.Family;
  return range.name === '*/*' ? Rank.Anything : Rank.None;
}

function parseRange(text: string): MediaRange {
  const [name = '', ...parameters] = splitUnquoted(text, ';');
  const range: MediaRange = { name: name.trim().toLowerCase(), parameters: false, excluded: false };
  for (const parameter of parameters) {
    const weight = /^\s*q\s*=(.*)$/is.exec(parameter);
    if (weight) {
      range.excluded = ZERO_WEIGHT.test(weight[1]!.trim());
      // What follows the weight belongs to the obsolete accept-ext, not to the range.
      break;
    }
    range.parameters ||= parameter.trim() !== '';
  }
  return range;
}

/** Scans by hand: a regular expression for quoted strings takes quadratic time on quotes that are never closed. */
function splitUnquoted(text: string, separator: string): string[] {
  if (!text.includes('"')) return text.split(separator);
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (quoted && character === '\\') at++;
    else if (character === '"') quoted = !quoted;
    else if (character === separator && !quoted) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}

const JSON_MEDIA_TYPE = /^[ \t]*application\/json[ \t]*(?:;|$)/i;

/**
 * Whether a `Content-Type` says JSON; parameters and case do not matter (E4).
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
