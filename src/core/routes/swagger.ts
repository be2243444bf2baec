import type { Type } from '@nestjs/common';
import { isObject } from '../protocol/json-rpc.js';
import { ClassDefinitions } from '../handlers/schema/class-definitions.js';
import type { JsonSchema } from '../handlers/schema/handler-schema.js';
import type { RoutePlace } from './route-values.js';

/**
 * `@nestjs/swagger` stores its options on methods and classes. They are read by their keys, so that the package is no
 * dependency; a test compares them with those of the package.
 */
const SWAGGER = {
  operation: 'swagger/apiOperation',
  parameters: 'swagger/apiParameters',
  response: 'swagger/apiResponse',
  property: 'swagger/apiModelProperties',
  properties: 'swagger/apiModelPropertiesArray',
} as const;

/** The texts of `@ApiOperation()`. */
export interface OperationTexts {
  readonly summary?: string | undefined;
  readonly description?: string | undefined;
}

export function operationOf(method: object): OperationTexts {
  const { summary, description } = (Reflect.getMetadata(SWAGGER.operation, method) ?? {}) as OperationTexts;
  // Its default is an empty text.
  return { summary: summary === '' ? undefined : summary, description: description === '' ? undefined : description };
}

const PLACES = { params: 'path', query: 'query', body: 'body' } as const;

/** Returns what `@ApiParam()` and `@ApiQuery()` of a method or its class declare for a parameter. */
export function parameterDocs(holders: readonly object[], { part, field }: RoutePlace): JsonSchema {
  const all = holders.flatMap((holder) => (Reflect.getMetadata(SWAGGER.parameters, holder) ?? []) as ApiParameter[]);
  const found = all.find((each) => each.in === PLACES[part] && each.name === field);
  if (!found) return {};
  const { description, example, schema } = found;
  return {
    ...(isObject(schema) && !refers(schema) && schema),
    ...(typeof description === 'string' && { description }),
    ...(example !== undefined && { examples: [example] }),
  };
}

interface ApiParameter {
  readonly in?: string;
  readonly name?: unknown;
  readonly description?: unknown;
  readonly example?: unknown;
  readonly schema?: unknown;
}

/** Returns whether a schema is in parts that only the document of the app has: `getSchemaPath()`. */
function refers(schema: unknown): boolean {
  return JSON.stringify(schema)?.includes('"$ref"') ?? false;
}

/**
 * Returns the class that `@ApiOkResponse()` or `@ApiCreatedResponse()` names, or that of any answer that is a success.
 */
export function responseTypeOf(method: object): { readonly type: unknown; readonly isArray: boolean } | undefined {
  const responses = (Reflect.getMetadata(SWAGGER.response, method) ?? {}) as Record<string, ApiResponse>;
  const found = Object.entries(responses).find(([status, { type }]) => /^(?:2..|default)$/.test(status) && type);
  return found && { type: found[1].type, isArray: found[1].isArray === true };
}

interface ApiResponse {
  readonly type?: unknown;
  readonly isArray?: boolean;
}

/**
 * Returns the JSON Schema of a class whose properties have `@ApiProperty()`.
 *
 * @returns nothing for a class without such properties
 */
export function jsonOfApiClass(type: Type, definitions = new ClassDefinitions()): JsonSchema | undefined {
  const prototype = type.prototype as object;
  const names = ((Reflect.getMetadata(SWAGGER.properties, prototype) ?? []) as string[]).map((name) => name.slice(1));
  if (names.length === 0) return undefined;
  return definitions.of(type, () => jsonOfApiProperties(prototype, names, definitions));
}

function jsonOfApiProperties(prototype: object, names: readonly string[], definitions: ClassDefinitions): JsonSchema {
  const all = names.map(
    (name) => [name, Reflect.getMetadata(SWAGGER.property, prototype, name) as ApiProperty] as const,
  );
  const required = all.filter(([, api]) => api.required !== false).map(([name]) => name);
  const properties = all.map(([name, api]) => {
    return [name, propertyOf(api, Reflect.getMetadata('design:type', prototype, name), definitions)] as const;
  });
  return { type: 'object', properties: Object.fromEntries(properties), ...(required.length > 0 && { required }) };
}

interface ApiProperty extends Readonly<Record<string, unknown>> {
  readonly type?: unknown;
  readonly isArray?: unknown;
  readonly required?: unknown;
  readonly nullable?: unknown;
}

/** JSON Schema has these options of a property too. */
const KEYWORDS = ['description', 'enum', 'items', 'format', 'minimum', 'maximum', 'pattern', 'additionalProperties'];
const PRIMITIVES = new Map<unknown, JsonSchema>([
  [String, { type: 'string' }],
  [Number, { type: 'number' }],
  [Boolean, { type: 'boolean' }],
  [Date, { type: 'string', format: 'date-time' }],
]);

function propertyOf(api: ApiProperty, design: unknown, definitions: ClassDefinitions): JsonSchema {
  const lists = api.isArray === true || Array.isArray(api.type);
  let given: unknown = Array.isArray(api.type) ? (api.type as unknown[])[0] : (api.type ?? design);
  // The type is `() => Class`, or `() => [Class]`.
  if (typeof given === 'function' && given.name === 'type') given = (given as () => unknown)();
  const many = lists || Array.isArray(given);
  if (Array.isArray(given)) [given] = given as unknown[];
  const documentation = Object.fromEntries(
    KEYWORDS.filter((key) => api[key] !== undefined && !refers(api[key])).map((key) => [key, api[key]]),
  );
  const { description, ...rules } = documentation;
  const one: JsonSchema = { ...typeOf(given, definitions), ...rules };
  const json = many && one['type'] !== 'array' ? { type: 'array', items: one } : one;
  const texts = description === undefined ? {} : { description };
  return api.nullable === true ? { anyOf: [json, { type: 'null' }], ...texts } : { ...json, ...texts };
}

/** Other types exist in the document only: `file`. */
const JSON_TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];

function typeOf(given: unknown, definitions: ClassDefinitions): JsonSchema {
  if (typeof given === 'string') return JSON_TYPES.includes(given) ? { type: given } : {};
  const primitive = PRIMITIVES.get(given);
  if (primitive) return primitive;
  return (typeof given === 'function' ? jsonOfApiClass(given as Type, definitions) : undefined) ?? {};
}
