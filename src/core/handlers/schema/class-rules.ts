import type { MetadataStorage } from 'class-validator';
import type { JsonSchema, SchemaUse } from './handler-schema.js';

/** Validators of this type only switch others on or off, such as `IsOptional`. */
export const CONDITIONAL = 'conditionalValidation';

/** A decorator of class-validator on a property. */
export type ValidationRule = ReturnType<MetadataStorage['getTargetValidationMetadatas']>[number];

/**
 * Returns the JSON Schema of a property, from its rules and the type that TypeScript emits.
 *
 * A result has what the rules let pass: clients check it by the listed schema after the tool has run. So there a property that may be
 * left out may be `null` too, and a format that is narrower than its rule is left out. For arguments the narrower form is advice.
 *
 * @param nested describes the property, or each of its items, if it is an object
 */
export function jsonOfRules(
  designType: unknown,
  rules: readonly ValidationRule[],
  use: SchemaUse,
  nested?: JsonSchema,
): JsonSchema {
  const json = jsonOfValue(designType, rules, use, nested);
  const isNullable = use === 'output' && rules.some(({ type }) => type === CONDITIONAL);
  return isNullable && Object.keys(json).length > 0 ? { anyOf: [json, { type: 'null' }] } : json;
}

function jsonOfValue(
  designType: unknown,
  rules: readonly ValidationRule[],
  use: SchemaUse,
  nested?: JsonSchema,
): JsonSchema {
  const keywords = (each: boolean): JsonSchema =>
    Object.assign(
      {},
      ...rules.filter((rule) => rule.each === each).map((rule) => keywordsOf(rule.name ?? '', rule.constraints, use)),
    ) as JsonSchema;
  const whole: JsonSchema = { ...DESIGN_TYPES.get(designType), ...keywords(false) };
  const many = whole.type === 'array' || rules.some(({ each }) => each);
  if (!many) return { ...whole, ...nested };
  // A rule with `each` takes a value that is no list, too: `string | string[]`.
  if (use === 'output' && whole.type !== 'array' && designType !== Array) return {};
  const items = { ...keywords(true), ...nested };
  return { ...whole, type: 'array', ...(Object.keys(items).length > 0 && { items }) };
}

/** Converts a rule of class-validator to keywords of JSON Schema, by the arguments of the decorator. */
type Keywords = (constraints: readonly unknown[], use: SchemaUse) => JsonSchema;

const always =
  (keywords: JsonSchema): Keywords =>
  () =>
    keywords;
const text = (format?: string): Keywords => always({ type: 'string', ...(format && { format }) });
/** The rule accepts more than the format, such as a date without a time, or a URL without a scheme. */
const loose =
  (format: string): Keywords =>
  (_, use) => ({ type: 'string', ...(use === 'input' && { format }) });

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
  isDateString: loose('date-time'),
  isIso8601: loose('date-time'),
  isRFC3339: loose('date-time'),
  isEmail: loose('email'),
  isUrl: loose('uri'),
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
function keywordsOf(name: string, constraints: readonly unknown[] = [], use: SchemaUse): JsonSchema {
  return Object.hasOwn(KEYWORDS, name) ? KEYWORDS[name]!(constraints, use) : {};
}

/** Maps the types that TypeScript emits for properties to JSON Schema. */
const DESIGN_TYPES = new Map<unknown, JsonSchema>([
  [String, { type: 'string' }],
  [Number, { type: 'number' }],
  [Boolean, { type: 'boolean' }],
  [Date, { type: 'string', format: 'date-time' }],
  [Array, { type: 'array' }],
]);
