import type { Type } from '@nestjs/common';
import type { ClassTransformOptions } from 'class-transformer';
import type { ValidationError, ValidatorOptions } from 'class-validator';
import { isObject } from '../../protocol/json-rpc.js';
import { ClassDefinitions } from './class-definitions.js';
import {
  type ClassPackages,
  type ClassUse,
  hasTransform,
  knownErrors,
  problemsOf,
  wireNames,
  withoutTransforms,
} from './class-names.js';
import { CONDITIONAL, jsonOfRules, refusesNothing, type ValidationRule } from './class-rules.js';
import type { JsonSchema, Misfit, Validate } from './handler-schema.js';

/**
 * @nestjs/swagger stores the options of `@ApiProperty()` here: texts, examples and defaults, which class-validator has
 * not.
 */
const API_PROPERTY = 'swagger/apiModelProperties';

const WHITELIST = 'whitelistValidation';
const NESTED = 'nestedValidation';
const DEFINED = 'isDefined';

/**
 * Returns the JSON Schema of a class, from the rules of its class-validator decorators, the names of class-transformer, the
 * options of `@ApiProperty()`, and, for arguments, the values of its fields in an instance of no arguments, which a client
 * may leave out.
 *
 * @throws Error for a class without rules
 */
export function jsonOfClass(
  dto: Type,
  packages: ClassPackages,
  as: ClassUse,
  definitions = new ClassDefinitions(),
): JsonSchema {
  return definitions.of(dto, () => {
    const byProperty = rulesOf(dto, packages, as);
    const names = wireNames(dto, [...byProperty.keys()], packages, as);
    const ruleNames = new Set<unknown>(Object.values(packages.validator));
    const defaults = as.use === 'input' ? defaultsOf(dto, [...names.keys()], packages, as) : {};
    const required: string[] = [];
    const properties = Array.from(names, ([name, wire]) => {
      const rules = byProperty.get(name)!;
      assertDates(dto, name, rules, packages, as);
      const isNested = rules.some(({ type }) => type === NESTED);
      const nested = isNested ? jsonOfNested(dto, name, packages, as, definitions) : undefined;
      const isDemanded = rules.some((rule) => refusesNothing(rule, ruleNames));
      const isTransformed = as.use === 'output' && hasTransform(dto, name, as.use, packages);
      const property = { designType: designType(dto, name), rules, nested, isDemanded, isTransformed };
      const isSent = as.use === 'input' || (isDemanded && !isTransformed);
      if (isSent && isRequired(rules, as.validation) && !Object.hasOwn(defaults, name)) required.push(wire);
      return [wire, { ...jsonOfRules(property, as.use), ...documented(dto, name), ...defaults[name] }] as const;
    });
    return {
      type: 'object',
      properties: Object.fromEntries(properties),
      ...(required.length > 0 && { required }),
      ...(as.closed && { additionalProperties: false }),
    };
  });
}

/** Returns the rules of a class by property. @throws Error for a class that has none in any group */
function rulesOf(
  dto: Type,
  { validator }: ClassPackages,
  { validation = {} }: ClassUse,
): Map<string, ValidationRule[]> {
  const storage = validator.getMetadataStorage();
  if (storage.getTargetValidationMetadatas(dto, '', false, false).length === 0) {
    throw new Error(
      `the class ${dto.name} has no decorators of class-validator. Decorate its properties, or give another schema.`,
    );
  }
  const { always = false, strictGroups = false, groups } = validation;
  const byProperty = new Map<string, ValidationRule[]>();
  for (const rule of storage.getTargetValidationMetadatas(dto, '', always, strictGroups, groups)) {
    byProperty.set(rule.propertyName, [...(byProperty.get(rule.propertyName) ?? []), rule]);
  }
  return byProperty;
}

/** Returns the properties of a class that arguments can have. */
export function fieldsOf(dto: Type, packages: ClassPackages, as: ClassUse): string[] {
  return [...wireNames(dto, [...rulesOf(dto, packages, as).keys()], packages, as).keys()];
}

const RAW = new WeakMap<object, object>();

/** Returns the arguments that an instance was made of, if {@link validateClass} made it. */
export function rawOf(instance: unknown): object | undefined {
  return RAW.get(instance as object);
}

/**
 * Returns the check that class-validator makes of a class: arguments become an instance, results become plain.
 *
 * A result may be an instance, or an object with the names of the class or those of the client, which the
 * `ClassSerializerInterceptor` of the app has made.
 */
