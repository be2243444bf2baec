import type { JsonSchema } from './handler-schema.js';

/** A rule of class-validator as keywords of JSON Schema, from what the decorator was given. */
type Keywords = (constraints: readonly unknown[]) => JsonSchema;

const always =
  (keywords: JsonSchema): Keywords =>
  () =>
    keywords;
const text = (format?: string): Keywords => always({ type: 'string', ...(format && { format }) });

/**
 * What the common decorators of class-validator mean. What is not here is still checked when a handler is called; a
 * client only does not learn of it beforehand.
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
  // Says nothing of what is no text.
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

/** The keywords of one rule; none for a rule that JSON Schema cannot say. */
export function keywordsOf(name: string, constraints: readonly unknown[] = []): JsonSchema {
  return Object.hasOwn(KEYWORDS, name) ? KEYWORDS[name]!(constraints) : {};
}

/** The type that TypeScript left behind for a property, if it says anything. */
export function keywordsOfType(designType: unknown): JsonSchema {
  switch (designType) {
    case String:
      return { type: 'string' };
    case Number:
      return { type: 'number' };
    case Boolean:
      return { type: 'boolean' };
    case Date:
      return { type: 'string', format: 'date-time' };
    case Array:
      return { type: 'array' };
    default:
      return {};
  }
}
