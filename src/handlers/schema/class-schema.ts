import type { Type } from '@nestjs/common';
import { handlerMessages } from '../handlers.messages.js';
import type { ArgumentProblem } from './arguments.error.js';
import type { ClassPackages, ValidationFailure, ValidationRule } from './class-packages.js';
import { keywordsOf, keywordsOfType } from './class-rules.js';
import type { JsonSchema, Misfit, SchemaUse, Validate } from './handler-schema.js';

/** Where @nestjs/swagger keeps what `@ApiProperty()` said: the only place where a property can have a description. */
const API_PROPERTY = 'swagger/apiModelProperties';

/** Of rules, those that only decide whether others hold, or whether a property is kept. */
const CONDITIONAL = 'conditionalValidation';
const WHITELIST = 'whitelistValidation';
const NESTED = 'nestedValidation';

/**
 * The JSON Schema of a class, from the rules that the decorators of class-validator left behind.
 *
 * @param outer the classes that this one is part of
 * @throws Error for a class without rules, or one that contains itself
 */
export function jsonOfClass(dto: Type, packages: ClassPackages, outer: readonly Type[] = []): JsonSchema {
  if (outer.includes(dto)) throw new Error(handlerMessages.recursiveClass(dto.name));
  const rules = packages.validator.getMetadataStorage().getTargetValidationMetadatas(dto, '', false, false);
  if (rules.length === 0) throw new Error(handlerMessages.classWithoutRules(dto.name));
  const byProperty = grouped(rules);
  const property = (name: string, rules: ValidationRule[]): JsonSchema => {
    const nested = rules.find(({ type }) => type === NESTED);
    const inner = nested && jsonOfNested(dto, name, packages, [...outer, dto]);
    return { ...jsonOfRules(designType(dto, name), rules, inner), ...descriptionOf(dto, name) };
  };
  const required = [...byProperty].filter(([, rules]) => isRequired(rules)).map(([name]) => name);
  return {
    type: 'object',
    properties: Object.fromEntries([...byProperty].map(([name, rules]) => [name, property(name, rules)])),
    ...(required.length > 0 && { required }),
  };
}

function grouped(rules: readonly ValidationRule[]): Map<string, ValidationRule[]> {
  const groups = new Map<string, ValidationRule[]>();
  for (const rule of rules) {
    const group = groups.get(rule.propertyName);
    if (group) group.push(rule);
    else groups.set(rule.propertyName, [rule]);
  }
  return groups;
}

/** The check that class-validator makes of a class; what comes in becomes an instance, what goes out plain again. */
export function validateClass(dto: Type, packages: ClassPackages, use: SchemaUse, misfit: Misfit): Validate {
  const { validator, transformer } = packages;
  return async (raw) => {
    // For class-validator a list, or a text, is an object without rules: everything in it would be fine.
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw)) {
      throw misfit([{ path: '', message: handlerMessages.noObject() }]);
    }
    const instance = transformer.plainToInstance(dto, raw);
    const failures = await validator.validate(instance, { forbidUnknownValues: false });
    if (failures.length > 0) throw misfit(failures.flatMap((failure) => problemsOf(failure)));
    return use === 'input' ? instance : transformer.instanceToPlain(instance);
  };
}

function jsonOfRules(designType: unknown, rules: readonly ValidationRule[], nested?: JsonSchema): JsonSchema {
  const keywords = (each: boolean): JsonSchema =>
    Object.assign({}, ...rules.filter((rule) => rule.each === each).map((rule) => ofRule(rule))) as JsonSchema;
  const whole = { ...keywordsOfType(designType), ...keywords(false) };
  const many = whole.type === 'array' || rules.some(({ each }) => each);
  if (!many) return { ...whole, ...nested };
  const items = { ...keywords(true), ...nested };
  return { ...whole, type: 'array', ...(Object.keys(items).length > 0 && { items }) };
}

function ofRule({ name = '', constraints }: ValidationRule): JsonSchema {
  return keywordsOf(name, constraints);
}

/** Of a property that is itself an object, or an array of them: `@Type()` says of which class, or else TypeScript. */
function jsonOfNested(dto: Type, name: string, packages: ClassPackages, outer: readonly Type[]): JsonSchema {
  const declared = packages.types.findTypeMetadata(dto, name)?.typeFunction?.();
  const type = declared ?? designType(dto, name);
  if (typeof type !== 'function' || type === Array || type === Object) {
    throw new Error(handlerMessages.nestedWithoutType(dto.name, name));
  }
  return jsonOfClass(type as Type, packages, outer);
}

function isRequired(rules: readonly ValidationRule[]): boolean {
  return rules.every(({ type }) => type !== CONDITIONAL) && rules.some(({ type }) => type !== WHITELIST);
}

function designType(dto: Type, name: string): unknown {
  return Reflect.getMetadata('design:type', dto.prototype as object, name);
}

function descriptionOf(dto: Type, name: string): { description?: string } {
  const api = Reflect.getMetadata(API_PROPERTY, dto.prototype as object, name) as { description?: unknown } | undefined;
  return typeof api?.description === 'string' ? { description: api.description } : {};
}

function problemsOf({ property, constraints = {}, children = [] }: ValidationFailure, above = ''): ArgumentProblem[] {
  const path = above === '' ? property : `${above}.${property}`;
  const own = Object.values(constraints).map((message) => ({ path, message }));
  return [...own, ...children.flatMap((child) => problemsOf(child, path))];
}
