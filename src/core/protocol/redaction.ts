import { createHmac, hash } from 'node:crypto';
import { isObject } from './json-rpc.js';
import { canonicalJson } from './values.js';
import { REDACTED, SensitiveNames } from './sensitive-names.js';

type Schema = Readonly<Record<string, unknown>>;

/** What may be kept of the arguments of a call. */
interface RedactedArguments {
  readonly arguments?: unknown;
  /** Whether they were longer than `maxArgumentLength`, or nested too deep, and some are missing. */
  readonly argumentsCut?: boolean;
  readonly argumentsHash?: string;
}

export interface RedactionOptions<Call> {
  /** The names whose values are redacted. */
  readonly names: readonly string[];
  /** Decides in addition to them what is kept. @param args a copy, which is redacted already */
  readonly decide?: ((args: Record<string, unknown>, call: Call) => unknown) | undefined;
  /** Signs the hash of the arguments as they came; absent: the hash is that of what is kept. */
  readonly hashKey?: string | Uint8Array | undefined;
  /** So many characters are kept. */
  readonly maxArgumentLength: number;
}

/** This keyword of JSON Schema marks a value that no record may have. */
const SENSITIVE = 'x-mcp-sensitive';
const CUT = '[cut]';
/** Stands for arguments whose redaction failed: what it would have removed is not known. */
const FAILED = '[redaction failed]';
/** Values that are nested deeper are cut. */
const MAX_DEPTH = 32;
/** A longer text is not read as JSON, and not recorded if it may be some: nothing in it would be redacted. */
const LONGEST_JSON = 64 * 1024;
/** So many characters behind the cut are looked at: they say whether a password is in front of it. */
const LONGEST_PASSWORD = 1_024;

const NOTHING: RedactedArguments = Object.freeze({});
const NO_SCHEMAS: readonly Schema[] = [];

/** Decides what may be kept of the arguments of calls, of results and texts: without what is sensitive, and bounded. */
export class Redaction<Call extends { readonly arguments?: Readonly<Record<string, unknown>> | undefined }> {
  readonly #names: SensitiveNames;
  /** Whether a schema marks anything; most do not. */
  readonly #marks = new WeakMap<object, boolean>();

  constructor(
    private readonly options: RedactionOptions<Call>,
    /** Called with what the app's function throws. */
    private readonly report: (error: unknown) => void = () => {},
  ) {
    this.#names = new SensitiveNames(options.names);
  }

