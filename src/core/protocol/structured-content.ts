import { isObject } from './json-rpc.js';
import { mapSchemas } from './json-schema.js';
import { resolveRef, type SchemaNode } from './schema-walk.js';

/*
 * # Structured content of any type
 *
 * Since revision 2026-07-28 structured content is any JSON. A client of 2025 takes objects alone, so it gets
 * `{ result: … }` in place of other values, and an output schema that says so, as from the official SDK. What this package
 * stores, and what the app sees, has the form of 2026-07-28: the result of one call may go to clients of both eras.
 */

/** These keywords describe objects. */
const OF_OBJECTS = ['properties', 'patternProperties', 'additionalProperties', 'required'];
const ALTERNATIVES = ['oneOf', 'anyOf', 'allOf'];

/** Adds `type` to a schema without it that describes objects alone, such as a union of objects. */
export function withObjectType(json: SchemaNode): SchemaNode {
  return json['type'] === undefined && describesObjects(json, json) ? { type: 'object', ...json } : json;
}

function describesObjects(schema: SchemaNode, root: SchemaNode): boolean {
  if (OF_OBJECTS.some((keyword) => keyword in schema)) return true;
  const alternatives = ALTERNATIVES.map((keyword) => schema[keyword]).find(Array.isArray) as unknown[] | undefined;
  if (!alternatives || alternatives.length === 0) return false;
  return alternatives.every((given) => {
    if (!isObject(given)) return false;
    const each = typeof given['$ref'] === 'string' ? resolveRef(root, given['$ref']) : given;
    return isObject(each) && (each['type'] === 'object' || (each === given && describesObjects(each, root)));
  });
}

/** Returns whether the values of an output schema are wrapped for clients of 2025, objects too. */
export function isWrapped(json: SchemaNode): boolean {
  return json['type'] !== 'object';
}

/** Returns an output schema as clients of 2025 get it. */
export function wrappedSchema(json: SchemaNode): SchemaNode {
  const { $schema } = json;
  return {
    ...($schema !== undefined && { $schema }),
    type: 'object',
    properties: { result: placedAt('#/properties/result', json) },
    required: ['result'],
  };
}

/**
 * Returns the result of a tool as clients of 2025 get it.
 *
 * @param objectsToo whether the output schema is wrapped
 */
export function wrappedResult(result: object, objectsToo: boolean): object {
  const { structuredContent } = result as { structuredContent?: unknown };
  if (structuredContent === undefined || (isObject(structuredContent) && !objectsToo)) return result;
  return { ...result, structuredContent: { result: structuredContent } };
}

/**
 * Returns a schema whose references lead to the same places when it is a part of another one. A schema with an `$id` is a
 * document of its own, within which references are resolved.
 *
 * @param place where it stands, such as `#/items`
 */
export function placedAt(place: string, json: SchemaNode): SchemaNode {
  const moved = (ref: unknown): unknown => {
    if (typeof ref !== 'string') return ref;
    return ref === '#' || ref.startsWith('#/') ? `${place}${ref.slice(1)}` : ref;
  };
  const change = (schema: SchemaNode): SchemaNode => {
    const refs = ['$ref', '$dynamicRef'].filter((keyword) => keyword in schema);
    return { ...schema, ...Object.fromEntries(refs.map((keyword) => [keyword, moved(schema[keyword])])) };
  };
  return mapSchemas(json, change, isSameDocument) as SchemaNode;
}

/** An `$id` that is a fragment is the name of a place in draft 7. */
function isSameDocument({ $id }: SchemaNode): boolean {
  return typeof $id !== 'string' || $id.startsWith('#');
}
