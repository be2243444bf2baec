/** Maps the variables of a URI; those of an exploded expression are a list when they have a comma. */
export type UriVariables = Record<string, string | string[]>;

/**
 * One step of a match is a text that must stand there, or a run of characters that is the value of a variable.
 * `,` may separate parts of an exploded run, none of which is empty.
 */
type Step =
  | { readonly text: string }
  | {
      readonly name: string;
      readonly exploded: boolean;
      readonly parts: boolean;
      readonly accepts: (code: number) => boolean;
    };

type Run = Exclude<Step, { readonly text: string }>;

/** Matches the expressions of RFC 6570 that can be matched: not `{;x}`, not `{x:3}`. */
const EXPRESSION = /^(?<operator>[+#./?&]?)(?<names>[\w.%]+\*?(?:,[\w.%]+\*?)*)$/;

const [SLASH, COMMA, AMPERSAND] = ['/', ',', '&'].map((character) => character.charCodeAt(0)) as [
  number,
  number,
  number,
];
/** `.` of a regular expression does not match these characters. */
const LINE_ENDS: readonly number[] = [0x0a, 0x0d, 0x2028, 0x2029];

const ofSegment = (code: number): boolean => code !== SLASH && code !== COMMA;
const ofQuery = (code: number): boolean => code !== AMPERSAND;
const ofLine = (code: number): boolean => !LINE_ENDS.includes(code);

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
 *
 * Each step looks at each character a fixed number of times, so a match takes (length of the URI) × (steps) at most. The
 * furthest end is what a greedy regular expression finds too, so that variables side by side get the same values as from
 * the SDK's `UriTemplate.match()`, of which this is a replacement:
 *
 * | expression       | matches                                                             |
 * |------------------|---------------------------------------------------------------------|
 * | `{x}`            | one or more characters without `/` and `,`                           |
 * | `{x*}`           | several of these, separated by `,`                                   |
 * | `{+x}`, `{#x}`   | one or more characters of one line; there is no `#` in the URI       |
 * | `{.x}`, `{/x}`   | the operator, then as `{x}`; `{/x*}` as `{x*}`                        |
 * | `{?x,y}`         | `?x=`, characters without `&`, `&y=`, the same: all, in this order   |
 */
export class UriTemplate {
  readonly variableNames: readonly string[];
  readonly #steps: readonly Step[];

  /** Parses the template. @throws Error for a template that cannot be matched */
  constructor(private readonly template: string) {
    this.#steps = stepsOf(template);
    this.variableNames = this.#steps.flatMap((step) => ('name' in step ? [step.name] : []));
  }

  toString(): string {
    return this.template;
  }

  /** Matches a URI. @returns the variables as they stand in the URI; `null`: it does not match */
  match(uri: string): UriVariables | null {
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
        variables[step.name] = step.exploded && value.includes(',') ? value.split(',') : value;
      }
      at = end;
    }
    return variables;
  }

  /** Returns the furthest end of each step after which all others match, by step and by position in the URI. */
  #ends(uri: string): Int32Array[] | undefined {
    const ends: Int32Array[] = [];
    let rest = new Int32Array(uri.length + 1).fill(NOWHERE);
    rest[uri.length] = uri.length;
    for (const step of this.#steps.toReversed()) {
      rest = 'text' in step ? endsOfText(step.text, uri, rest) : endsOfRun(step, uri, rest);
      ends.unshift(rest);
    }
    return rest[0] === NOWHERE ? undefined : ends;
  }
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

/** Returns the ends of a run. @param rest where the steps after this one may begin */
function endsOfRun({ accepts, parts }: Run, uri: string, rest: Int32Array): Int32Array<ArrayBuffer> {
  const ends = new Int32Array(uri.length + 1).fill(NOWHERE);
  /** Hold the furthest end of a run that has already begun, from the position behind, and the one behind that. */
  let [next, second] = [NOWHERE, NOWHERE];
  for (let at = uri.length; at >= 0; at -= 1) {
    const code = at < uri.length ? uri.charCodeAt(at) : undefined;
    const accepted = code !== undefined && accepts(code);
    if (accepted) ends[at] = next;
    let furthest = rest[at] === NOWHERE ? NOWHERE : at;
    if (accepted) furthest = Math.max(furthest, next);
    // A part follows: `second` is where it goes on, behind its first character.
    else if (parts && code === COMMA && at + 1 < uri.length && accepts(uri.charCodeAt(at + 1))) {
      furthest = Math.max(furthest, second);
    }
    [next, second] = [furthest, next];
  }
  return ends;
}

/** Parses a template. @throws Error */
function stepsOf(template: string): Step[] {
  const steps: Step[] = [];
  let at = 0;
  while (at < template.length) {
    const open = template.indexOf('{', at);
    const text = template.slice(at, open === -1 ? undefined : open);
    if (text !== '') steps.push({ text });
    if (open === -1) break;
    const close = template.indexOf('}', open);
    if (close === -1) throw new Error('an expression is not closed by "}"');
    steps.push(...stepsOfExpression(template.slice(open + 1, close)));
    at = close + 1;
  }
  return steps;
}

/** Parses one expression. @throws Error */
function stepsOfExpression(expression: string): Step[] {
  const { operator, names: list = '' } = EXPRESSION.exec(expression)?.groups ?? {};
  if (operator === undefined) throw new Error(`the expression {${expression}} cannot be matched`);
  const exploded = list.includes('*');
  const names = list.split(',').map((name) => name.replace('*', ''));
  if (operator === '?' || operator === '&') {
    return names.flatMap((name, index) => {
      const run = { name, exploded, parts: false, accepts: ofQuery };
      return [{ text: `${index === 0 ? operator : '&'}${name}=` }, run];
    });
  }
  const [name = ''] = names;
  if (names.length > 1) {
    throw new Error(`several variables in one expression, {${list}}, cannot be matched; write an expression for each`);
  }
  if (operator === '+' || operator === '#') return [{ name, exploded, parts: false, accepts: ofLine }];
  const run = { name, exploded, parts: exploded && operator !== '.', accepts: ofSegment };
  return operator === '' ? [run] : [{ text: operator }, run];
}
