import type { Type } from '@nestjs/common';
import type * as ClassTransformer from 'class-transformer';
import type * as ClassValidator from 'class-validator';
import type { MetadataStorage, ValidationError } from 'class-validator';
import type { McpArgumentProblem } from '../handlers.errors.js';
import { requireClassPackages } from './class-packages.cjs';
import type { JsonSchema, Misfit, SchemaUse, Validate } from './handler-schema.js';

/**
 * @nestjs/swagger stores the options of `@ApiProperty()` here: texts, examples and defaults, which class-validator has
 * not.
 */
const API_PROPERTY = 'swagger/apiModelProperties';

/** Validators of this type only switch others on or off, such as `IsOptional`. */
const CONDITIONAL = 'conditionalValidation';
const WHITELIST = 'whitelistValidation';
const NESTED = 'nestedValidation';

/** Says what a class describes. */
export interface ClassUse {
  readonly use: SchemaUse;
  /** Whether a pipe refuses properties without rules. */
  readonly closed?: boolean | undefined;
}

/**
 * Returns the JSON Schema of a class, from the rules of its class-validator decorators, the options of
 * `@ApiProperty()`, and, for arguments, the values of its fields in a new instance, which a client may leave out.
 *
 * @param outer the classes that this one is part of
 * @throws Error for a class without rules, or one that contains itself
 */
export function jsonOfClass(dto: Type, packages: ClassPackages, as: ClassUse, outer: readonly Type[] = []): JsonSchema {
  if (outer.includes(dto)) {
    throw new Error(
      `the class ${dto.name} contains itself, which cannot be written as JSON Schema from decorators. Give the JSON Schema itself.`,
    );
  }
  const rules = packages.validator.getMetadataStorage().getTargetValidationMetadatas(dto, '', false, false);
  if (rules.length === 0) {
    throw new Error(
      `the class ${dto.name} has no decorators of class-validator. Decorate its properties, or give another schema.`,
    );
  }
  const byProperty = new Map<string, ValidationRule[]>();
  for (const rule of rules) byProperty.set(rule.propertyName, [...(byProperty.get(rule.propertyName) ?? []), rule]);
  const property = (name: string, rules: ValidationRule[]): JsonSchema => {
    const nested = rules.find(({ type }) => type === NESTED);
    const inner = nested && jsonOfNested(dto, name, packages, as, [...outer, dto]);
    return { ...jsonOfRules(designType(dto, name), rules, inner), ...documented(dto, name), ...defaults[name] };
  };
  const defaults = as.use === 'input' ? defaultsOf(dto, [...byProperty.keys()]) : {};
  const required = [...byProperty]
    .filter(([name, rules]) => isRequired(rules) && !Object.hasOwn(defaults, name))
    .map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries([...byProperty].map(([name, rules]) => [name, property(name, rules)])),
    ...(required.length > 0 && { required }),
    ...(as.closed && { additionalProperties: false }),
  };
}

const RAW = new WeakMap<object, object>();

/** Returns the arguments that an instance was made of, if {@link validateClass} made it. */
export function rawOf(instance: unknown): object | undefined {
  return RAW.get(instance as object);
}

/**
 * Returns the check that class-validator makes of a class: arguments become an instance, results become plain again.
 */
export function validateClass(dto: Type, packages: ClassPackages, use: SchemaUse, misfit: Misfit): Validate {
  const { validator, transformer } = packages;
  return async (raw) => {
    // class-validator treats an array or a string as an object without rules, and would accept it.
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
      throw misfit([{ path: '', message: 'it is not an object' }]);
    }
    const instance = transformer.plainToInstance(dto, raw) as object;
    const failures = await validator.validate(instance, { forbidUnknownValues: false });
    if (failures.length > 0) throw misfit(failures.flatMap((failure) => problemsOf(failure)));
    if (use === 'output') return transformer.instanceToPlain(instance);
    RAW.set(instance, raw);
    return instance;
  };
}

