import type { JsonSchemaValidator, StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import type { Type } from '@nestjs/common';
import { isObject } from '../../protocol/json-rpc.js';
import { BoundedJsonSchemas } from '../../protocol/json-schema.js';
import type { CheckIssue, CheckOutcome } from '../../protocol/spec.js';
import { shown } from '../../protocol/errors.js';
import { placedAt, withObjectType } from '../../protocol/structured-content.js';
import { isLarger } from '../../protocol/values.js';
import {
  assertValues,
  type McpArgumentProblem,
  McpArgumentsError,
  McpHandlerDefinitionError,
  problemsText,
} from '../handlers.errors.js';
import { ClassDefinitions } from './class-definitions.js';
import { type ClassUse, loadClassPackages } from './class-names.js';
import { fieldsOf, jsonOfClass, validateClass } from './class-schema.js';
import type { CompiledSchema, JsonSchema, McpResultSchema, Misfit, SchemaUse, Validate } from './handler-schema.js';
import { listedSchema } from './listed-schema.js';
import { MANY_VALUES, standardCheck } from './standard-check.js';

const MISFITS: Readonly<Record<SchemaUse, Misfit>> = {
  input: (problems) => new McpArgumentsError(problems),
  output: (problems) => new Error(`The result is not valid: ${problemsText(problems)}.`),
};

const TARGET = { target: 'draft-2020-12' } as const;

/**
 * Arguments may have so many values, if the library of their schema looks for all problems: `@Tool({ maxValues })` changes it.
 *
 * @internal
 */
export const MAX_UNSTOPPED_VALUES = 5_000;

type Standard = StandardSchemaWithJSON['~standard'];

/** Says what the pipes and interceptors around a handler do to classes. */
export type ClassOptions = Omit<ClassUse, 'use'>;

/**
 * Converts the schemas of handlers once, at the start: lists and calls convert nothing, and a schema that cannot be converted
 * stops the start instead of breaking a whole list.
 *
 * Ajv keeps every schema that it has compiled. So a handler that is registered at run time has a compiler of its own, which
 * is collected with it.
 */
export class SchemaCompiler {
  #validators: JsonValidators | undefined;
  readonly #known: Readonly<Record<SchemaUse, WeakMap<object, ConvertedSchema>>> = {
    input: new WeakMap(),
    output: new WeakMap(),
  };

  /**
   * Compiles a schema.
   *
   * @param origin the handler, for messages
   * @param how `option`: what it was given as, for messages; `classes`: what is done to classes around the handler; `anyRoot`: it
   *   describes one argument, which need not be an object; `maxValues`: arguments may have so many
   * @throws McpHandlerDefinitionError that says why the schema cannot be used
   */
  compile(
    schema: McpResultSchema,
    use: SchemaUse,
    origin: string,
    {
      option = `${use}Schema`,
      classes = {},
      anyRoot = false,
      maxValues,
    }: { option?: string; classes?: ClassOptions | undefined; anyRoot?: boolean; maxValues?: number | undefined } = {},
  ): CompiledSchema {
    try {
      const { json, validate, fields, stops, outdated } = this.#converted(
        standardOf(schema) ?? schema,
        use,
        classes,
        anyRoot,
      );
      const max = maxValues ?? (stops ? Infinity : MAX_UNSTOPPED_VALUES);
      return { json, validate: use === 'input' ? limited(validate, max) : validate, fields, outdated };
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new McpHandlerDefinitionError(origin, `its "${option}" cannot be used: ${reason}`, { cause });
    }
  }

  /** Converts a schema; an object once, since the parameters of a method are compared with it before its tool is made of it. */
  #converted(schema: unknown, use: SchemaUse, classes: ClassOptions, anyRoot: boolean): ConvertedSchema {
    // What a class becomes depends on what is around the handler.
    const isKept = !anyRoot && (isStandardSchema(schema) || isObject(schema));
    const known = isKept ? this.#known[use].get(schema) : undefined;
    if (known) return known;
    const converted = this.#convert(schema, use, classes, anyRoot);
    const frozen = { ...converted, json: frozenJson(converted.json) };
    if (isKept) this.#known[use].set(schema, frozen);
    return frozen;
  }

  #convert(schema: unknown, use: SchemaUse, classes: ClassOptions, anyRoot: boolean): ConvertedSchema {
    const misfit = MISFITS[use];
    if (isStandardSchema(schema)) {
      const json = jsonOfStandard(schema['~standard'], use);
      const listed = listedSchema(json, { use, written: false });
      const { check, ...about } = standardCheck(schema, json);
      return {
        json: anyRoot ? listed : rootOf(listed, use, 'made'),
        validate: validateStandard(check, misfit),
        ...about,
      };
    }
    if (typeof schema === 'function') {
      const packages = loadClassPackages();
      const definitions = new ClassDefinitions();
      const as = { ...classes, use };
      const json = listedSchema(jsonOfClass(schema as Type, packages, as, definitions), { use, written: false });
      const { hasDiscriminators } = definitions;
      const validate = validateClass(schema as Type, packages, as, { misfit, hasDiscriminators });
      return { json, validate, fields: fieldsOf(schema as Type, packages, as), stops: false };
    }
    if (Array.isArray(schema) && schema.length === 1 && use === 'output') {
      return listOf(this.#convert(standardOf(schema[0]) ?? schema[0], use, classes, true));
    }
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
      throw new Error(
        `a schema is a Standard Schema (such as z.object({ … })), a JSON Schema, or a class with decorators of class-validator; got ${shown(schema)}.`,
      );
    }
    if (Object.values(schema).some((part) => isStandardSchema(part))) {
      throw new Error('it is an object of schemas. Combine them into one schema: z.object({ … }).');
    }
    const json = frozenJson(schema as JsonSchema);
    const listed = rootOf(listedSchema(json, { use, written: true }), use, 'written');
    const validate = validateJson(json, this.#validatorsFor(json), misfit);
    return { json: listed, validate: use === 'output' ? orAsJson(validate) : validate, stops: true };
  }

  /** Returns validators of its own: Ajv would use the first schema in place of a second one with the same `$id`. */
  #validatorsFor(schema: JsonSchema): JsonValidators {
    if (JSON.stringify(schema).includes('"$id"')) return new JsonValidators();
    return (this.#validators ??= new JsonValidators());
  }
}

