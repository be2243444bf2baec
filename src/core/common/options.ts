/**
 * # Options
 *
 * Each folder has one table of its options. A line of it has the name of an option, its default and its check:
 *
 * ```ts
 * const STATE = {
 *   maxStatesPerPrincipal: count(100, { infinite: true }),
 *   maxStateBytes: count(65_536, { infinite: true }),
 * } satisfies OptionTable<McpStateOptions>;
 * ```
 *
 * The documented interface and the table check each other: an option without a line, a line without an option, and a line
 * of another type do not compile. Names, defaults, checks and the type of the result all come from the table.
 */

/**
 * Reports an option with an invalid value or name. It is thrown while the app starts, before anything is opened.
 *
 * @publicApi
 */
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

/** The injection token of the options of an endpoint, checked and with their defaults; each room reads its own. */
export const MCP_OPTIONS = Symbol('nestjs-mcp-streamable:options');

/**
 * Checks one option, and returns the value that counts: the given one or the default.
 *
 * @param given `undefined` if the option was not given
 * @param option its name in errors, as a path from the options object
 * @throws McpOptionError
 */
export type OptionCheck<T> = (given: T | undefined, option: string) => T | undefined;

/** A check for each option of an interface. */
export type OptionTable<T> = { readonly [Name in keyof T]-?: OptionCheck<T[Name]> };

/** The type of the options of a table with their defaults. */
export type Resolved<Table extends Checks> = { readonly [Name in keyof Table]: ReturnType<Table[Name]> };

type Checks = Readonly<Record<string, (given: never, option: string) => unknown>>;

/**
 * Returns the options of a table among those that were given; other properties are ignored.
 *
 * @param path of the options object in errors; empty: the root
 * @throws McpOptionError for the first invalid one
 */
export function resolveOptions<Table extends Checks>(table: Table, given: unknown, path = ''): Resolved<Table> {
  const values = assertObject(given, path === '' ? 'options' : path) as Readonly<Record<string, never>>;
  const resolved = Object.entries(table).map(([name, check]) => [name, check(values[name]!, below(path, name))]);
  return Object.fromEntries(resolved) as Resolved<Table>;
}

/**
 * Returns the options of a table from an object that has no other properties: a misspelt one would have no effect.
 *
 * @throws McpOptionError
 */
export function resolveGroup<Table extends Checks>(table: Table, given: unknown, path = ''): Resolved<Table> {
  const options = assertObject(given, path === '' ? 'options' : path);
  assertNames(Object.keys(table), options, path);
  return resolveOptions(table, options, path);
}

/**
 * @param groups names of options by the option below which they stand
 * @throws McpOptionError for a property that is none of these options, with the one that it may have meant
 */
export function assertNames(
  names: readonly string[],
  given: object,
  path = '',
  groups: Readonly<Record<string, readonly string[]>> = {},
): void {
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const option = below(path, unknown);
  const group = Object.keys(groups).find((name) => groups[name]!.includes(unknown));
  const advice = group === undefined ? adviceOn(unknown, names) : `Did you mean "${below(group, unknown)}"?`;
  throw new McpOptionError(option, `There is no option "${option}". ${advice}`);
}

function below(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

/** Stands where the default of an option would: the option must be given. */
export const required = Symbol('required');

/** `undefined`: the option has no default. */
type Default<T> = T | undefined | typeof required;

/** The type of an option whose check has passed. */
type Value<T, D> = T | Extract<D, undefined>;

/**
 * Describes an option that no function below describes.
 *
 * @param check of a value that was given; throws McpOptionError, such as {@link refused}
 */
export function option<T, D extends Default<T>, R extends T = T>(
  byDefault: D,
  check: (given: T, option: string) => R,
): (given: T | undefined, option: string) => Value<R, D> {
  return (given, name) =>
    given === undefined && byDefault !== required ? (byDefault as Value<R, D>) : check(given as T, name);
}

/** The longest delay of `setTimeout`; a longer one fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface Range {
  /** @default 1 */
  readonly min?: number;
  /** Whether `Infinity` is valid, too. @default false */
  readonly infinite?: boolean;
}

/** Describes a whole number of at least `min`. */
export function count<D extends Default<number>>(byDefault: D, { min = 1, infinite = false }: Range = {}) {
  return option<number, D>(byDefault, (given, name) => {
    if (Number.isSafeInteger(given) && given >= min) return given;
    if (infinite && given === Infinity) return given;
    throw refused(name, `a whole number of at least ${min}${infinite ? ', or Infinity' : ''}`, given);
  });
}

/** Describes milliseconds of a timer. */
export function timer<D extends Default<number>>(byDefault: D, range?: Range) {
  const check = count(required, range);
  return option<number, D>(byDefault, (given, name) => {
    const ms = check(given, name);
    if (ms <= LONGEST_TIMER_MS || ms === Infinity) return ms;
    throw refused(name, `at most ${LONGEST_TIMER_MS} (24 days)`, ms);
  });
}

