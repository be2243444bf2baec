/** An option with an invalid value or name. Thrown while the app starts, before anything is opened. @publicApi */
export class McpOptionError extends Error {
  override readonly name = 'McpOptionError';
  readonly code = 'OPTION';

  constructor(
    /** The name of the option, as a path from the options object. */
    readonly option: string,
    message: string,
  ) {
    super(message);
  }
}

/** The injection token of the options of an endpoint, as given; each room reads its own. */
export const MCP_OPTIONS = Symbol('nestjs-mcp-streamable:options');

/** The longest delay of `setTimeout`; a longer one fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Checks options; the first invalid one throws. */
export const check = {
  /** A whole number of at least `min`; `Infinity` only where it is allowed. */
  count(option: string, value: unknown, { min = 1, infinite = false } = {}): number {
    if (
      typeof value === 'number' &&
      value >= min &&
      (Number.isSafeInteger(value) || (infinite && value === Infinity))
    ) {
      return value;
    }
    const wanted = `a whole number of at least ${min}${infinite ? ', or Infinity' : ''}`;
    throw wrong(option, wanted, value);
  },

  /** Milliseconds of a timer. */
  timer(option: string, value: unknown, { min = 1, infinite = false } = {}): number {
    const ms = check.count(option, value, { min, infinite });
    if (ms <= LONGEST_TIMER_MS || ms === Infinity) return ms;
    throw wrong(option, `at most ${LONGEST_TIMER_MS} (24 days)`, ms);
  },

  flag(option: string, value: unknown): boolean {
    if (typeof value === 'boolean') return value;
    throw wrong(option, 'true or false', value);
  },

  /**
   * An object with options of its own; `undefined` is none.
   *
   * @param names of all there are, see {@link namesOf}; without it any are accepted
   */
  group<T>(option: string, value: T, names?: readonly string[]): T {
    if (value === undefined) return value;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw wrong(option, 'an object', value);
    }
    if (names) check.names(option, value, names);
    return value;
  },

  /**
   * Every property is one of these options: a misspelt one would have no effect.
   *
   * @param group where they are; empty: at the root
   */
  names(group: string, options: object, names: readonly string[]): void {
    const unknown = Object.keys(options).find((name) => !names.includes(name));
    if (unknown === undefined) return;
    const option = group === '' ? unknown : `${group}.${unknown}`;
    throw new McpOptionError(option, `There is no option "${option}". ${adviceOn(unknown, names)}`);
  },

  oneOf<const T extends string>(option: string, value: unknown, allowed: readonly T[]): T {
    if (allowed.includes(value as T)) return value as T;
    throw wrong(option, `one of ${allowed.map((name) => `"${name}"`).join(', ')}`, value);
  },

  fn<T>(option: string, value: T | undefined): T | undefined {
    if (value === undefined || typeof value === 'function') return value;
    throw wrong(option, 'a function', value);
  },

  text(option: string, value: unknown): string {
    if (typeof value === 'string' && value.length > 0) return value;
    throw wrong(option, 'a non-empty string', value);
  },

  texts(option: string, value: unknown): readonly string[] {
    if (Array.isArray(value) && value.every((entry) => typeof entry === 'string')) return value;
    throw wrong(option, 'an array of strings', value);
  },

  /** An object that has the methods of a contract. */
  implementation<T extends object>(option: string, value: T | undefined, methods: readonly string[]): T | undefined {
    if (value === undefined) return undefined;
    const missing = methods.find((method) => typeof (value as Record<string, unknown> | null)?.[method] !== 'function');
    if (missing === undefined) return value;
    const message = `The option "${option}" must be an object that implements its contract; it has no method "${missing}".`;
    throw new McpOptionError(option, message);
  },
};

/** The names of an interface's options. One that is missing here does not compile. */
export function namesOf<T>(names: Record<keyof Required<T>, true>): readonly string[] {
  return Object.keys(names);
}

/** Advice for an unknown name: the most similar option, or the list of all. */
export function adviceOn(name: string, names: readonly string[]): string {
  const distances = names.map((known) => editDistance(name.toLowerCase(), known.toLowerCase()));
  const least = Math.min(...distances);
  if (least > Math.max(2, 0.4 * name.length)) return `The options are: ${names.join(', ')}.`;
  return `Did you mean "${names[distances.indexOf(least)]}"?`;
}

/** How many letters must be added, removed or replaced to make one text of the other (Levenshtein). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let line = 1; line <= from.length; line++) {
    const next = [line];
    for (let column = 1; column <= to.length; column++) {
      const replaced = row[column - 1]! + (from[line - 1] === to[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[column]! + 1, next[column - 1]! + 1));
    }
    row = next;
  }
  return row[to.length]!;
}

function wrong(option: string, wanted: string, value: unknown): McpOptionError {
  return new McpOptionError(option, `The option "${option}" must be ${wanted}; got ${shown(value)}.`);
}

/** As JSON, if possible: creating the message must not fail because of the value (cycles, bigints). */
function shown(value: unknown): string {
  if (typeof value === 'number') return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}
