/** A record has no values of properties, parameters of URLs, headers and assignments with these names. */
export const SENSITIVE_NAMES = [
  'password',
  'passwords',
  'passwd',
  'pwd',
  'passphrase',
  'secret',
  'secrets',
  'token',
  'apiKey',
  'accessKey',
  'privateKey',
  'authorization',
  'bearer',
  'cookie',
  'cookies',
  'credential',
  'credentials',
] as const;

export const REDACTED = '[redacted]';

/** A longer name is judged by its end. */
const LONGEST_NAME = 256;
/** In a text, a name has so many characters. */
const NAME_IN_TEXT = 64;
/** At most so many decisions about names of that length are remembered. */
const MOST_KNOWN = 1_000;
/** A name that ends with a listed one of so many letters is sensitive without a boundary too: `newpassword`, but not `spin`. */
const LONG = 5;

/**
 * # Which names are sensitive, and what of a text
 *
 * A name is sensitive if some of its words are a listed name, written together or not: `X-Access_Token` and `tokenOfUser` have
 * `token`, `api key` is `apiKey`, and `maxTokens` is none of them. Words begin at capitals, digits and other characters.
 *
 * A text loses the values of sensitive names (`password=…`, `?access_token=…`, `Cookie: …`), and whatever the list: the password
 * in a URL, and the token behind `Bearer` or `Basic`.
 */
export class SensitiveNames {
  readonly #pattern: RegExp;
  /** The decisions about the names of most calls: those of the schemas of tools, and of headers. */
  readonly #known = new Map<string, boolean>();

  constructor(names: readonly string[]) {
    // An empty list matches nothing.
    this.#pattern = new RegExp(names.flatMap(patternsOf).join('|') || '(?!)', 'u');
  }

  has(name: string): boolean {
    if (name.length > NAME_IN_TEXT) return this.#decide(name.slice(-LONGEST_NAME));
    let isSensitive = this.#known.get(name);
    if (isSensitive !== undefined) return isSensitive;
    isSensitive = this.#decide(name);
    // Clients choose names.
    if (this.#known.size === MOST_KNOWN) this.#known.clear();
    this.#known.set(ownText(name), isSensitive);
    return isSensitive;
  }

  #decide(name: string): boolean {
    return this.#pattern.test(wordsOf(name));
  }

  /** Returns a text without values of sensitive names. Its time is linear in the length of the text. */
  withoutValues(text: string): string {
    if (!MAY_HAVE_VALUES.test(text)) return text;
    return this.#withoutAssigned(text.replace(URL_PASSWORD, `$1:${REDACTED}@`)).replace(SCHEME, `$1 ${REDACTED}`);
  }

  #withoutAssigned(text: string): string {
    let kept = '';
    let from = 0;
    for (const { 0: sign, index } of text.matchAll(SIGN)) {
      const value = index + sign.length;
      if (index < from || text.startsWith(REDACTED, value)) continue;
      const name = NAME_BEFORE.exec(text.slice(Math.max(from, index - NAME_IN_TEXT), index))?.[1];
      if (name === undefined || !this.has(decoded(name))) continue;
      const { 0: found = '', 1: quote = '' } = valueAt(text, value, sign.includes(':')) ?? [];
      if (found === '') continue;
      kept += text.slice(from, value) + quote + REDACTED + quote;
      from = value + found.length;
    }
    return from === 0 ? text : kept + text.slice(from);
  }
}

/** What each pattern below needs. */
const MAY_HAVE_VALUES = /[=:]|bearer|basic/i;
/** `user:password@` of a URL. The password may have an `@` of its own. */
const URL_PASSWORD = /(:\/\/[^\s/?#:@]*):[^\s/?#]+@/g;
/** A token has a digit, or a capital behind a small letter: words of a sentence have neither. */
const SCHEME = /\b([Bb]earer|BEARER|[Bb]asic|BASIC)\s+(?=\S*(?:\d|[a-z][A-Z]))[\w.~+/-]{8,}=*/g;
/** An assignment, a parameter or a header; `://` follows the scheme of a URL. */
const SIGN = /(?:=|:(?!\/\/))\s{0,8}/g;
/** The quotes of a text within a text have backslashes in front. */
const NAME_BEFORE = /([\w%.[\]-]+)(?:\\*["'])?\s*$/;
/** In quotes, or up to a character that ends an assignment, behind the scheme of a token. */
const ASSIGNED = /(\\*["'])(?:(?!\1)(?:[^\\]|\\.))*\1?|(?:(?:bearer|basic)(?:\s|\+|%20)+)?[^\s&;,"'<>)}]+/isy;
/** A header ends with its line; its parameters may have values in quotes. */
const IN_HEADER = /(\\*["'])(?:(?!\1)(?:[^\\]|\\.))*\1?|(?:=\s{0,8}"(?:[^"\\\r\n]|\\.)*"|[^\r\n"'])+/sy;

function valueAt(text: string, at: number, isHeader: boolean): RegExpExecArray | null {
  const pattern = isHeader ? IN_HEADER : ASSIGNED;
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Makes patterns of the words of names: the letters of a listed name, with or without a boundary between each two. */
function patternsOf(name: string): string[] {
  const letters = Array.from(wordsOf(name).replaceAll('_', ''));
  if (letters.length === 0) return [];
  const pattern = letters.join('_?');
  return letters.length < LONG ? [`_${pattern}_`] : [`_${pattern}_`, `${pattern}_+$`];
}

/** Returns the words of a name in small letters, with `_` around each. */
function wordsOf(name: string): string {
  const words = name
    .replace(/(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})/gu, '_')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '_');
  return `_${words}_`;
}

/** Copies a text: V8 keeps the whole text in memory for as long as a part of it is. */
function ownText(part: string): string {
  return JSON.parse(JSON.stringify(part)) as string;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
