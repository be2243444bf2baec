import { isObject } from '../../protocol/json-rpc.js';
import { mapSchemas } from '../../protocol/json-schema.js';
import type { JsonSchema, SchemaUse } from './handler-schema.js';
import { hasType, resolveRef, type SchemaNode } from '../../protocol/schema-walk.js';

/** The default dialect of the protocol; Ajv with its defaults refuses a schema that names it. */
const DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/** The keywords that may stand beside a reference, because they do not restrict the value. */
const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$comment'];
/** An empty list of these is no schema of any dialect; a value has no alternative to match. */
const ALTERNATIVES = ['enum', 'anyOf', 'oneOf'];
/** A reference may lead to another one; a longer chain is taken for a cycle. */
const MAX_HOPS = 50;

/** What is listed of a schema. */
interface ListedAs {
  readonly use: SchemaUse;
  /** Whether the developer has written the JSON Schema; otherwise a library or this package has made it. */
  readonly written: boolean;
}

/**
 * Returns a JSON Schema as lists show it. Clients of 2025 read schemas with the keywords of draft 7, and lose a tool or the whole
 * list by some of draft 2020-12. The listed schema accepts the same values, or more where the older draft has no word for it; the
 * check of values uses the original.
 *
 * @see the rule D38 of docs/protocol-rules.md
 */
export function listedSchema(json: JsonSchema, { use, written }: ListedAs): JsonSchema {
  const whole = withoutRootRef(json);
  const { $schema, ...others } = whole;
  const root = $schema === DIALECT && !written ? others : whole;
  return mapSchemas(root, (schema) => {
    const readable = withReadableItems(withoutEmptyLists(withoutOldPattern(withObjectProperties(schema))), use);
    return written || !hasType(readable, 'array') || 'items' in readable ? readable : { ...readable, items: {} };
  }) as JsonSchema;
}

/** Returns a schema without a reference at its root: clients look for `type` and `properties` there. */
function withoutRootRef(json: JsonSchema): JsonSchema {
  const inlined = withoutRef(json, json);
  const { $defs, ...root } = inlined;
  if (inlined === json || !isObject($defs)) return inlined;
  if (JSON.stringify([root, $defs]).includes(JSON.stringify(json.$ref))) return inlined;
  const others = Object.entries($defs).filter(([name]) => json.$ref !== `#/$defs/${name}`);
  return others.length > 0 ? { ...root, $defs: Object.fromEntries(others) } : root;
}

/** Returns the schema of a form without references: its properties are flat, and neither the SDK nor clients follow one. */
export function flatSchema(json: JsonSchema): JsonSchema {
  const whole = withoutRootRef(json);
  const { $defs, ...root } = whole;
  if (!isObject($defs)) return whole;
  const properties = Object.entries((root.properties ?? {}) as SchemaNode);
  const flat = properties.map(([name, each]) => [name, isObject(each) ? withoutRef(each, json) : each]);
  const form = { ...root, properties: Object.fromEntries(flat) as SchemaNode };
  return JSON.stringify(form).includes('"$ref"') ? { ...form, $defs } : form;
}

/**
 * Returns what a schema refers to in place of the reference, with the texts beside it. A reference with other keywords beside it
 * stays, and so does one that leads nowhere.
 *
 * @param root resolves the reference
 */
function withoutRef(schema: JsonSchema, root: JsonSchema, hops = MAX_HOPS): JsonSchema {
  const { $ref, ...beside } = schema;
  if (typeof $ref !== 'string' || hops === 0) return schema;
  const target = resolveRef(root, $ref);
  if (!isObject(target)) return schema;
  const resolved = withoutRef(target, root, hops - 1);
  const isPlain = Object.entries(beside).every(
    ([keyword, value]) =>
      [...ANNOTATIONS, '$defs', '$schema'].includes(keyword) ||
      JSON.stringify(value) === JSON.stringify(resolved[keyword]),
  );
  return isPlain ? { ...resolved, ...beside } : schema;
}

/** Writes `true` and `false` in `properties` as objects: clients of 2025 lose the whole list by one that is not. */
function withObjectProperties(schema: SchemaNode): SchemaNode {
  const { properties } = schema;
  if (!isObject(properties) || !Object.values(properties).some((each) => typeof each === 'boolean')) return schema;
  const objects = Object.entries(properties).map(([name, each]): [string, unknown] => {
    if (typeof each !== 'boolean') return [name, each];
    return [name, each ? {} : { not: {} }];
  });
  return { ...schema, properties: Object.fromEntries(objects) };
}

/** Leaves out a pattern that JSON Schema does not have, such as `[\w-.]`: clients of 2025 lose the whole list by one. */
function withoutOldPattern(schema: SchemaNode): SchemaNode {
  const { pattern, ...others } = schema;
  return typeof pattern !== 'string' || isUnicodePattern(pattern) ? schema : others;
}

/** Returns whether clients can compile a pattern: Ajv takes patterns as JSON Schema defines them, with the flag `u`. */
function isUnicodePattern(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}

/** Writes a list without alternatives, which accepts nothing, as such. */
function withoutEmptyLists(schema: SchemaNode): SchemaNode {
  const isEmpty = (keyword: string): boolean => Array.isArray(schema[keyword]) && schema[keyword].length === 0;
  const empty = [...ALTERNATIVES, 'allOf', 'prefixItems'].filter(isEmpty);
  if (empty.length === 0) return schema;
  const rest = Object.entries(schema).filter(([keyword]) => !empty.includes(keyword));
  return { ...Object.fromEntries(rest), ...(empty.some((each) => ALTERNATIVES.includes(each)) && { not: {} }) };
}

/** Writes the end of a tuple as `maxItems`: draft 7 reads `items` as the schema of all items, and does not know `prefixItems`. */
function withReadableItems(schema: SchemaNode, use: SchemaUse): SchemaNode {
  const { items, prefixItems, maxItems = Infinity } = schema;
  if (items === false) {
    const length = Array.isArray(prefixItems) ? prefixItems.length : 0;
    return { ...schema, items: {}, maxItems: Math.min(length, maxItems as number) };
  }
  return Array.isArray(prefixItems) && use === 'output' && items !== undefined ? { ...schema, items: {} } : schema;
}
