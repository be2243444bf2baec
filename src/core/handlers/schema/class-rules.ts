import type { IsNumberOptions, MetadataStorage } from 'class-validator';
import type { JsonSchema, SchemaUse } from './handler-schema.js';

/** Validators of this type only switch others on or off, such as `IsOptional`. */
export const CONDITIONAL = 'conditionalValidation';

/** A decorator of class-validator on a property. */
export type ValidationRule = ReturnType<MetadataStorage['getTargetValidationMetadatas']>[number];

/** A property of a class. */
export interface ClassProperty {
  /** The type that TypeScript emits. */
  readonly designType: unknown;
  readonly rules: readonly ValidationRule[];
  /** Describes the property, or each of its items, if it is an object. */
  readonly nested?: JsonSchema | undefined;
  /** Whether a rule refuses `undefined` and `null`. */
  readonly isDemanded: boolean;
  /** Whether `@Transform()` makes the value that is sent. */
  readonly isTransformed: boolean;
}

/**
 * Returns the JSON Schema of a property, from its rules and the type that TypeScript emits.
 *
 * A result has what the rules let pass: clients check it by the listed schema after the tool has run. So there a keyword is left out
 * where its rule takes more. For arguments the narrower form is advice.
 */
export function jsonOfRules(property: ClassProperty, use: SchemaUse): JsonSchema {
  if (use === 'input') return jsonOfValue(property, use);
  // The rules do not hold where a condition says so, and do not hold for what @Transform() makes of the value.
  if (property.isTransformed || property.rules.some(isCondition)) return {};
  const rules = property.rules.filter(({ validateIf }) => !validateIf);
  const json = jsonOfValue({ ...property, rules }, use);
  const isNullable = rules.some(({ type }) => type === CONDITIONAL) || !(property.isDemanded || property.nested);
  return isNullable && Object.keys(json).length > 0 ? { anyOf: [json, { type: 'null' }] } : json;
}

/** Rules of class-validator that take `undefined` and `null`. */
const TAKING_NOTHING = ['isOptional', 'isEmpty', 'notEquals', 'isNotIn'];

/**
 * Returns whether a rule refuses `undefined` and `null`. A rule of the app may take them.
 *
 * @param names the names of the rules of class-validator
 */
export function refusesNothing(
  { name = '', constraints, validateIf }: ValidationRule,
  names: ReadonlySet<unknown>,
): boolean {
  if (!names.has(name) || validateIf || TAKING_NOTHING.includes(name)) return false;
  const values = name === 'equals' || name === 'isIn' ? [(constraints as unknown[])[0]].flat() : [];
  return values.every((value) => value !== undefined && value !== null);
}

function isCondition({ type, name }: ValidationRule): boolean {
  return type === CONDITIONAL && name !== 'isOptional';
}

function jsonOfValue({ designType, rules, nested }: ClassProperty, use: SchemaUse): JsonSchema {
  const keywords = (each: boolean): JsonSchema =>
    Object.assign(
      {},
      ...rules.filter((rule) => !rule.each !== each).map((rule) => keywordsOf(rule, use)),
    ) as JsonSchema;
  const ofItem = keywords(true);
  const whole: JsonSchema = { ...DESIGN_TYPES.get(designType), ...keywords(false) };
  const items = itemsOf(ofItem, nested, use);
  if (designType === Map) return { type: 'object', additionalProperties: items };
  const list: JsonSchema = {
    type: 'array',
    ...(use === 'input' && isUnique(rules, ofItem) && { uniqueItems: true }),
    ...(Object.keys(items).length > 0 && { items }),
  };
  if (whole.type === 'array') return { ...whole, ...list };
  const one: JsonSchema = { ...whole, ...ofItem, ...nested };
  // class-validator applies a rule with `each` to the items of a list, and to a value that is none.
  const isOpen = designType === undefined || designType === Object;
  const mayBeList = rules.some(({ each }) => each) || (use === 'output' && isOpen && nested !== undefined);
  if (!mayBeList) return one;
  return Object.keys(one).length > 0 ? { anyOf: [one, list] } : {};
}

/** Returns whether no two items are equal: `@ArrayUnique()` takes equal objects and dates. */
function isUnique(rules: readonly ValidationRule[], { type }: JsonSchema): boolean {
  const names = rules.map(({ name }) => name);
  const isPlain = ['string', 'number', 'integer', 'boolean'].includes(type as string) && !names.includes('isDate');
  return isPlain && names.includes('arrayUnique');
}

/**
 * Returns the schema of the items of a list. Nested objects may stand in lists of lists: TypeScript emits the same for both, so that
 * only `@IsArray({ each: true })` tells them apart.
 */
function itemsOf(ofItem: JsonSchema, nested: JsonSchema | undefined, use: SchemaUse): JsonSchema {
  if (!nested) return ofItem;
  if (ofItem.type === 'array') return { ...ofItem, items: itemsOf({}, nested, use) };
  const item = { ...ofItem, ...nested };
  return use === 'output' ? { anyOf: [item, { type: 'array', items: {} }] } : item;
}

/** Converts a rule of class-validator to keywords of JSON Schema, by the arguments of the decorator. */
type Keywords = (constraints: readonly unknown[], use: SchemaUse) => JsonSchema;

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
  // JSON has null for NaN and Infinity.
  isNumber: ([options], use) => {
    const { allowNaN, allowInfinity } = (options ?? {}) as IsNumberOptions;
    return { type: use === 'output' && (allowNaN || allowInfinity) ? ['number', 'null'] : 'number' };
  },
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
  isDivisibleBy: ([divisor]) => {
    // validator.js reads the divisor as an integer.
    const multipleOf = Math.abs(Number.parseInt(String(divisor), 10));
    return multipleOf > 0 ? { multipleOf } : {};
  },
  minLength: ([minLength]) => ({ minLength }),
  maxLength: ([maxLength]) => ({ maxLength }),
  isLength: ([minLength, maxLength]) => ({ minLength, ...(maxLength !== undefined && { maxLength }) }),
  matches: ([pattern]) => (pattern instanceof RegExp && pattern.flags === '' ? { pattern: pattern.source } : {}),
  arrayMinSize: ([minItems]) => ({ type: 'array', minItems }),
  arrayMaxSize: ([maxItems]) => ({ type: 'array', maxItems }),
  arrayNotEmpty: always({ type: 'array', minItems: 1 }),
  arrayUnique: always({ type: 'array' }),
  arrayContains: always({ type: 'array' }),
  arrayNotContains: always({ type: 'array' }),
};

/** Here class-validator takes more than JSON Schema: a date without a time, a pattern without the flag `u`, a character with its selector. */
const NARROWER = ['format', 'pattern', 'maxLength', 'minProperties'];

/** Returns the keywords of one rule; none for a rule that JSON Schema cannot express. */
function keywordsOf({ name = '', constraints }: ValidationRule, use: SchemaUse): JsonSchema {
  if (!Object.hasOwn(KEYWORDS, name)) return {};
  const keywords = KEYWORDS[name]!((constraints ?? []) as unknown[], use);
  if (use === 'input' || name === 'isDate') return keywords;
  return Object.fromEntries(Object.entries(keywords).filter(([keyword]) => !NARROWER.includes(keyword)));
}

/** Maps the types that TypeScript emits for properties to JSON Schema. */
const DESIGN_TYPES = new Map<unknown, JsonSchema>([
  [String, { type: 'string' }],
  [Number, { type: 'number' }],
  [Boolean, { type: 'boolean' }],
  [Date, { type: 'string', format: 'date-time' }],
  [Array, { type: 'array' }],
  [Set, { type: 'array' }],
]);