  /**
   * @param schema of the arguments, if it is known
   * @param root references of the schema begin here
   */
  of(call: Call, schema: object | undefined, root = schema): RedactedArguments {
    const { arguments: args } = call;
    if (!args) return NOTHING;
    const { decide, maxArgumentLength } = this.options;
    const marked = schema && this.#hasMarks(schema) ? (schema as Schema) : undefined;
    const copy = new RedactedCopy(this.#names, maxArgumentLength, marked && (root as Schema));
    let recorded = copy.of(args, marked ? [marked] : NO_SCHEMAS);
    let { cut } = copy;
    if (decide) {
      try {
        const kept: unknown = decide(recorded as Record<string, unknown>, call);
        // It may have returned anything: a cycle, an entity, something huge.
        const again = new RedactedCopy(this.#names, maxArgumentLength);
        recorded = kept === undefined ? undefined : again.of(kept, NO_SCHEMAS);
        cut ||= again.cut;
      } catch (error) {
        this.report(error);
        recorded = FAILED;
      }
    }
    return {
      ...(recorded !== undefined && { arguments: recorded }),
      ...(cut && { argumentsCut: true }),
      ...this.#hash(args, recorded),
    };
  }

  /** Returns a text, such as a URI or an error, without values of sensitive names. @param longest the characters that are kept */
  text(text: string, longest: number): string {
    return new RedactedCopy(this.#names, longest).of(text, NO_SCHEMAS) as string;
  }

  /**
   * Returns the URI of a resource without values of sensitive names.
   *
   * @param variables of its template, by their names
   */
  uri(uri: string, variables: Readonly<Record<string, unknown>>, longest: number): string {
    const values = Object.entries(variables).flatMap(([name, value]) => (this.#names.has(name) ? [value].flat() : []));
    const hidden = values
      .flatMap((value) => (typeof value === 'string' && value !== '' ? [value, encoded(value)] : []))
      .reduce((text, value) => text.replaceAll(value, REDACTED), uri);
    return this.text(hidden, longest);
  }

  #hash(sent: object, recorded: unknown): Pick<RedactedArguments, 'argumentsHash'> {
    const { hashKey } = this.options;
    if (hashKey === undefined && recorded === undefined) return NOTHING;
    try {
      if (hashKey === undefined) return { argumentsHash: `sha256:${hash('sha256', canonicalJson(recorded), 'hex')}` };
      const hmac = createHmac('sha256', hashKey).update(canonicalJson(sent)).digest('hex');
      return { argumentsHash: `hmac-sha256:${hmac}` };
    } catch {
      // A call from within the app may be nested deeper than those of clients, which are limited.
      return NOTHING;
    }
  }

  #hasMarks(schema: object): boolean {
    let marks = this.#marks.get(schema);
    if (marks === undefined) this.#marks.set(schema, (marks = JSON.stringify(schema).includes(`"${SENSITIVE}":true`)));
    return marks;
  }
}

/** Copies a value without what must not be recorded, and no more of it than fits. */
class RedactedCopy {
  cut = false;
  hidden = false;

  constructor(
    private readonly names: SensitiveNames,
    /** The characters that still fit. */
    private left: number,
    /** References of schemas begin here. */
    private readonly root: Schema = {},
  ) {}

  /** @param schemas may describe the value: it is redacted if any of them says so */
  of(value: unknown, schemas: readonly Schema[], depth = 0): unknown {
    const all = schemas.length === 0 ? schemas : this.#expanded(schemas);
    if (all.some((schema) => schema[SENSITIVE] === true)) return this.#hide();
    if (typeof value === 'string') return this.#text(value, depth);
    if (typeof value !== 'object' || value === null) {
      this.left -= 5;
      return isJsonScalar(value) ? value : `[${typeof value}]`;
    }
    if (depth === MAX_DEPTH) return this.#cutOff();
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === 'function') return this.of(toJSON.call(value), schemas, depth + 1);
    return Array.isArray(value) ? this.#list(value, all, depth) : this.#object(value, all, depth);
  }

  #list(list: readonly unknown[], schemas: readonly Schema[], depth: number): unknown[] {
    const copy: unknown[] = [];
    // A header, a parameter: `['authorization', 'Bearer …']`.
    const isPair = list.length === 2 && typeof list[1] === 'string' && this.#isName(list[0]);
    for (const [index, entry] of list.entries()) {
      if (this.left <= 0) {
        copy.push(this.#cutOff());
        break;
      }
      this.left--;
      const described = schemas.flatMap((schema) => schemasOfEntry(schema, index));
      copy.push(isPair && index === 1 ? this.#hide() : this.of(entry, described, depth + 1));
    }
    return copy;
  }

  #object(object: object, schemas: readonly Schema[], depth: number): object {
    const copy: [name: string, value: unknown][] = [];
    const isPair = NAMING.some((name) => Object.hasOwn(object, name) && this.#isName((object as Schema)[name]));
    for (const key of Object.keys(object)) {
      if (this.left <= 0) {
        copy.push(['…', this.#cutOff()]);
        break;
      }
      this.left -= 4;
      const name = this.#plain(key);
      const described = schemas.flatMap((schema) => schemasOfMember(schema, key));
      const hidden = this.names.has(key) || (isPair && VALUES.has(key));
      copy.push([name, hidden ? this.#hide() : this.of((object as Schema)[key], described, depth + 1)]);
    }
    // Each is an own property, whatever its name.
    return Object.fromEntries(copy);
  }

  #isName(value: unknown): boolean {
    return typeof value === 'string' && this.names.has(value);
  }

  #hide(): string {
    this.hidden = true;
    this.left -= REDACTED.length;
    return REDACTED;
  }

  #text(text: string, depth: number): string {
    if (/^\s*[[{]/.test(text)) {
      if (text.length > LONGEST_JSON) return this.#cutOff(`[a text of ${text.length} characters, which may be JSON]`);
      const json = parsed(text);
      if (json !== undefined) return this.#json(text, json, depth);
    }
    return this.#plain(text);
  }

  /** Returns what fits of a text, without values of sensitive names. */
  #plain(text: string): string {
    const part = text.slice(0, Math.max(0, this.left) + LONGEST_PASSWORD);
    const safe = this.names.withoutValues(part);
    this.hidden ||= safe !== part;
    this.cut ||= part.length < text.length;
    return this.#fitting(safe);
  }

  /** Returns a text that is JSON as it came, unless something in it is hidden or cut. */
  #json(text: string, json: object, depth: number): string {
    const inner = new RedactedCopy(this.names, this.left);
    const copy = inner.of(json, NO_SCHEMAS, depth + 1);
    if (!inner.hidden && !inner.cut) return this.#fitting(text);
    this.hidden ||= inner.hidden;
    this.cut ||= inner.cut;
    this.left = inner.left;
    return JSON.stringify(copy);
  }

  #fitting(text: string): string {
    const fitting = Math.max(0, this.left);
    this.left -= text.length;
    if (text.length <= fitting) return text;
    this.cut = true;
    return `${text.slice(0, fitting)}…${CUT}`;
  }

  #cutOff(instead = CUT): string {
    this.cut = true;
    return instead;
  }

  /** Returns the schemas with those that they refer to and are composed of: a value may be described by any of them. */
  #expanded(schemas: readonly Schema[]): readonly Schema[] {
    const all = new Set<Schema>(schemas);
    // Iterating a set includes the elements that are added meanwhile.
    for (const schema of all) {
      const { $ref, $dynamicRef } = schema;
      for (const part of [this.#referred($ref ?? $dynamicRef), ...COMPOSED.flatMap((word) => partsOf(schema[word]))])
        if (isObject(part)) all.add(part);
      const { dependentSchemas } = schema;
      if (isObject(dependentSchemas))
        for (const part of Object.values(dependentSchemas)) if (isObject(part)) all.add(part);
    }
    return [...all];
  }

  /** Returns the schema of a reference within the root. */
  #referred(ref: unknown): unknown {
    if (typeof ref !== 'string' || !(ref === '#' || ref.startsWith('#/'))) return undefined;
    let found: unknown = this.root;
    for (const step of ref.slice(1).split('/').slice(1)) {
      const key = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~');
      found =
        typeof found === 'object' && found !== null && Object.hasOwn(found, key) ? (found as Schema)[key] : undefined;
    }
    return found;
  }
}

/** @returns `undefined` if the text is no JSON */
function parsed(text: string): object | undefined {
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}

function isJsonScalar(value: unknown): boolean {
  return value === null || typeof value === 'number' || typeof value === 'boolean';
}

/** The keywords whose schemas describe the same value. */
const COMPOSED = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else'];

function partsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function schemasOfEntry(schema: Schema, index: number): Schema[] {
  const { prefixItems, items, additionalItems, contains, unevaluatedItems } = schema;
  const own = [prefixItems, items].map((list) => (Array.isArray(list) ? (list[index] as unknown) : undefined));
  return [...own, items, additionalItems, contains, unevaluatedItems].filter((found) => isObject(found));
}

function schemasOfMember(schema: Schema, key: string): Schema[] {
  const { properties, patternProperties, additionalProperties, unevaluatedProperties } = schema;
  const own = isObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined;
  const matching = isObject(patternProperties)
    ? Object.entries(patternProperties).flatMap(([pattern, each]) => (matches(pattern, key) ? [each] : []))
    : [];
  const others = own === undefined ? [additionalProperties, unevaluatedProperties] : [];
  return [own, ...matching, ...others].filter((found) => isObject(found));
}

function matches(pattern: string, key: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(key);
  } catch {
    return false;
  }
}

/** Escapes a value. Half of a surrogate pair, which JSON can have, has no escape. */
function encoded(value: string): string {
  return encodeURIComponent(value.replace(/\p{Cs}/gu, '\uFFFD'));
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

/** Members by which headers, parameters and the like have their name, and their value. */
const NAMING = ['name', 'Name', 'key', 'Key', 'header', 'field'];
const VALUES: ReadonlySet<string> = new Set(['value', 'Value', 'values', 'Values']);
