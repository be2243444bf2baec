import { isObject } from './json-rpc.js';

export type SchemaNode = Readonly<Record<string, unknown>>;

/** These keywords have a schema, a list of schemas, or schemas by name. */
const ONE = ['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'];
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems'];
const BY_NAME = ['properties', 'patternProperties', 'dependentSchemas'];
/** Definitions have no effect where they stand. */
const DEFINITIONS = ['$defs', 'definitions'];

/**
 * Iterates a schema and all schemas in it; without recursion, so that no depth is too much.
 *
 * @yields each schema with its path, such as `filter.status` and `tags[]`
 */
export function* schemasIn(root: unknown): Generator<{ schema: SchemaNode; path: string }> {
  const waiting: [schema: unknown, path: string][] = [[root, '']];
  while (waiting.length > 0) {
    const [schema, path] = waiting.pop()!;
    if (!isObject(schema)) continue;
    yield { schema, path };
    for (const child of childrenOf(schema, path, [...BY_NAME, ...DEFINITIONS])) waiting.push(child);
  }
}

function* childrenOf(
  schema: SchemaNode,
  path: string,
  named: readonly string[],
): Generator<[schema: unknown, path: string]> {
  for (const [keyword, value] of Object.entries(schema)) {
    if (ONE.includes(keyword)) yield [value, keyword === 'items' ? `${path}[]` : path];
    else if (LISTS.includes(keyword) && Array.isArray(value)) for (const each of value) yield [each, path];
    else if (named.includes(keyword) && isObject(value)) {
      for (const [name, each] of Object.entries(value)) yield [each, path === '' ? name : `${path}.${name}`];
    }
  }
}

/** Returns the names of the properties that a schema declares, also in its alternatives. */
export function propertiesOf(root: SchemaNode): ReadonlySet<string> {
  const ofRoot = [...schemasIn(root)].filter(({ path }) => path === '');
  return new Set(
    ofRoot.flatMap(({ schema }) => (isObject(schema['properties']) ? Object.keys(schema['properties']) : [])),
  );
}

/** Returns whether a schema names a type, alone or among others. */
export function hasType({ type }: SchemaNode, name: string): boolean {
  return type === name || (Array.isArray(type) && type.includes(name));
}

/** Returns what a reference such as `#/$defs/Order` names in a schema; `undefined`: nothing, or it is in another document. */
export function resolveRef(root: unknown, ref: string): unknown {
  if (ref !== '#' && !ref.startsWith('#/')) return undefined;
  let found = root;
  for (const part of ref.split('/').slice(1)) {
    const name = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Record<string, unknown>)[name];
  }
  return found;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns a reference of a schema that leads back to itself; `undefined`: there is none. */
export function cyclicRef(root: unknown): string | undefined {
  const ended = new Set<object>();
  const open = new Set<object>();
  const waiting: { schema: unknown; ref?: string; leave?: true }[] = [{ schema: root }];
  while (waiting.length > 0) {
    const { schema, ref, leave } = waiting.pop()!;
    if (!isObject(schema)) continue;
    if (leave) {
      open.delete(schema);
      ended.add(schema);
      continue;
    }
    if (open.has(schema)) return ref ?? '#';
    if (ended.has(schema)) continue;
    open.add(schema);
    waiting.push({ schema, leave: true });
    for (const [child] of childrenOf(schema, '', BY_NAME)) waiting.push({ schema: child });
    const { $ref } = schema;
    if (typeof $ref === 'string') waiting.push({ schema: resolveRef(root, $ref), ref: $ref });
  }
  return undefined;
}