/** Returns the schema of a list of results: `[OrderDto]`, as decorators of @nestjs/swagger take it. */
function listOf({ json, validate, stops }: ConvertedSchema): ConvertedSchema {
  return {
    json: { type: 'array', items: placedAt('#/items', json) },
    stops,
    validate: async (raw) => {
      if (!Array.isArray(raw)) throw new Error('The result is not valid: it is not an array.');
      const checked: unknown[] = [];
      for (const [index, item] of raw.entries()) {
        try {
          checked.push(await validate(item));
        } catch (cause) {
          throw new Error(`Item ${index}: ${(cause as Error).message}`, { cause });
        }
      }
      return checked;
    },
  };
}

interface ConvertedSchema extends CompiledSchema {
  /** Whether the check stops at the first problem. */
  readonly stops: boolean;
}

/** Validates JSON Schemas: up to the first problem, or, of values that do not fit, up to the last one. */
class JsonValidators {
  readonly #first = new BoundedJsonSchemas();
  /** Made when the first value does not fit. */
  #all: BoundedJsonSchemas | undefined;

  first(schema: JsonSchema): JsonSchemaValidator<unknown> {
    return this.#first.getValidator(schema);
  }

  all(schema: JsonSchema): JsonSchemaValidator<unknown> {
    return (this.#all ??= new BoundedJsonSchemas(true)).getValidator(schema);
  }
}

/** Refuses a value with too many values before it is checked. */
export function limited(validate: Validate, max: number): Validate {
  if (max === Infinity) return validate;
  return (raw) => {
    assertValues(raw, max);
    return validate(raw);
  };
}

/**
 * Returns a schema with the type of its root, if that can only be an object. A union of objects, which a library has made, has no
 * type.
 *
 * @throws Error for arguments that are no object; a result may be anything (D18)
 */
function rootOf(json: JsonSchema, use: SchemaUse, by: 'made' | 'written'): JsonSchema {
  if (use === 'output') return withObjectType(json);
  if (json.type === 'object') return json;
  if (json.type === undefined && by === 'made') return { type: 'object', ...json };
  throw new Error(
    json.type === undefined
      ? 'its root has no type. Add "type": "object".'
      : `its root must be an object, not ${shown(json.type)}. Wrap it: z.object({ value: … }), or { "type": "object", "properties": { "value": … } }.`,
  );
}

/** Returns whether a value claims to be a Standard Schema; those of ArkType are functions. */
export function isStandardSchema(schema: unknown): schema is StandardSchemaWithJSON {
  if ((typeof schema !== 'object' && typeof schema !== 'function') || schema === null) return false;
  const standard = (schema as Record<string, unknown>)['~standard'] as Partial<Standard> | undefined;
  return typeof standard?.validate === 'function';
}

/** Returns a Standard Schema, or that of a class: `createZodDto()` of nestjs-zod keeps it in `schema`. */
export function standardOf(given: unknown): StandardSchemaWithJSON | undefined {
  if (isStandardSchema(given)) return given;
  if (typeof given !== 'function') return undefined;
  const { schema } = given as { schema?: unknown };
  return isStandardSchema(schema) ? schema : undefined;
}

/** Converts a Standard Schema. @throws Error that says why the schema cannot be converted */
function jsonOfStandard({ jsonSchema, vendor }: Partial<Standard>, use: SchemaUse): JsonSchema {
  if (!jsonSchema) throw new Error(CONVERSIONS[String(vendor)] ?? noConversion(String(vendor)));
  let json: JsonSchema;
  try {
    json = jsonSchema[use](TARGET);
  } catch (error) {
    const { message } = error as Error;
    const remedy = REMEDIES.find(([pattern]) => pattern.test(message))?.[1][use];
    throw remedy === undefined ? error : new Error(`${message}. ${remedy}`, { cause: error });
  }
  return json;
}

const CONVERSIONS: Readonly<Record<string, string>> = {
  zod: 'this version of Zod cannot convert it to JSON Schema. Install zod 4.2 or later.',
  valibot:
    'Valibot needs a separate package to convert to JSON Schema. Wrap it: toStandardJsonSchema(schema) of "@valibot/to-json-schema".',
};

/** JSON has neither dates nor other objects than plain ones. The messages are those of Zod. */
const REMEDIES: readonly (readonly [RegExp, Readonly<Record<SchemaUse, string>>])[] = [
  [
    /\bDate\b/,
    {
      input:
        'Clients send dates as texts: use z.iso.datetime(), or z.iso.datetime().transform((text) => new Date(text)) to get a Date.',
      output: 'Clients get dates as texts: use z.iso.datetime(), and return date.toISOString().',
    },
  ],
  [
    /\bBigInt\b/i,
    {
      input: 'Clients send numbers or texts: use z.int(), or z.string().transform(BigInt).',
      output: 'Clients get numbers or texts: use z.int() or z.string().',
    },
  ],
  [
    /\b(?:Map|Set)\b/,
    {
      input: 'Use z.record() or z.array().',
      output: 'Use z.record() or z.array(), and return a plain object or array.',
    },
  ],
  [
    /\bTransforms\b/,
    {
      input: 'Begin with what clients send: z.string().transform(…).',
      output: 'Say what the transform returns: .transform(…).pipe(z.object({ … })).',
    },
  ],
];

function noConversion(vendor: string): string {
  return `the schema library "${vendor}" does not convert to JSON Schema ("~standard.jsonSchema"). Install a version that does, or give the JSON Schema itself.`;
}

/** Returns the check of a Standard Schema. It stays synchronous where the schema does. */
function validateStandard(check: (value: unknown) => CheckOutcome | Promise<CheckOutcome>, misfit: Misfit): Validate {
  const valueOf = (outcome: CheckOutcome): unknown => {
    if (!outcome.issues || outcome.issues.length === 0) return (outcome as { value: unknown }).value;
    throw misfit(outcome.issues.map(problemOf));
  };
  return (raw) => {
    const outcome = check(raw);
    return outcome instanceof Promise ? outcome.then(valueOf) : valueOf(outcome);
  };
}

/**
 * Returns the check of a JSON Schema: up to the first problem, which takes the least time. Of a value that does not fit, and
 * is small, all problems are named, so that the caller can mend them at once.
 */
function validateJson(json: JsonSchema, validators: JsonValidators, misfit: Misfit): Validate {
  const first = validators.first(json);
  let all: JsonSchemaValidator<unknown> | undefined;
  return (raw) => {
    const outcome = first(raw);
    if (outcome.valid) return outcome.data;
    if (isLarger(raw, MANY_VALUES)) throw misfit(ajvProblems(outcome.errorMessage));
    all ??= validators.all(json);
    const { errorMessage = outcome.errorMessage } = all(raw);
    throw misfit(ajvProblems(errorMessage));
  };
}

/** Checks a result as JSON, too: what does not fit as it is, such as a `Date`, may fit as that. */
function orAsJson(validate: Validate): Validate {
  return (raw) => {
    try {
      return validate(raw);
    } catch (misfit) {
      let sent: unknown;
      try {
        sent = JSON.parse(JSON.stringify(raw));
      } catch {
        throw misfit;
      }
      return validate(sent);
    }
  };
}

function problemOf({ path = [], message }: CheckIssue): McpArgumentProblem {
  return { path: path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.'), message };
}

/** Matches one problem in Ajv's one text for all: `data/a/0 must be string, data must have required property 'b'`. */
const PROBLEM = /(?:^|, )data(?<pointer>(?:\/[^ ]*)?) (?<message>.+?)(?=, data[ /]|$)/gs;

function ajvProblems(text: string): McpArgumentProblem[] {
  const problems = Array.from(text.matchAll(PROBLEM), ({ groups }) => ({
    path: pathOf(groups!.pointer!),
    message: groups!.message!,
  }));
  return problems.length > 0 ? problems : [{ path: '', message: text }];
}

/** Converts `/address/lines/0` to `address.lines.0`. */
function pathOf(pointer: string): string {
  const parts = pointer.split('/').slice(1);
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')).join('.');
}

/**
 * Returns a copy of a value as JSON transports it, frozen throughout: what goes over the wire is shared by all sessions.
 *
 * @throws TypeError for cycles and bigints
 */
export function frozenJson<T>(value: T): Readonly<T> {
  return deepFreeze(JSON.parse(JSON.stringify(value)) as T);
}

function deepFreeze<T>(value: T): Readonly<T> {
  if (typeof value !== 'object' || value === null) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