function jsonOfRules(designType: unknown, rules: readonly ValidationRule[], nested?: JsonSchema): JsonSchema {
  const keywords = (each: boolean): JsonSchema =>
    Object.assign(
      {},
      ...rules.filter((rule) => rule.each === each).map((rule) => keywordsOf(rule.name ?? '', rule.constraints)),
    ) as JsonSchema;
  const whole: JsonSchema = { ...DESIGN_TYPES.get(designType), ...keywords(false) };
  const many = whole.type === 'array' || rules.some(({ each }) => each);
  if (!many) return { ...whole, ...nested };
  const items = { ...keywords(true), ...nested };
  return { ...whole, type: 'array', ...(Object.keys(items).length > 0 && { items }) };
}

/**
 * Returns the schema of a property that is itself an object, or an array of them: `@Type()` names its class, or else
 * TypeScript.
 */
function jsonOfNested(
  dto: Type,
  name: string,
  packages: ClassPackages,
  as: ClassUse,
  outer: readonly Type[],
): JsonSchema {
  const declared = packages.types.findTypeMetadata(dto, name)?.typeFunction?.();
  const type = declared ?? designType(dto, name);
  if (typeof type !== 'function' || type === Array || type === Object) {
    throw new Error(
      `${dto.name}.${name} has @ValidateNested(), but its class is not known. Add @Type(() => …) of class-transformer.`,
    );
  }
  return jsonOfClass(type as Type, packages, as, outer);
}

function isRequired(rules: readonly ValidationRule[]): boolean {
  return rules.every(({ type }) => type !== CONDITIONAL) && rules.some(({ type }) => type !== WHITELIST);
}

function designType(dto: Type, name: string): unknown {
  return Reflect.getMetadata('design:type', dto.prototype as object, name);
}

/** Returns the options of `@ApiProperty()` of a property; `examples` is a list in JSON Schema. */
function documented(dto: Type, name: string): JsonSchema {
  const api = Reflect.getMetadata(API_PROPERTY, dto.prototype as object, name) as ApiProperty | undefined;
  if (!api) return {};
  const { description, example, examples = [example] } = api;
  const all = Array.isArray(examples) ? examples : Object.values(examples).map((each) => (each as Example).value);
  const shown = all.filter(isJson);
  return {
    ...(typeof description === 'string' && { description }),
    ...(isJson(api.default) && { default: api.default }),
    ...(shown.length > 0 && { examples: shown }),
  };
}

interface ApiProperty {
  readonly description?: unknown;
  readonly default?: unknown;
  readonly example?: unknown;
  readonly examples?: readonly unknown[] | Readonly<Record<string, Example>>;
}
interface Example {
  readonly value?: unknown;
}

/** Returns the values that fields have in a new instance, as class-transformer makes one of arguments. */
function defaultsOf(dto: Type, names: readonly string[]): Record<string, { default: unknown }> {
  let instance: object;
  try {
    instance = new dto() as object;
  } catch {
    return {};
  }
  const values = names.map((name) => [name, Reflect.get(instance, name) as unknown] as const);
  return Object.fromEntries(
    values.filter(([, value]) => isJson(value)).map(([name, value]) => [name, { default: value }]),
  );
}