export function validateClass(
  dto: Type,
  packages: ClassPackages,
  as: ClassUse,
  { misfit, hasDiscriminators }: { readonly misfit: Misfit; readonly hasDiscriminators: boolean },
): Validate {
  const { validator, transformer } = packages;
  const { use, transform, serialized, validation, exceptionFactory } = as;
  const errorsIn = async (instance: object): Promise<ValidationError[]> => {
    const errors = await validator.validate(instance, {
      forbidUnknownValues: false,
      ...validation,
      // The target of an error says which class has the name.
      validationError: { ...validation?.validationError, target: true },
    });
    return knownErrors(errors, packages, as);
  };
  // class-transformer deletes discriminators from what it reads.
  const instanceOf = (plain: object, options?: ClassTransformOptions): object =>
    transformer.plainToInstance(dto, hasDiscriminators ? copied(plain) : plain, options) as object;
  return async (raw) => {
    // class-validator treats an array or a string as an object without rules, and would accept it.
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
      throw misfit([{ path: '', message: 'it is not an object' }]);
    }
    if (use === 'input') {
      const instance = instanceOf(raw, transform);
      const errors = await errorsIn(instance);
      if (errors.length > 0) {
        if (exceptionFactory) throw await exceptionFactory(errors);
        throw misfit(errors.flatMap((error) => problemsOf(error)));
      }
      RAW.set(instance, raw);
      return instance;
    }
    // The rules describe the values before @Transform(), which runs once: a ClassSerializerInterceptor leaves no instance.
    const convert = withoutTransforms(packages, transform);
    const isTransformed = serialized?.() === true && !hasInstances(raw);
    const plain = raw instanceof dto ? convert.toPlain(raw) : raw;
    const instance = convert.toInstance(hasDiscriminators ? copied(plain) : plain, dto);
    const problems = (await errorsIn(instance)).flatMap((error) => problemsOf(error));
    if (problems.length > 0) throw misfit(problems);
    return isTransformed
      ? convert.toPlain(instance)
      : transformer.instanceToPlain(raw instanceof dto ? raw : instance, transform);
  };
}

/** Returns whether a value is an instance of a class, or has one. */
function hasInstances(value: unknown, seen = new Set<unknown>()): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Date || seen.has(value)) return false;
  seen.add(value);
  const isPlain = Array.isArray(value) || [Object.prototype, null].includes(Object.getPrototypeOf(value) as null);
  return !isPlain || Object.values(value).some((each) => hasInstances(each, seen));
}

/** Returns a copy of the plain objects and arrays in a value. */
function copied(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copied);
  if (!isObject(value) || ![Object.prototype, null].includes(Object.getPrototypeOf(value) as null)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copied(each)]));
}

/**
 * Returns the schema of a property that is itself an object, or an array of them: `@Type()` names its class or its
 * subtypes, or else TypeScript.
 */
function jsonOfNested(
  dto: Type,
  name: string,
  packages: ClassPackages,
  as: ClassUse,
  definitions: ClassDefinitions,
): JsonSchema {
  const { typeFunction, options } = packages.storage.findTypeMetadata(dto, name) ?? {};
  const { property, subTypes } = options?.discriminator ?? {};
  if (property && subTypes) {
    definitions.hasDiscriminators = true;
    const oneOf = subTypes.map(({ name: value, value: type }) => {
      const json = jsonOfClass(type as Type, packages, as, definitions);
      return ofSubtype(json, property, value);
    });
    return { oneOf };
  }
  const type = typeFunction?.() ?? designType(dto, name);
  if (typeof type !== 'function' || type === Array || type === Object) {
    throw new Error(
      `${dto.name}.${name} has @ValidateNested(), but its class is not known. Add @Type(() => …) of class-transformer.`,
    );
  }
  return jsonOfClass(type as Type, packages, as, definitions);
}

/** Returns the schema of a subtype with its value of the discriminator. */
function ofSubtype(json: JsonSchema, discriminator: string, value: string): JsonSchema {
  const { properties = {}, required = [] } = json as { properties?: Record<string, JsonSchema>; required?: string[] };
  return {
    ...json,
    properties: { ...properties, [discriminator]: { type: 'string', ...properties[discriminator], const: value } },
    required: [...new Set([discriminator, ...required])],
  };
}

function isRequired(
  rules: readonly ValidationRule[],
  { skipMissingProperties, skipUndefinedProperties }: ValidatorOptions = {},
): boolean {
  if (rules.some(({ type }) => type === CONDITIONAL)) return false;
  if (skipMissingProperties || skipUndefinedProperties) return rules.some(({ type }) => type === DEFINED);
  return rules.some(({ type }) => type !== WHITELIST);
}

/** @throws Error for a rule that no text fulfils: class-transformer leaves texts as they are, unless a decorator or an option says otherwise */
function assertDates(
  dto: Type,
  name: string,
  rules: readonly ValidationRule[],
  packages: ClassPackages,
  { use, transform }: ClassUse,
): void {
  if (use === 'output' || rules.every((rule) => rule.name !== 'isDate')) return;
  const isConverted =
    packages.storage.findTypeMetadata(dto, name) !== undefined ||
    hasTransform(dto, name, use, packages) ||
    (transform?.enableImplicitConversion === true && designType(dto, name) === Date);
  if (isConverted) return;
  throw new Error(
    `${dto.name}.${name} has @IsDate(), while clients send dates as texts. Add @Type(() => Date) of class-transformer.`,
  );
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

/** Returns the values that fields have in the instance that class-transformer makes of no arguments. */
function defaultsOf(
  dto: Type,
  names: readonly string[],
  { transformer }: ClassPackages,
  { transform }: ClassUse,
): Record<string, { default: unknown }> {
  let instance: object;
  try {
    instance = transformer.plainToInstance(dto, {}, transform) as object;
  } catch {
    return {};
  }
  const values = names.map((name) => {
    const value: unknown = Reflect.get(instance, name);
    return [name, isObject(value) ? transformer.instanceToPlain(value, transform) : value] as const;
  });
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
