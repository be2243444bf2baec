/* JSON Schema, as the page shows it and makes forms of it. */

export type Schema = Readonly<Record<string, unknown>>;

/** A schema that describes one value. */
export interface SchemaNode {
  /** The name of the property; absent for the root, entries of an array, and alternatives. */
  readonly name?: string;
  readonly schema: Schema;
  /** Such as `string`, `integer[]`, `"asc" | "desc"`. */
  readonly type: string;
  readonly required: boolean;
  readonly description: string;
  /** Such as `at least 1`, `default 10`, `format date-time`. */
  readonly notes: readonly string[];
  readonly children: readonly SchemaNode[];
}

/** Deeper schemas are not followed. */
const DEEPEST = 8;
/** A tree has at most so many nodes. */
const MOST_NODES = 1_000;
/** The text of a type follows alternatives and entries so deep. */
const DEEPEST_TYPE = 3;
const MOST_VALUES = 12;

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Follows a reference within its document, and merges what stands beside it. */
export function resolved(schema: unknown, root: Schema): Schema {
  if (!isSchema(schema)) return {};
  const seen = new Set<unknown>();
  let found = schema;
  for (let { $ref } = found; typeof $ref === 'string'; { $ref } = found) {
    const target = $ref === '#' || $ref.startsWith('#/') ? referred($ref, root) : undefined;
    if (!isSchema(target) || seen.has(target)) break;
    seen.add(target);
    const { $ref: _, ...beside } = found;
    found = { ...target, ...beside };
  }
  return found;
}

function referred(ref: string, root: Schema): unknown {
  let found: unknown = root;
  for (const step of ref.slice(1).split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    found = isSchema(found) && Object.hasOwn(found, key) ? found[key] : undefined;
  }
  return found;
}

/** Makes the tree of a schema. */
export function treeOf(root: Schema): SchemaNode {
  return nodeOf(root, { root, within: [], left: { nodes: MOST_NODES } }, { required: true, depth: 0 });
}

/** Where a schema stands. */
interface Ways {
  readonly root: Schema;
  /** The references that lead here: a schema that contains itself is shown once. */
  readonly within: readonly string[];
  readonly left: { nodes: number };
}

interface Place {
  readonly name?: string;
  readonly required: boolean;
  readonly depth: number;
}

function nodeOf(given: unknown, ways: Ways, { name, required, depth }: Place): SchemaNode {
  const { root, left } = ways;
  const schema = resolved(given, root);
  left.nodes--;
  const followed = depth < DEEPEST && left.nodes > 0 && !repeats(given, ways.within);
  const { description, title } = schema;
  const about = typeof description === 'string' ? description : typeof title === 'string' ? title : '';
  return {
    ...(name !== undefined && { name }),
    schema,
    type: typeOf(schema, root),
    required,
    description: about,
    notes: notesOf(schema),
    children: followed ? childrenOf(schema, { ...ways, within: within(given, ways.within) }, depth + 1) : [],
  };
}

/** Returns whether a schema refers to one that it is part of. */
export function repeats(schema: unknown, refs: readonly string[]): boolean {
  const ref = isSchema(schema) ? schema['$ref'] : undefined;
  return typeof ref === 'string' && (refs.includes(ref) || ref === '#');
}

/** Returns the references that lead to the parts of a schema. */
export function within(schema: unknown, refs: readonly string[]): readonly string[] {
  const ref = isSchema(schema) ? schema['$ref'] : undefined;
  return typeof ref === 'string' ? [...refs, ref] : refs;
}

function childrenOf(schema: Schema, ways: Ways, depth: number): SchemaNode[] {
  const { properties, items, additionalProperties } = schema;
  const needed = list(schema['required']);
  const own = isSchema(properties)
    ? Object.entries(properties).map(([name, each]) =>
        nodeOf(each, ways, { name, required: needed.includes(name), depth }),
      )
    : [];
  const others = isSchema(additionalProperties) && Object.keys(additionalProperties).length > 0;
  if (others) own.push(nodeOf(additionalProperties, ways, { name: '[any name]', required: false, depth }));
  const entries = isSchema(items) ? nodeOf(items, ways, { required: true, depth }).children : [];
  const { anyOf, oneOf } = schema;
  const alternatives = [...list(anyOf), ...list(oneOf)].map((each) => nodeOf(each, ways, { required: true, depth }));
  return [...own, ...entries, ...alternatives.filter(({ children }) => children.length > 0)];
}

/** Returns the schemas of which a value has to fit one; none where that is a choice of constants. */
export function alternativesOf({ anyOf, oneOf }: Schema, root: Schema): Schema[] {
  return [...list(anyOf), ...list(oneOf)].map((each) => resolved(each, root));
}

/** Returns the values to choose from; `undefined` if others are possible. */
export function choicesOf(schema: Schema, root: Schema): readonly unknown[] | undefined {
  if (Array.isArray(schema['enum'])) return schema['enum'] as unknown[];
  if ('const' in schema) return [schema['const']];
  const alternatives = alternativesOf(schema, root);
  if (alternatives.length === 0 || !alternatives.every((each) => 'const' in each)) return undefined;
  return alternatives.map((each) => each['const']);
}

export function typeOf(schema: Schema, root: Schema, depth = 0): string {
  const choices = choicesOf(schema, root);
  if (choices) return choicesText(choices);
  const { type } = schema;
  if (Array.isArray(type)) return type.join(' | ');
  if (type === 'array') {
    const entry = depth >= DEEPEST_TYPE ? 'any' : typeOf(resolved(schema['items'], root), root, depth + 1);
    return entry.includes(' ') ? `(${entry})[]` : `${entry}[]`;
  }
  if (typeof type === 'string') return type;
  if (isSchema(schema['properties'])) return 'object';
  const alternatives = depth >= DEEPEST_TYPE ? [] : alternativesOf(schema, root);
  return alternatives.length > 0
    ? [...new Set(alternatives.map((each) => typeOf(each, root, depth + 1)))].join(' | ')
    : 'any';
}

function choicesText(choices: readonly unknown[]): string {
  const texts = choices.slice(0, MOST_VALUES).map((each) => JSON.stringify(each));
  const more = choices.length - texts.length;
  return texts.join(' | ') + (more > 0 ? ` and ${more} more` : '');
}

const WORDS: Readonly<Record<string, string>> = {
  format: 'format',
  minimum: 'at least',
  exclusiveMinimum: 'more than',
  maximum: 'at most',
  exclusiveMaximum: 'less than',
  multipleOf: 'multiple of',
  minLength: 'characters, at least',
  maxLength: 'characters, at most',
  pattern: 'pattern',
  minItems: 'entries, at least',
  maxItems: 'entries, at most',
};

function notesOf(schema: Schema): string[] {
  const notes = Object.entries(WORDS).flatMap(([key, word]) =>
    // The bounds of safe integers are no advice.
    key in schema &&
    !(key === 'pattern' && 'format' in schema) &&
    Math.abs(Number(schema[key])) !== Number.MAX_SAFE_INTEGER
      ? [`${word} ${String(schema[key])}`]
      : [],
  );
  if ('default' in schema) notes.push(`default ${JSON.stringify(schema['default'])}`);
  if (schema['uniqueItems'] === true) notes.push('no entry twice');
  if (schema['x-mcp-sensitive'] === true) notes.push('sensitive');
  return notes;
}
