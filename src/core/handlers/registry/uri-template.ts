import { canonicalUri } from '../../protocol/uris.js';

/** Maps the variables of a URI. Those of an exploded expression, such as `{/path*}`, are a list. */
export type UriVariables = Record<string, string | string[]>;

/** One step of a match is a text that must stand there, or a run of characters that is the value of a variable. */
type Step = { readonly text: string } | Run;

interface Run {
  readonly name: string;
  /** Separates the parts of an exploded run, none of which is empty. */
  readonly separator?: string;
  /** Whether the value may have any character (`{+x}`). */
  readonly reserved: boolean;
}

/** The variables of `{?x,y}` and `{&x,y}`. */
interface Query {
  /** Stands before the first variable in a URI. */
  readonly operator: '?' | '&';
  /** Tells of each variable whether it is exploded. */
  readonly names: ReadonlyMap<string, boolean>;
}

/** Matches the expressions of RFC 6570 that can be matched: not `{;x}`, not `{x:3}`. */
const EXPRESSION = /^(?<operator>[+#./?&]?)(?<names>[\w.%]+\*?(?:,[\w.%]+\*?)*)$/;
/** Matches dot segments in a URI, and in a value. */
const DOTS_OF_URI = /[:/]\.\.?(?:[/?#]|$)/;
const DOTS_OF_VALUE = /(?:^|[/\\])\.\.?(?:[/\\]|$)/;
/** Matches what a value has only by `{+x}`: a path of the app would end there, or a line of its log. */
const RESERVED = /[/\\\p{Cc}]/u;

/** Marks a position without an end. */
const NOWHERE = -1;

/**
 * # Matches URIs against a template of RFC 6570, in linear time
 *
 * The SDK makes a regular expression of a template, with a group for each variable. Three variables in one segment,
 * `{year}-{month}-{day}`, make it try all ways to cut a URI into three: 2,000 dashes take seconds, and any caller may
 * send them. This class finds the same cut without trying:
 *
 *     template   orders:// {year} - {month} - {day}       steps: text, run, text, run, text, run
 *     backward   from the last step to the first: where may each begin, so that the rest of the URI matches?
 *     forward    each run takes the furthest end that the backward pass has found for it
 *     query      what is behind the last step is read by name
 *
 * Each step looks at each character a fixed number of times, so a match takes (length of the URI) × (steps) at most. The
 * furthest end is what a greedy regular expression finds too, so that variables side by side get the same values as from
 * the SDK's `UriTemplate.match()`:
 *
 * | expression          | matches                                                                        |
 * |---------------------|--------------------------------------------------------------------------------|
 * | `{x}`               | one or more characters without `/` and `,`                                      |
 * | `{x*}`              | several of these, separated by `,`; a list                                      |
 * | `{+x}`, `{#x}`      | one or more characters; `#` stands before those of `{#x}`                       |
 * | `{.x}`, `{/x}`      | the operator, then as `{x}`                                                     |
 * | `{/x*}`             | several segments; a list                                                        |
 * | `{?x,y}`, `{&x,y}`  | `x=` and `y=`, each or none of them, in any order; `{?x*}` repeats `x=`: a list |
 *
 * URIs and templates are compared in one form, and a value is decoded once. No template matches a URI with dot segments,
 * nor a value that is no UTF-8 (D42).
 */
export class UriTemplate {
  readonly variableNames: readonly string[];
  readonly #steps: readonly Step[];
  readonly #query: Query | undefined;

  /** Parses the template. @throws Error for a template that cannot be matched */
  constructor(private readonly template: string) {
    const { steps, query } = parsed(canonicalTemplate(template));
    this.#steps = steps;
    this.#query = query;
    this.variableNames = [
      ...steps.flatMap((step) => ('name' in step ? [step.name] : [])),
      ...(query?.names.keys() ?? []),
    ];
  }

  toString(): string {
    return this.template;
  }

  /**
   * Matches a URI.
   *
   * @param uri in the form of {@link canonicalUri}
   * @returns the variables, decoded; `null`: it does not match
   */
  match(uri: string): UriVariables | null {
    const variables = this.written(uri);
    if (!variables || DOTS_OF_URI.test(uri)) return null;
    for (const [name, value] of Object.entries(variables)) {
      const reserved = this.#steps.some((step) => 'name' in step && step.name === name && step.reserved);
      const values = [value].flat().map((each) => decoded(each, reserved));
      if (!values.every((each) => each !== undefined)) return null;
      variables[name] = Array.isArray(value) ? values : values[0]!;
    }
    return variables;
  }

  /** Returns the variables as they stand in a URI, also where their values let it match no template. */
  written(uri: string): UriVariables | null {
    const [first] = this.#steps;
    // Most URIs are refused here, and cost nothing.
    if (first && 'text' in first && !uri.startsWith(first.text)) return null;
    const ends = this.#ends(uri);
    if (!ends) return null;
    const variables: UriVariables = {};
    let at = 0;
    for (const [position, step] of this.#steps.entries()) {
      const end = ends[position]![at]!;
      if ('name' in step) {
        const value = uri.slice(at, end);
        variables[step.name] = step.separator === undefined ? value : value.split(step.separator);
      }
      at = end;
    }
    return at === uri.length || readQuery(uri.slice(at + 1), this.#query!, variables) ? variables : null;
  }

  /** Returns the furthest end of each step after which all others match, by step and by position in the URI. */
  #ends(uri: string): Int32Array[] | undefined {
    const ends: Int32Array[] = [];
    const { operator: stop = '' } = this.#query ?? {};
    let rest = new Int32Array(uri.length + 1).fill(NOWHERE);
    rest[uri.length] = uri.length;
    if (stop !== '') for (let at = uri.indexOf(stop); at !== -1; at = uri.indexOf(stop, at + 1)) rest[at] = at;
    for (const step of this.#steps.toReversed()) {
      rest = 'text' in step ? endsOfText(step.text, uri, rest) : endsOfRun(step, uri, rest, stop);
      ends.unshift(rest);
    }
    return rest[0] === NOWHERE ? undefined : ends;
  }
}

/** Returns the form of a handler's key in which keys are compared: that of a URI or template is one of its spellings. */
export function keyOf(kind: string, key: string): string {
  if (kind === 'resource') return canonicalUri(key);
  return kind === 'template' ? canonicalTemplate(key) : key;
}

/** Stand for expressions while the texts between them are brought into their form; the second follows an operator. */
const [HOLE, HOLE_BEHIND] = ['\uE000', '\uE001'];

/** Returns a template whose texts have the form of {@link canonicalUri}. */
function canonicalTemplate(template: string): string {
  const expressions: string[] = [];
  const texts = template.replace(/\{([/?#]?)[^{}]*\}/g, (expression, operator: string) => {
    expressions.push(expression);
    // These operators end a host.
    return operator === '' ? HOLE : operator + HOLE_BEHIND;
  });
  return canonicalUri(texts).replace(/[/?#]\uE001|\uE000/g, () => expressions.shift()!);
}

function decoded(value: string, reserved: boolean): string | undefined {
  try {
    const text = decodeURIComponent(value);
    return DOTS_OF_VALUE.test(text) || (!reserved && RESERVED.test(text)) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Adds the variables of a query. @returns whether the template has all of them, and each once unless it is exploded */
function readQuery(text: string, { names }: Query, variables: UriVariables): boolean {
  return text.split('&').every((part) => {
    const at = part.indexOf('=');
    const [name, value] = [part.slice(0, Math.max(at, 0)), part.slice(at + 1)];
    const exploded = names.get(name);
    const before = Object.hasOwn(variables, name) ? variables[name] : undefined;
    if (at === -1 || exploded === undefined || (before !== undefined && !exploded)) return false;
    if (Array.isArray(before)) before.push(value);
    else variables[name] = exploded ? [value] : value;
    return true;
  });
}

/** Returns the ends of a text. @param rest where the steps after this one may begin */
function endsOfText(text: string, uri: string, rest: Int32Array): Int32Array<ArrayBuffer> {
  const ends = new Int32Array(uri.length + 1).fill(NOWHERE);
  for (let at = uri.length - text.length; at >= 0; at -= 1) {
    const end = at + text.length;
    if (rest[end] !== NOWHERE && uri.startsWith(text, at)) ends[at] = end;
  }
  return ends;
}

/**
 * Returns the ends of a run.
 *
 * @param rest where the steps after this one may begin
 * @param stop begins the query, and is in no run; empty: there is no query
 */
function endsOfRun({ reserved, separator }: Run, uri: string, rest: Int32Array, stop: string): Int32Array<ArrayBuffer> {
  const accepts = (character: string): boolean =>
    character !== '' && character !== stop && (reserved || (character !== '/' && character !== ','));
  const ends = new Int32Array(uri.length + 1).fill(NOWHERE);
  /** Hold the furthest end of a run that has already begun, from the position behind, and the one behind that. */
  let [next, second] = [NOWHERE, NOWHERE];
  for (let at = uri.length; at >= 0; at -= 1) {
    const character = uri.charAt(at);
    const accepted = accepts(character);
    if (accepted) ends[at] = next;
    let furthest = rest[at] === NOWHERE ? NOWHERE : at;
    if (accepted) furthest = Math.max(furthest, next);
    // A part follows: `second` is where it goes on, behind its first character.
    else if (character === separator && accepts(uri.charAt(at + 1))) {
      furthest = Math.max(furthest, second);
    }
    [next, second] = [furthest, next];
  }
  return ends;
}

/** Parses a template. @throws Error */
function parsed(template: string): { readonly steps: readonly Step[]; readonly query: Query | undefined } {
  const steps: Step[] = [];
  let query: { operator: Query['operator']; names: Map<string, boolean> } | undefined;
  let at = 0;
  while (at < template.length) {
    const open = template.indexOf('{', at);
    const text = template.slice(at, open === -1 ? undefined : open);
    if (text !== '' && query)
      throw new Error(`"${text}" stands behind the variables of the query; put these at the end`);
    if (text !== '') steps.push({ text });
    if (open === -1) break;
    const close = template.indexOf('}', open);
    if (close === -1) throw new Error('an expression is not closed by "}"');
    const { operator, names, text: expression } = parsedExpression(template.slice(open + 1, close));
    if (operator === '?' || operator === '&') {
      query ??= { operator, names: new Map() };
      for (const name of names) {
        if (query.names.has(bare(name))) throw new Error(`the variable "${bare(name)}" occurs twice`);
        query.names.set(bare(name), name.endsWith('*'));
      }
    } else {
      if (query) throw new Error(`${expression} stands behind the variables of the query; put these at the end`);
      steps.push(...stepsOf(operator, names));
    }
    at = close + 1;
  }
  return { steps, query };
}

interface Expression {
  readonly operator: string;
  readonly names: readonly string[];
  readonly text: string;
}

/** Parses one expression. @throws Error */
function parsedExpression(expression: string): Expression {
  const { operator, names: list = '' } = EXPRESSION.exec(expression)?.groups ?? {};
  if (operator === undefined) throw new Error(`the expression {${expression}} cannot be matched`);
  const names = list.split(',');
  if (names.length > 1 && operator !== '?' && operator !== '&') {
    throw new Error(`several variables in one expression, {${list}}, cannot be matched; write an expression for each`);
  }
  return { operator, names, text: `{${expression}}` };
}

/** Returns the steps of an expression with one variable. */
function stepsOf(operator: string, [given = '']: readonly string[]): Step[] {
  const reserved = operator === '+' || operator === '#';
  const separator = given.endsWith('*') && !reserved && operator !== '.' ? (operator === '/' ? '/' : ',') : undefined;
  const run = { name: bare(given), reserved, ...(separator !== undefined && { separator }) };
  return operator === '' || operator === '+' ? [run] : [{ text: operator }, run];
}

function bare(name: string): string {
  return name.replace('*', '');
}
