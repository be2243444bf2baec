import { isObject } from './json-rpc.js';
import { shown } from './errors.js';

/** A property whose JSON Schema has this member is mirrored into a header. */
const ANNOTATION = 'x-mcp-header';

/** An argument of a tool that clients mirror into a header, so that proxies can route by it. @internal */
export interface ParamHeader {
  /** The names of the properties that lead to the argument; at least one. */
  readonly path: readonly string[];
  /** The name in the schema: `Region` for the header `Mcp-Param-Region`. */
  readonly headerName: string;
  readonly type: (typeof TYPES)[number];
}

/** The headers that the schema of a tool declares, or the fault of the declaration. @internal */
export type ParamHeaders = { readonly headers: readonly ParamHeader[] } | { readonly fault: string };

const TYPES = ['string', 'integer', 'boolean'] as const;
/** Matches the name of a header (RFC 9110 §5.6.2, `tchar`). */
const TOKEN = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/;
/** Most tools mirror no argument, and share this list. */
const NONE: readonly ParamHeader[] = Object.freeze([]);

/**
 * Finds the arguments of a tool that are mirrored into headers (2026-07-28, Streamable HTTP, "Schema Extension").
 *
 * Clients leave out a tool with one annotation that breaks the rules, so a fault is a fault of the tool.
 *
 * @param inputSchema JSON: without cycles
 * @returns the headers in the order of the properties, frozen; or the first fault, as a sentence
 * @internal
 */
export function paramHeadersOf(inputSchema: unknown): ParamHeaders {
  const headers: ParamHeader[] = [];
  const owners = new Map<string, string>();
  for (const { place, schema } of annotatedIn(inputSchema)) {
    const header = read(place, schema);
    if (typeof header === 'string') return { fault: header };
    // Header names do not distinguish upper and lower case (RFC 9110 §5.1).
    const key = header.headerName.toLowerCase();
    const owner = owners.get(key);
    const name = pathOf(place).join('.');
    if (owner !== undefined) {
      const fault = `the "x-mcp-header" of ${shownPath(name)} is ${shown(header.headerName)}, and so is that of ${shownPath(owner)}; upper and lower case make no difference. Rename one.`;
      return { fault };
    }
    owners.set(key, name);
    headers.push(header);
  }
  return { headers: headers.length === 0 ? NONE : Object.freeze(headers) };
}

/** @returns the header, or the text of its fault */
function read(place: Place, { type, [ANNOTATION]: headerName }: JsonObject): ParamHeader | string {
  const path = pathOf(place);
  const at = path.join('.');
  if (!place.reachable || path.length === 0)
    return `"x-mcp-header" stands at ${shownPath(at)}, but it belongs to a property that is reached through "properties" alone: not to the root, and to nothing in arrays, alternatives, conditions or definitions ("$ref").`;
  if (typeof headerName !== 'string' || headerName === '')
    return `the "x-mcp-header" of ${shownPath(at)} must be a non-empty string, such as "Region"; got ${shown(headerName)}.`;
  if (!TOKEN.test(headerName))
    return `the "x-mcp-header" of ${shownPath(at)} is ${shown(headerName)}, which cannot be part of the name of a header. Use letters, digits and hyphens.`;
  const known = TYPES.find((each) => each === type);
  if (known) return Object.freeze({ path: Object.freeze(path), headerName, type: known });
  return `${shownPath(at)} has an "x-mcp-header", so its "type" must be "string", "integer" or "boolean"; got ${shown(type)}. Make it optional instead of nullable.`;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** The place of a schema in another. It is a chain, since a path for each would be quadratic in the depth. */
interface Place {
  readonly parent: Place | undefined;
  readonly name: string;
  /** Says that `properties` alone lead there, so that an instance has at most one value there. */
  readonly reachable: boolean;
}

const ROOT: Place = { parent: undefined, name: '', reachable: true };

/** The keywords of any draft that hold a schema or an array of schemas. */
const SUBSCHEMAS: ReadonlySet<string> = new Set([
  'items',
  'prefixItems',
  'additionalItems',
  'unevaluatedItems',
  'contains',
  'propertyNames',
  'additionalProperties',
  'unevaluatedProperties',
  'contentSchema',
  'oneOf',
  'anyOf',
  'allOf',
  'not',
  'if',
  'then',
  'else',
]);
/** The keywords that hold an object of schemas. The targets of `$ref` are among them. */
const NAMED_SUBSCHEMAS: ReadonlySet<string> = new Set([
  'patternProperties',
  'dependentSchemas',
  'dependencies',
  '$defs',
  'definitions',
]);

/**
 * Yields every schema with an annotation, wherever it stands.
 *
 * Uses a list instead of recursion, because a client reads schemas of untrusted servers.
 */
function* annotatedIn(root: unknown): Generator<{ place: Place; schema: JsonObject }> {
  const pending: [Place, unknown][] = [[ROOT, root]];
  while (pending.length > 0) {
    const [place, schema] = pending.pop()!;
    if (!isObject(schema)) continue;
    if (Object.hasOwn(schema, ANNOTATION)) yield { place, schema };
    // The list is taken from its end.
    for (const child of childrenOf(place, schema).toReversed()) pending.push(child);
  }
}

function childrenOf(parent: Place, schema: JsonObject): [Place, unknown][] {
  const at = (name: string, reachable = false): Place => ({ parent, name, reachable });
  return Object.entries(schema).flatMap(([keyword, value]): [Place, unknown][] => {
    if (keyword === 'properties') return membersOf(value).map(([name, child]) => [at(name, parent.reachable), child]);
    if (SUBSCHEMAS.has(keyword)) return [value].flat().map((child) => [at(keyword), child]);
    if (!NAMED_SUBSCHEMAS.has(keyword)) return [];
    return membersOf(value).map(([name, child]) => [at(`${keyword}/${name}`), child]);
  });
}

function membersOf(value: unknown): [string, unknown][] {
  return isObject(value) ? Object.entries(value) : [];
}

function shownPath(path: string): string {
  return path === '' ? 'the root' : shown(path);
}

function pathOf(place: Place): string[] {
  const path: string[] = [];
  for (let at = place; at.parent; at = at.parent) path.push(at.name);
  return path.toReversed();
}
