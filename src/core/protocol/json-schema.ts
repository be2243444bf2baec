import type { JsonSchemaType, JsonSchemaValidator, jsonSchemaValidator } from '@modelcontextprotocol/server';
import { isObject } from './json-rpc.js';
import { sdk } from './spec.js';
import { canonicalJson, countValues } from './values.js';

/** So many steps may a check take, and so many more for each value; at most `MAX_STEPS`. */
const MIN_STEPS = 30_000;
const STEPS_PER_VALUE = 30;
const MAX_STEPS = 300_000;

/** Says how many steps a check may take. @internal */
export const STEP_LIMIT = `${MIN_STEPS} steps, and ${STEPS_PER_VALUE} for each value`;
/** What a check says of a value that needs more steps. @internal */
export const TOO_MANY_STEPS =
  'data is nested in too many alternatives of the schema to be checked. Send a flatter value';

/** Ajv calls this keyword for each schema that it tries. Schemas have no such keyword by themselves. */
const STEP = 'nestjs-mcp-streamable:step';
const GIVEN_UP = new Error(TOO_MANY_STEPS);

/** Values of these keywords are no schemas. */
const DATA = ['const', 'enum', 'default', 'examples'];
/** These keywords have schemas by name. */
const BY_NAME = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'];
const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'];

/**
 * # Checks of JSON Schemas, within limits
 *
 * The SDK's validator, Ajv, looks for all problems, which takes up to 25 µs and 1 KiB for each value. Here it stops at the
 * first one, unless all are wanted.
 *
 * A schema that refers to itself in alternatives may double the work with each level of the value: 400 bytes would take
 * minutes. So the schemas that Ajv tries are counted where a schema has references; a long text or list counts more, since
 * it is read each time.
 *
 * `uniqueItems` of objects compares each item with each other in Ajv. Here the items are compared by their canonical JSON.
 *
 * The settings are those of Ajv, which the SDK does not hand out: without them, its validator works as before.
 *
 * @internal
 */
export class BoundedJsonSchemas implements jsonSchemaValidator {
  readonly #validator = new sdk.AjvJsonSchemaValidator();
  readonly #known = new WeakSet<object>();
  #stepsLeft = Infinity;

  /** @param all looks for all problems; take it for small values only */
  constructor(private readonly all = false) {}

  /** Compiles a schema. @throws Error when it is no schema */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    const { _engineFor: engineFor } = this.#validator as unknown as { _engineFor?: (schema: object) => Engine };
    const engine = engineFor?.call(this.#validator, schema);
    if (engine && !this.#known.has(engine)) this.#prepare(engine);
    const counted = engine && hasReference(schema) ? (withSteps(schema) as JsonSchemaType) : undefined;
    const check = this.#validator.getValidator<T>(counted ?? schema);
    if (!counted) return check;
    return (value) => {
      const most = this.all ? 0 : STEPS_PER_VALUE * countValues(value, MAX_STEPS);
      this.#stepsLeft = Math.min(MIN_STEPS + most, MAX_STEPS);
      try {
        return check(value);
      } catch (error) {
        if (error !== GIVEN_UP) throw error;
        return { valid: false, data: undefined, errorMessage: TOO_MANY_STEPS };
      } finally {
        this.#stepsLeft = Infinity;
      }
    };
  }

  #prepare(engine: Engine): void {
    this.#known.add(engine);
    engine.opts.allErrors = this.all;
    const step = (_: unknown, value: unknown): boolean => {
      this.#take(stepsOf(value));
      return true;
    };
    engine.addKeyword({ keyword: STEP, before: '$ref', errors: false, validate: step });
    const unique: KeywordCheck = (wanted, items: readonly unknown[]) => {
      if (wanted !== true) return true;
      if (this.#stepsLeft !== Infinity) this.#take(countValues(items) / 4);
      const twice = duplicateIn(items);
      if (!twice) return true;
      const message = `must NOT have duplicate items (items ## ${twice.join(' and ')} are identical)`;
      unique.errors = [{ keyword: 'uniqueItems', message }];
      return false;
    };
    engine.removeKeyword('uniqueItems');
    engine.addKeyword({ keyword: 'uniqueItems', type: 'array', validate: unique });
  }

  /** @throws GIVEN_UP */
  #take(steps: number): void {
    this.#stepsLeft -= steps;
    if (this.#stepsLeft < 0) throw GIVEN_UP;
  }
}

interface Engine {
  readonly opts: { allErrors?: boolean };
  removeKeyword(keyword: string): void;
  addKeyword(definition: object): void;
}

interface KeywordCheck {
  (wanted: unknown, items: readonly unknown[]): boolean;
  errors?: readonly object[];
}

/** Reading what a value holds takes a part of the time of a step. */
function stepsOf(value: unknown): number {
  if (typeof value === 'string') return 1 + value.length / 128;
  if (Array.isArray(value)) return 1 + value.length / 32;
  return isObject(value) ? 1 + Object.keys(value).length / 4 : 1;
}

function hasReference(schema: unknown): boolean {
  let found = false;
  mapSchemas(schema, (copy) => {
    found ||= REFERENCES.some((keyword) => typeof copy[keyword] === 'string');
    return copy;
  });
  return found;
}

/** Returns a copy of a schema, in which each schema is a step. */
function withSteps(schema: unknown): unknown {
  return mapSchemas(schema, (copy) => ({ [STEP]: true, ...copy }));
}

/**
 * Returns a copy of a schema, in which each schema is what `change` makes of its copy.
 *
 * @param enters decides whether a schema, with all in it, is changed at all
 * @internal
 */
export function mapSchemas(
  schema: unknown,
  change: (copy: Record<string, unknown>) => object,
  enters: (schema: Readonly<Record<string, unknown>>) => boolean = () => true,
): unknown {
  if (Array.isArray(schema)) return schema.map((each) => mapSchemas(each, change, enters));
  if (!isObject(schema) || !enters(schema)) return schema;
  const parts = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (DATA.includes(keyword)) return [keyword, value];
    if (!BY_NAME.includes(keyword) || !isObject(value)) return [keyword, mapSchemas(value, change, enters)];
    const named = Object.entries(value).map(([name, each]) => [name, mapSchemas(each, change, enters)] as const);
    return [keyword, Object.fromEntries(named)];
  });
  return change(Object.fromEntries(parts));
}

/** Finds the first item that equals an earlier one. @returns the positions of both */
function duplicateIn(items: readonly unknown[]): [number, number] | undefined {
  const seen = new Map<unknown, number>();
  for (const [at, item] of items.entries()) {
    // No other JSON begins with a quote.
    const mark = typeof item === 'object' ? canonicalJson(item) : typeof item === 'string' ? `"${item}` : item;
    const first = seen.get(mark);
    if (first !== undefined) return [first, at];
    seen.set(mark, at);
  }
  return undefined;
}