/** Returns whether JSON has the value: no function, no cycle, not `undefined`. */
function isJson(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

function problemsOf({ property, constraints = {}, children = [] }: ValidationError, above = ''): McpArgumentProblem[] {
  const path = above === '' ? property : `${above}.${property}`;
  const own = Object.values(constraints).map((message) => ({ path, message }));
  return [...own, ...children.flatMap((child) => problemsOf(child, path))];
}

/** Holds the optional packages that validate and convert classes. */
export interface ClassPackages {
  readonly validator: typeof ClassValidator;
  readonly transformer: typeof ClassTransformer;
  /** class-transformer stores the types of `@Type()` here. */
  readonly types: { findTypeMetadata(target: Type, property: string): { typeFunction?(): Type } | undefined };
}

type ValidationRule = ReturnType<MetadataStorage['getTargetValidationMetadatas']>[number];

/**
 * Loads the packages.
 *
 * @param load finds the packages
 * @throws Error that says what to install
 */
export function loadClassPackages(load = requireClassPackages): ClassPackages {
  try {
    const { validator, transformer, storage } = load();
    return {
      validator: validator as typeof ClassValidator,
      transformer: transformer as typeof ClassTransformer,
      types: (storage as { defaultMetadataStorage: ClassPackages['types'] }).defaultMetadataStorage,
    };
  } catch (cause) {
    throw new Error(
      'a class as a schema needs two packages that are not installed. Run: npm install class-validator class-transformer.',
      { cause },
    );
  }
}

/** Converts a rule of class-validator to keywords of JSON Schema, by the arguments of the decorator. */
type Keywords = (constraints: readonly unknown[]) => JsonSchema;

const always =
  (keywords: JsonSchema): Keywords =>
  () =>
    keywords;
const text = (format?: string): Keywords => always({ type: 'string', ...(format && { format }) });

/**
 * Converts the common decorators of class-validator to JSON Schema. Other rules are still checked when a handler is
 * called, but clients do not learn of them beforehand.
 */
const KEYWORDS: Readonly<Record<string, Keywords>> = {
  isString: text(),
  isNumber: always({ type: 'number' }),
  isInt: always({ type: 'integer' }),
  isBoolean: always({ type: 'boolean' }),
  isArray: always({ type: 'array' }),
  isObject: always({ type: 'object' }),
  isNotEmptyObject: always({ type: 'object', minProperties: 1 }),
  isDate: text('date-time'),
  isDateString: text('date-time'),
  isIso8601: text('date-time'),
  isRFC3339: text('date-time'),
  isEmail: text('email'),
  isUrl: text('uri'),
  isUuid: text('uuid'),
  isIp: ([version]) =>
    version === undefined ? { type: 'string' } : { type: 'string', format: `ipv${version as number}` },
  isIn: ([values]) => ({ enum: values }),
  isEnum: ([, values]) => ({ enum: values }),
  // JSON Schema applies it to strings only.
  isNotEmpty: always({ minLength: 1 }),
  equals: ([value]) => ({ const: value }),
  min: ([minimum]) => ({ minimum }),
  max: ([maximum]) => ({ maximum }),
  isPositive: always({ exclusiveMinimum: 0 }),
  isNegative: always({ exclusiveMaximum: 0 }),
  isDivisibleBy: ([multipleOf]) => ({ multipleOf }),
  minLength: ([minLength]) => ({ minLength }),
  maxLength: ([maxLength]) => ({ maxLength }),
  isLength: ([minLength, maxLength]) => ({ minLength, ...(maxLength !== undefined && { maxLength }) }),
  matches: ([pattern]) => (pattern instanceof RegExp && pattern.flags === '' ? { pattern: pattern.source } : {}),
  arrayMinSize: ([minItems]) => ({ minItems }),
  arrayMaxSize: ([maxItems]) => ({ maxItems }),
  arrayNotEmpty: always({ minItems: 1 }),
  arrayUnique: always({ uniqueItems: true }),
};

/** Returns the keywords of one rule; none for a rule that JSON Schema cannot express. */
function keywordsOf(name: string, constraints: readonly unknown[] = []): JsonSchema {
  return Object.hasOwn(KEYWORDS, name) ? KEYWORDS[name]!(constraints) : {};
}

/** Maps the types that TypeScript emits for properties to JSON Schema. */
const DESIGN_TYPES = new Map<unknown, JsonSchema>([
  [String, { type: 'string' }],
  [Number, { type: 'number' }],
  [Boolean, { type: 'boolean' }],
  [Date, { type: 'string', format: 'date-time' }],
  [Array, { type: 'array' }],
]);
