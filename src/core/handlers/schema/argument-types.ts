import { isObject } from '../../protocol/json-rpc.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import type { ArgumentParam, JsonSchema, McpHandlerSchema } from './handler-schema.js';
import { TYPES } from './pipe-schema.js';
import { standardOf } from './schema-compiler.js';

/*
 * # The types of parameters that take one argument
 *
 * TypeScript cannot compare them with the schema: `@McpArgs('id') id` sees the type of the parameter and not the schema, `@Tool()`
 * sees the schema and the types of all parameters, but neither which of them is `id` nor its pipes. So the start compares what
 * TypeScript emits for the parameter with what the schema makes of the argument.
 */

/** Returns what is known of each argument that a handler gets, by its name. */
export type ArgumentJson = (name: string) => JsonSchema | undefined;

/** Returns what a schema makes of arguments. It says nothing of those that have no JSON Schema, such as a `Date`. */
export function argumentsMadeBy(schema: McpHandlerSchema): ArgumentJson {
  const standard = standardOf(schema)?.['~standard'];
  if (!standard && typeof schema === 'function') {
    return (name) => TYPES.get(Reflect.getMetadata('design:type', schema.prototype as object, name));
  }
  return argumentsOfJson(standard ? outputOf(standard) : (schema as JsonSchema));
}

/** Returns the arguments of a JSON Schema. */
export function argumentsOfJson({ properties }: JsonSchema): ArgumentJson {
  return (name) => {
    const property: unknown = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
    return isObject(property) ? property : undefined;
  };
}

type Standard = NonNullable<ReturnType<typeof standardOf>>['~standard'];

function outputOf({ jsonSchema }: Standard): JsonSchema {
  try {
    return jsonSchema.output({ target: 'draft-2020-12' });
  } catch {
    return {};
  }
}

/**
 * Checks the parameters that take one argument each.
 *
 * @param isConverted says whether a pipe may change the argument
 * @throws McpHandlerDefinitionError for a parameter that gets no value of its type, whatever the client sends
 */
export function assertTypes(
  params: readonly ArgumentParam[],
  argument: ArgumentJson,
  isConverted: (param: ArgumentParam) => boolean,
  origin: string,
): void {
  for (const param of params) {
    const { index, field, type } = param;
    // The value of a Date depends on more than its JSON Schema.
    if (field === undefined || type === Date) continue;
    const expected = TYPES.get(type)?.['type'];
    const types = typesOf(argument(field));
    if (expected === undefined || types.length === 0 || types.includes(expected) || isConverted(param)) continue;
    const reason = `its parameter ${index} (counted from 0) is the argument "${field}", and has the type ${(type as typeof Number).name}, while the method gets: ${types.join(', ')}. Change the type or the schema, or convert the argument with a pipe, such as @McpArgs('${field}', ParseIntPipe).`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
}

/** Returns the types that a JSON Schema names, as TypeScript knows them. */
function typesOf({ type }: JsonSchema = {}): unknown[] {
  return type === undefined ? [] : [type].flat().map((each) => (each === 'integer' ? 'number' : each));
}
