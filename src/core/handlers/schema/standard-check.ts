import type { StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import { isObject } from '../../protocol/json-rpc.js';
import { type CheckOutcome, firstProblem } from '../../protocol/spec.js';
import { countValues, isLarger } from '../../protocol/values.js';
import type { JsonSchema } from './handler-schema.js';

/** A larger value is checked up to its first problem, where the library can stop there. */
export const MANY_VALUES = 1_000;

/** A value may be read so many times, and so many more for each of its values. */
const MIN_READS = 20_000;
const READS_PER_VALUE = 5;

const TOO_MANY = 'it is nested in too many alternatives of the schema to be checked. Send a flatter value';
const TOO_MANY_READS = new Error(TOO_MANY);

/** The check of a Standard Schema, within limits. */
export interface StandardCheck {
  /** Checks a value. @returns a promise only where the schema is asynchronous */
  readonly check: (value: unknown) => CheckOutcome | Promise<CheckOutcome>;
  /** Whether the library stops at the first problem; otherwise many values that do not fit take time and memory. */
  readonly stops: boolean;
  /** Names the library, if a newer version of it would stop. */
  readonly outdated: string | undefined;
}

/** Makes the check of a Standard Schema. @param json what the schema converts itself to */
export function standardCheck(schema: StandardSchemaWithJSON, json: JsonSchema): StandardCheck {
  const { '~standard': standard } = schema;
  const [zod, isArkType] = [zodOf(schema), standard.vendor === 'arktype'];
  const check = (value: unknown): CheckOutcome | Promise<CheckOutcome> =>
    isLarger(value, MANY_VALUES) ? firstProblem(schema, value) : standard.validate(value);
  // Zod remembers what it has checked, and ArkType finds the alternative by its fields.
  const repeats = !zod?.canStop && !isArkType && /"\$(?:ref|dynamicRef)":/.test(JSON.stringify(json));
  return {
    check: repeats ? (value) => rehearsed(value, check) : check,
    stops: isArkType || (zod !== undefined && zod.canStop && new ZodExamination().stops(schema)),
    outdated: zod && !zod.canStop ? `Zod ${zod.version}` : undefined,
  };
}

/**
 * Checks a value by a schema that refers to itself. In alternatives, the work may double with each level of the value, and no
 * library says how far it is. So a first check is made of a view of the value, which counts how often it is read.
 */
function rehearsed(
  value: unknown,
  check: (value: unknown) => CheckOutcome | Promise<CheckOutcome>,
): CheckOutcome | Promise<CheckOutcome> {
  const failed = (error: unknown): CheckOutcome => {
    if (error === TOO_MANY_READS) return { issues: [{ message: TOO_MANY }] };
    throw error;
  };
  const unless = (first: CheckOutcome): CheckOutcome | Promise<CheckOutcome> => (first.issues ? first : check(value));
  try {
    const first = check(counted(value));
    return first instanceof Promise ? first.then(unless, failed) : unless(first);
  } catch (error) {
    return failed(error);
  }
}

/** Returns a view of a value that throws TOO_MANY_READS when it is read too often. A long text or object counts more. */
function counted(root: unknown): unknown {
  let left = MIN_READS + READS_PER_VALUE * countValues(root);
  const take = (reads: number): void => {
    left -= reads;
    if (left < 0) throw TOO_MANY_READS;
  };
  const view = (value: unknown): unknown => {
    take(typeof value === 'string' ? 1 + value.length / 128 : 1);
    return typeof value === 'object' && value !== null ? new Proxy(value, handler) : value;
  };
  const handler: ProxyHandler<object> = {
    get: (target, name) => view(Reflect.get(target, name)),
    ownKeys(target) {
      const names = Reflect.ownKeys(target);
      take(names.length / 4);
      return names;
    },
  };
  return view(root);
}

/** What is read of a schema of Zod 4. */
interface ZodSchema {
  readonly _zod: {
    readonly def: Readonly<Record<string, unknown>> & { readonly type: string };
    readonly traits: ReadonlySet<string>;
    readonly version: { readonly major: number; readonly minor: number; readonly patch: number };
  };
}

function isZod(schema: unknown): schema is ZodSchema {
  const { _zod: internals } = (schema ?? {}) as Partial<ZodSchema>;
  return isObject(internals?.def) && isObject(internals.version);
}

/** Returns the version of Zod, and whether it can stop: by `abortEarly`, and by remembering what it has checked. */
function zodOf(schema: unknown): { readonly version: string; readonly canStop: boolean } | undefined {
  if (!isZod(schema)) return undefined;
  const { major, minor, patch } = schema._zod.version;
  return { version: `${major}.${minor}.${patch}`, canStop: major > 4 || (major === 4 && minor >= 6) };
}

/** An item of one of these types ends the check of its list, if it does not fit. */
const ENDING = [
  'string',
  'number',
  'boolean',
  'bigint',
  'null',
  'undefined',
  'void',
  'any',
  'unknown',
  'never',
  'date',
].concat(['nan', 'symbol', 'literal', 'enum', 'template_literal']);
/** These types have one other schema in them. */
const WRAPPERS = ['optional', 'nullable', 'nonoptional', 'default', 'prefault', 'catch', 'readonly'];

/**
 * Examines whether Zod stops at the first problem. It goes on behind a problem that a check (`.min()`, `.refine()`), a strict
 * object, a record, a transform or an intersection finds. That matters only where schemas repeat: in lists, and in schemas
 * that refer to themselves.
 */
class ZodExamination {
  /** The schemas around the one that is examined, outside of those that repeat. */
  readonly #around = new Set<unknown>();
  readonly #repeating = new Set<unknown>();

  /** @param repeats whether the schema is part of one that repeats */
  stops(schema: unknown, repeats = false): boolean {
    if (!isZod(schema)) return false;
    if (repeats || this.#around.has(schema)) {
      if (this.#repeating.has(schema)) return true;
      this.#repeating.add(schema);
      return !findsMore(schema) && this.#partsStop(schema, true);
    }
    this.#around.add(schema);
    const stops = this.#partsStop(schema, false);
    this.#around.delete(schema);
    return stops;
  }

  #partsStop({ _zod: { def } }: ZodSchema, repeats: boolean): boolean {
    const { type, catchall } = def;
    const all = (parts: readonly unknown[]): boolean => parts.every((part) => this.stops(part, repeats));
    if (ENDING.includes(type)) return true;
    if (WRAPPERS.includes(type)) return this.stops(def['innerType'], repeats);
    switch (type) {
      case 'object':
        return all(Object.values(def['shape'] as object)) && (!catchall || this.stops(catchall, true));
      case 'array':
        return this.stops(def['element'], true);
      case 'tuple':
        return all(def['items'] as unknown[]) && (!def['rest'] || this.stops(def['rest'], true));
      case 'union':
        return all(def['options'] as unknown[]);
      case 'lazy':
        return this.stops((def['getter'] as () => unknown)(), true);
      case 'pipe':
        return !repeats && all([def['in'], def['out']]);
      case 'transform':
      case 'custom':
        return !repeats;
      case 'record':
        return isOfType(def['keyType'], 'string') && isOfType(def['valueType'], 'any', 'unknown');
      default:
        return false;
    }
  }
}

/** Returns whether a schema has checks, or is strict: a problem that these find does not end the check of a list. */
function findsMore({ _zod: { def, traits } }: ZodSchema): boolean {
  const { checks = [], catchall } = def;
  return (checks as unknown[]).length > 0 || traits.has('$ZodCheck') || isOfType(catchall, 'never');
}

/** Returns whether a schema is one of these types, without checks. */
function isOfType(schema: unknown, ...types: readonly string[]): boolean {
  return (
    isZod(schema) &&
    types.includes(schema._zod.def.type) &&
    !schema._zod.traits.has('$ZodCheck') &&
    !(schema._zod.def['checks'] as unknown[] | undefined)?.length
  );
}
