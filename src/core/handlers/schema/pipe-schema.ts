import {
  DefaultValuePipe,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseDatePipe,
  ParseEnumPipe,
  ParseFloatPipe,
  ParseIntPipe,
  ParseUUIDPipe,
  type Type,
} from '@nestjs/common';
import type { JsonSchema, RequestPart } from './handler-schema.js';

/** Maps the types that TypeScript emits for parameters to JSON Schema. A route takes any text for a date, so no format is listed. */
export const TYPES = new Map<unknown, JsonSchema>([
  [String, { type: 'string' }],
  [Number, { type: 'number' }],
  [Boolean, { type: 'boolean' }],
  [Date, { type: 'string' }],
  [Array, { type: 'array' }],
]);

/** Examples show the usual texts of a date, and refuse no other one. */
const DATES: JsonSchema = { examples: ['2026-01-31', '2026-01-31T12:00:00Z'] };

/** Describes the value of a pipe of Nest. */
export interface PipeSays {
  readonly json: JsonSchema;
  /** Whether the pipe refuses a call without the value. */
  readonly needed: boolean;
  /** The class of the items of a list, which the pipe checks. */
  readonly items?: Type | undefined;
  /** Separates the values of a list that is one text. */
  readonly separator?: string | undefined;
}

const PIPES: readonly (readonly [Type, (pipe: PipeLike, part: RequestPart) => JsonSchema])[] = [
  [ParseIntPipe, () => ({ type: 'integer' })],
  [ParseFloatPipe, () => ({ type: 'number' })],
  [ParseBoolPipe, () => ({ type: 'boolean' })],
  [ParseUUIDPipe, () => ({ type: 'string', format: 'uuid' })],
  [ParseEnumPipe as Type, ({ enumType }) => enumJson(enumType)],
  // The number of milliseconds in a URL is a text, which is no date.
  [ParseDatePipe as Type, (_, part) => ({ type: part === 'body' ? ['string', 'number'] : 'string' })],
  [ParseArrayPipe, ({ options }) => ({ type: 'array', ...itemsOf(options?.items) })],
];

/** Nest's pipes keep their options in these protected members. */
interface PipeLike {
  readonly options?: {
    readonly optional?: boolean;
    readonly default?: unknown;
    readonly items?: unknown;
    readonly separator?: string;
  };
  readonly enumType?: object;
  readonly defaultValue?: unknown;
}

/** Returns examples of a date for a parameter that is one. */
export function dateExamples(type: unknown, pipes: readonly unknown[]): JsonSchema {
  return type === Date || pipes.some((pipe) => isPipe(pipe, ParseDatePipe as Type)) ? DATES : {};
}

/** Describes the values of pipes, in their order: behind a default, nothing is absent. */
export function pipesSay(pipes: readonly unknown[], part: RequestPart): PipeSays[] {
  let defaulted = false;
  return pipes.flatMap((pipe): PipeSays[] => {
    const like = (typeof pipe === 'function' ? {} : pipe) as PipeLike;
    if (isPipe(pipe, DefaultValuePipe as Type)) {
      defaulted = true;
      const { defaultValue } = like;
      const shown = defaultValue instanceof Date ? defaultValue.toISOString() : defaultValue;
      const json = typeof shown === 'function' || shown === undefined ? {} : { default: shown };
      return [{ json, needed: false }];
    }
    const found = PIPES.find(([type]) => isPipe(pipe, type));
    const { optional, default: ofPipe, separator, items } = like.options ?? {};
    const ofItems = typeof items === 'function' && !TYPES.has(items) ? (items as Type) : undefined;
    const needed = !defaulted && optional !== true && ofPipe === undefined;
    return found ? [{ json: found[1](like, part), needed, items: ofItems, separator }] : [];
  });
}

export function isPipe(pipe: unknown, type: Type): boolean {
  return pipe instanceof type || pipe === type;
}

/** Returns the values of an enum of TypeScript, whose numbers also lead back to their names. */
function enumJson(given: object = {}): JsonSchema {
  const names = Object.keys(given).filter(
    (name) => typeof (given as Record<string, unknown>)[Reflect.get(given, name) as string] !== 'number',
  );
  const values = [...new Set(names.map((name) => Reflect.get(given, name) as unknown))];
  const types = new Set(values.map((value) => typeof value));
  return { ...(types.size === 1 && { type: [...types][0] }), enum: values };
}

function itemsOf(items: unknown): { items?: JsonSchema } {
  const json = TYPES.get(items);
  return json ? { items: json } : {};
}

/** TypeScript emits these for types that are not written as classes. */
const NO_CLASSES: readonly unknown[] = [
  Object,
  String,
  Number,
  Boolean,
  Array,
  Function,
  Symbol,
  BigInt,
  Promise,
  Date,
];

export function isClass(type: unknown): boolean {
  return typeof type === 'function' && !NO_CLASSES.includes(type);
}