export function flag<D extends Default<boolean>>(byDefault: D) {
  return option<boolean, D>(byDefault, (given, name) => {
    if (typeof given === 'boolean') return given;
    throw refused(name, 'true or false', given);
  });
}

export function oneOf<const T extends string, D extends Default<NoInfer<T>>>(byDefault: D, words: readonly T[]) {
  return option<T, D>(byDefault, (given, name) => {
    if (words.includes(given)) return given;
    throw refused(name, `one of ${words.map((word) => `"${word}"`).join(', ')}`, given);
  });
}

export function text<D extends Default<string>>(byDefault: D) {
  return option<string, D>(byDefault, (given, name) => {
    if (typeof given === 'string' && given.length > 0) return given;
    throw refused(name, 'a non-empty string', given);
  });
}

export function texts<D extends Default<readonly string[]>>(byDefault: D) {
  return option<readonly string[], D>(byDefault, (given, name) => {
    if (Array.isArray(given) && given.every((entry) => typeof entry === 'string')) return given;
    throw refused(name, 'an array of strings', given);
  });
}

// The type of a function, of an object or of a list is that of the interface, which its table is compared with.

// oxlint-disable-next-line typescript/no-explicit-any -- any function
export function functionOf<T extends (...args: any[]) => unknown, D extends Default<T> = typeof required>(
  byDefault: D,
) {
  return option<T, D>(byDefault, (given, name) => {
    if (typeof given === 'function') return given;
    throw refused(name, 'a function', given);
  });
}

/**
 * Describes an object that has the methods of a contract.
 *
 * @param ifShared the methods that it must have, too, if its `scope` is `shared`
 */
export function contract<T extends object, D extends Default<T> = typeof required>(
  byDefault: D,
  methods: readonly (keyof T)[],
  ifShared: readonly string[] = [],
) {
  return option<T, D>(byDefault, (given, name) => {
    const part = given as Partial<Record<PropertyKey, unknown>> | null | undefined;
    const all = part?.['scope'] === 'shared' ? [...methods, ...ifShared] : methods;
    const missing = all.find((method) => typeof part?.[method] !== 'function');
    if (missing === undefined) return given;
    const text = `The option "${name}" must be an object that implements its contract; it has no method "${String(missing)}".`;
    throw new McpOptionError(name, text);
  });
}

/** Describes an object whose properties are not options. */
export function object<T extends object, D extends Default<T> = typeof required>(byDefault: D) {
  return option<T, D>(byDefault, (given, name) => assertObject(given, name) as T);
}

/** Describes an object with options of its own. */
export function group<Table extends Checks>(byDefault: object, table: Table) {
  return (given: object | undefined = byDefault, name: string): Resolved<Table> => resolveGroup(table, given, name);
}

/** Describes a value that passes a test. Errors do not show it: it may be large, or secret. */
export function passing<T, D extends Default<T>>(byDefault: D, test: (given: unknown) => boolean, wanted: string) {
  return option<T, D>(byDefault, (given, name) => {
    if (test(given)) return given;
    throw new McpOptionError(name, `The option "${name}" must be ${wanted}.`);
  });
}

/** Describes an array of values that pass a test. */
export function list<T extends readonly unknown[], D extends Default<T>>(
  byDefault: D,
  test: (entry: unknown) => boolean,
  wanted: string,
) {
  return passing<T, D>(byDefault, (given) => Array.isArray(given) && given.every(test), wanted);
}

function assertObject(given: unknown, name: string): object {
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given;
  throw refused(name, 'an object', given);
}

/** Makes the error for a value that is not what it must be. */
export function refused(name: string, wanted: string, value: unknown): McpOptionError {
  return new McpOptionError(name, `The option "${name}" must be ${wanted}; got ${shown(value)}.`);
}

/** Names the option that is most similar to an unknown name, or lists all. */
export function adviceOn(name: string, names: readonly string[]): string {
  const distances = names.map((known) => editDistance(name.toLowerCase(), known.toLowerCase()));
  const least = Math.min(...distances);
  if (least > Math.max(2, 0.4 * name.length)) return `The options are: ${names.join(', ')}.`;
  return `Did you mean "${names[distances.indexOf(least)]}"?`;
}

/** Counts how many letters must be added, removed or replaced to make one text of the other (Levenshtein). */
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

/** Returns JSON, if possible: creating the message must not fail because of the value (cycles, bigints). */
function shown(value: unknown): string {
  if (typeof value === 'number') return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

/** Returns whether an app is developed, for options whose default depends on it. */
export function isDevelopment(): boolean {
  return !['production', 'test'].includes(process.env['NODE_ENV'] ?? '');
}
