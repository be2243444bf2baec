import { isObject } from '../../core/protocol/json-rpc.js';
import { resolveRef } from '../../core/protocol/schema-walk.js';
import { difference, jsonOf, shortened } from './canonical.js';

/**
 * # What a changed JSON Schema means for its users
 *
 * Both schemas are walked together. For each keyword that differs, the walk decides whether the new schema accepts less
 * (narrower), more (wider), or something else. Less breaks callers where a schema describes arguments; more breaks readers
 * where it describes results. Properties that are gone break both; properties that are new and not required break none.
 *
 * | keyword | compared |
 * |---|---|
 * | `type`, `nullable`, `enum`, `const` | as sets of what is accepted |
 * | bounds, `multipleOf`, `pattern`, `format`, `uniqueItems` | added, removed, moved |
 * | `properties`, `required`, `additionalProperties`, `items`, `prefixItems`, `allOf` | part by part |
 * | `anyOf`, `oneOf` | equal alternatives first, then those with the same constants or type |
 * | `$ref` | what it refers to, also in a cycle |
 *
 * A difference that no rule knows is reported as one to look at: none is passed over. Libraries were looked at first:
 * json-schema-diff has no cyclic `$ref`, no bounds and no new release for years; json-schema-diff-validator compares JSON, not
 * what it accepts.
 */

/** What a change means: it can break a client, it cannot, or a reader has to decide. */
export type Severity = 'breaking' | 'additive' | 'look';

export interface Change {
  readonly severity: Severity;
  readonly text: string;
}

/** Whether a schema describes arguments that clients send, or results that they read. */
export type Direction = 'input' | 'output';

type Effect = 'narrower' | 'wider' | 'replaced' | 'gone' | 'new' | 'other';

const SEVERITIES: Readonly<Record<Direction, Readonly<Record<Effect, Severity>>>> = {
  input: {
    narrower: 'breaking',
    wider: 'additive',
    replaced: 'breaking',
    gone: 'breaking',
    new: 'additive',
    other: 'look',
  },
  output: {
    narrower: 'additive',
    wider: 'breaking',
    replaced: 'breaking',
    gone: 'breaking',
    new: 'additive',
    other: 'look',
  },
};

type Schema = Readonly<Record<string, unknown>>;

/** A hostile schema must not take the time of a test run: what is beyond is reported to be looked at. */
const MAX_STEPS = 200_000;
const MAX_DEPTH = 200;
const MAX_HOPS = 50;

/** Compares two schemas. @param path stands before the path of each change, such as `input` */
export function schemaChanges(before: unknown, after: unknown, direction: Direction, path: string): Change[] {
  const walk = new SchemaWalk([before, after], direction);
  walk.compare(before, after, path, 0);
  if (walk.exceeded) walk.report('other', path, 'is too large or too deep to be compared as a whole');
  return walk.changes;
}

/** These keywords have a handler below that reads both schemas. */
const TYPES = ['type', 'nullable'];
const VALUES = ['enum', 'const'];
const OBJECTS = ['properties', 'required'];
/** These keywords have no effect of their own. */
const SILENT = ['$defs', 'definitions'];
/** A higher value of these accepts less. */
const MINIMA = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties', 'minContains'];
/** A lower value of these accepts less. */
const MAXIMA = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties', 'maxContains'];
/** Texts and hints for readers; a `$ref` may have them beside it. */
const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$comment'];
const ALL_TYPES = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];

class SchemaWalk {
  readonly changes: Change[] = [];
  exceeded = false;
  #steps = 0;
  /** Counts pairs that were not compared because they had been: their changes are reported already. */
  #repeats = 0;
  /** Pairs that are compared, or were: a cyclic schema comes back to them. */
  readonly #seen = new Map<unknown, Set<unknown>>();

  constructor(
    private readonly roots: readonly [before: unknown, after: unknown],
    private readonly direction: Direction,
  ) {}

  report(effect: Effect, path: string, text: string): void {
    this.changes.push({ severity: SEVERITIES[this.direction][effect], text: `${path}: ${text}` });
  }

  compare(before: unknown, after: unknown, path: string, depth: number): void {
    if (!this.#enter(before, after, depth)) return;
    const [old, now] = [this.#resolved(before, 0), this.#resolved(after, 1)];
    if (old === false || now === false) {
      if (old !== now)
        this.report(
          now === false ? 'narrower' : 'wider',
          path,
          now === false ? 'accepts nothing' : 'accepts something',
        );
      return;
    }
    const keywords = [...new Set([...Object.keys(old), ...Object.keys(now)])];
    this.#compareTypes(old, now, path);
    this.#compareValues(old, now, path);
    this.#compareProperties(old, now, path, depth);
    for (const keyword of keywords) {
      if ([...TYPES, ...VALUES, ...OBJECTS, ...SILENT].includes(keyword)) continue;
      const [was, is] = [own(old, keyword), own(now, keyword)];
      if (this.#equal(was, is)) continue;
      const [reported, repeats] = [this.changes.length, this.#repeats];
      this.#compareKeyword(keyword, was, is, path, depth);
      if (this.changes.length === reported && this.#repeats === repeats)
        this.report('other', path, `"${keyword}" has changed`);
    }
  }

  /** Returns whether a pair is to be compared: each is once, within the limits. */
  #enter(before: unknown, after: unknown, depth: number): boolean {
    const others = this.#seen.get(before) ?? new Set();
    if (others.has(after)) {
      this.#repeats++;
      return false;
    }
    this.#seen.set(before, others.add(after));
    this.exceeded ||= depth > MAX_DEPTH || ++this.#steps > MAX_STEPS;
    return !this.exceeded;
  }

  /**
   * Returns a schema without a reference at its top, and `anyOf: [X, null]` as X that may be null.
   *
   * @param side 0: before, 1: after
   * @param hops the references that may be followed: those of a cycle lead nowhere
   */
  #resolved(schema: unknown, side: 0 | 1, hops = MAX_HOPS): Schema | false {
    if (schema === false) return false;
    if (!isObject(schema)) return {};
    const { $ref, ...beside } = schema;
    const isPlain = Object.keys(beside).every((keyword) => [...ANNOTATIONS, ...SILENT].includes(keyword));
    const target = typeof $ref === 'string' && hops > 0 ? resolveRef(this.roots[side], $ref) : undefined;
    if (target === undefined) return this.#withoutNullBranch(schema, side, hops);
    if (!isPlain) return { allOf: [target, beside] };
    const resolved = this.#resolved(target, side, hops - 1);
    return resolved && { ...resolved, ...beside };
  }

  #withoutNullBranch(schema: Schema, side: 0 | 1, hops: number): Schema {
    const { anyOf, ...beside } = schema;
    if (!Array.isArray(anyOf) || anyOf.length !== 2 || hops === 0) return schema;
    const other: unknown = anyOf.find((branch) => !isNull(branch));
    const isPlain = Object.keys(beside).every((keyword) => [...ANNOTATIONS, ...SILENT].includes(keyword));
    if (!isPlain || other === undefined || !anyOf.some(isNull)) return schema;
    const resolved = this.#resolved(other, side, hops - 1);
    return resolved === false ? { ...beside, type: 'null' } : { ...resolved, ...beside, nullable: true };
  }

  #compareTypes(old: Schema, now: Schema, path: string): void {
    const [before, after] = [this.#typesOf(old, 0), this.#typesOf(now, 1)];
    // An integer is a number.
    const accepts = (types: readonly string[], type: string): boolean =>
      types.includes(type) || (type === 'integer' && types.includes('number'));
    const removed = before.filter((type) => !accepts(after, type));
    const added = after.filter((type) => !accepts(before, type));
    if (removed.length === 0 && added.length === 0) return;
    const text = `the type was ${namedTypes(before)}, and is ${namedTypes(after)}`;
    if (added.length === 0) this.report('narrower', path, text);
    else if (removed.length === 0) this.report('wider', path, text);
    else this.report('replaced', path, text);
  }

  /** Returns the types that a schema accepts; those of its alternatives, if it names none itself. */
  #typesOf(schema: Schema, side: 0 | 1): readonly string[] {
    const alternatives = schema['type'] === undefined ? (schema['anyOf'] ?? schema['oneOf']) : undefined;
    if (!Array.isArray(alternatives)) return typesOf(schema);
    const types = alternatives.flatMap((branch) => {
      const resolved = this.#resolved(branch, side);
      return resolved === false ? [] : typesOf(resolved);
    });
    return [...new Set(types)].toSorted();
  }

  #compareValues(old: Schema, now: Schema, path: string): void {
    const [before, after] = [valuesOf(old), valuesOf(now)];
    if (!before && !after) return;
    if (!before) return this.report('narrower', path, `accepts only ${namedValues(after!)}`);
    if (!after) return this.report('wider', path, `accepts not only ${namedValues(before)}`);
    // A list of values may have many thousands.
    const [known, accepted] = [new Set(before), new Set(after)];
    const removed = before.filter((value) => !accepted.has(value));
    const added = after.filter((value) => !known.has(value));
    if (removed.length > 0) this.report('narrower', path, `${namedValues(removed)} is gone from the values`);
    if (added.length > 0) this.report('wider', path, `${namedValues(added)} is new among the values`);
    if (removed.length + added.length === 0 && before.join() !== after.join()) {
      this.report('other', path, 'the values have another order');
    }
  }

  #compareProperties(old: Schema, now: Schema, path: string, depth: number): void {
    const [before, after] = [recordOf(old['properties']), recordOf(now['properties'])];
    const [required, nowRequired] = [new Set(listOf(old['required'])), new Set(listOf(now['required']))];
    for (const name of new Set([...before.keys(), ...after.keys(), ...required, ...nowRequired])) {
      const at = `${path}.${/^[\w-]+$/.test(name) ? name : JSON.stringify(name)}`;
      const isRequired = nowRequired.has(name);
      if (before.has(name) && !after.has(name)) this.report('gone', at, 'is gone');
      else if (!before.has(name) && after.has(name)) {
        const breaks = isRequired && !required.has(name) && this.direction === 'input';
        this.report(breaks ? 'narrower' : 'new', at, isRequired ? 'is new, and required' : 'is new');
      } else {
        if (isRequired && !required.has(name)) this.report('narrower', at, 'is required now');
        if (!isRequired && required.has(name)) this.report('wider', at, 'is not required any more');
        if (before.has(name)) this.compare(before.get(name), after.get(name), at, depth + 1);
      }
    }
  }

  #compareKeyword(keyword: string, was: unknown, is: unknown, path: string, depth: number): void {
    switch (keyword) {
      case 'additionalProperties':
        return this.#compareOpen(was, is, path, depth);
      case 'items':
        if (was === undefined || is === undefined) return this.#addedOrRemoved(keyword, was, is, path);
        return this.compare(was, is, `${path}[]`, depth + 1);
      case 'allOf':
        return this.#compareAll(was, is, path, depth);
      case 'prefixItems':
        return this.#compareTuple(was, is, path, depth);
      case 'anyOf':
      case 'oneOf':
        return this.#compareAlternatives(keyword, was, is, path, depth);
      case 'pattern':
      case 'format':
      case 'multipleOf':
        if (was === undefined || is === undefined) return this.#addedOrRemoved(keyword, was, is, path);
        return this.report('replaced', path, `${keyword} ${difference(was, is)}`);
      case 'uniqueItems':
        if ((is === true) === (was === true)) break;
        return this.report(is === true ? 'narrower' : 'wider', path, `uniqueItems is ${shortened(is)} now`);
    }
    const rising = MINIMA.includes(keyword);
    if (rising || MAXIMA.includes(keyword)) {
      if (was === undefined || is === undefined) return this.#addedOrRemoved(keyword, was, is, path);
      if (typeof was !== 'number' || typeof is !== 'number') return this.#changed(keyword, was, is, path);
      const isLess = is > was === rising;
      return this.report(isLess ? 'narrower' : 'wider', path, `${keyword} ${difference(was, is)}`);
    }
    this.#changed(keyword, was, is, path);
  }

  #changed(keyword: string, was: unknown, is: unknown, path: string): void {
    // Equal texts refer to something that has changed.
    const text = jsonOf(was) === jsonOf(is) ? 'has changed' : difference(was, is);
    this.report('other', path, `"${keyword}" ${text}`);
  }

  #addedOrRemoved(keyword: string, was: unknown, is: unknown, path: string): void {
    if (was === undefined) this.report('narrower', path, `${keyword} ${shortened(is)} is new`);
    else this.report('wider', path, `${keyword} ${shortened(was)} is gone`);
  }

  #compareOpen(was: unknown, is: unknown, path: string, depth: number): void {
    const isOpen = (given: unknown): boolean =>
      given === undefined || given === true || (isObject(given) && Object.keys(given).length === 0);
    if (isOpen(was) && isOpen(is)) return this.#changed('additionalProperties', was, is, path);
    if (is === false) return this.report('narrower', path, 'refuses other properties now');
    if (was === false) return this.report('wider', path, 'accepts other properties now');
    if (isOpen(was)) return this.report('narrower', path, 'other properties have a schema now');
    if (isOpen(is)) return this.report('wider', path, 'other properties have no schema any more');
    this.compare(was, is, `${path}.*`, depth + 1);
  }

  /** Compares schemas that must all hold. */
  #compareAll(was: unknown, is: unknown, path: string, depth: number): void {
    const added = listOf<unknown>(is);
    const removed = listOf<unknown>(was).filter((part) => {
      const at = added.findIndex((other) => this.#equal(part, other));
      if (at >= 0) added.splice(at, 1);
      return at < 0;
    });
    if (removed.length === added.length) {
      for (const [at, part] of removed.entries()) this.compare(part, added[at], path, depth + 1);
    } else {
      const effect = removed.length === 0 ? 'narrower' : added.length === 0 ? 'wider' : 'replaced';
      this.report(effect, path, `allOf has ${added.length} new parts, and ${removed.length} are gone`);
    }
  }

  #compareTuple(was: unknown, is: unknown, path: string, depth: number): void {
    const [before, after] = [listOf<unknown>(was), listOf<unknown>(is)];
    // What a longer tuple accepts depends on other keywords.
    if (before.length !== after.length) return this.#changed('prefixItems', was, is, path);
    for (const [at, part] of before.entries()) this.compare(part, after[at], `${path}[${at}]`, depth + 1);
  }

  #compareAlternatives(keyword: string, was: unknown, is: unknown, path: string, depth: number): void {
    if (was === undefined || is === undefined) {
      return this.report(
        'other',
        path,
        was === undefined ? `has alternatives now (${keyword})` : `has no alternatives (${keyword}) any more`,
      );
    }
    const added = listOf<unknown>(is);
    let removed = listOf<unknown>(was);
    const take = (matches: (branch: unknown) => boolean): unknown => {
      const at = added.findIndex((branch) => matches(branch));
      return at < 0 ? undefined : added.splice(at, 1)[0];
    };
    removed = removed.filter((branch) => take((other) => this.#equal(branch, other)) === undefined);
    for (const branch of removed) {
      const mark = markOf(this.#resolved(branch, 0));
      const successor = take((other) => mark === markOf(this.#resolved(other, 1)));
      const at = `${path}(${mark})`;
      if (successor === undefined) this.report('narrower', at, 'this alternative is gone');
      else this.compare(branch, successor, at, depth + 1);
    }
    for (const branch of added) {
      // Of overlapping alternatives in oneOf, a value must match one alone.
      const mark = markOf(this.#resolved(branch, 1));
      this.report(
        keyword === 'anyOf' || mark.includes('=') ? 'wider' : 'other',
        `${path}(${mark})`,
        'this alternative is new',
      );
    }
  }

  /** Returns whether two values are the same where references are followed. Any difference ends the comparison. */
  #equal(before: unknown, after: unknown): boolean {
    const seen = new Map<unknown, Set<unknown>>();
    const waiting: [unknown, unknown][] = [[before, after]];
    while (waiting.length > 0) {
      const [one, other] = waiting.pop()!;
      if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
        if (one !== other) return false;
        continue;
      }
      const others = seen.get(one) ?? new Set();
      if (others.has(other)) continue;
      seen.set(one, others.add(other));
      if (++this.#steps > MAX_STEPS) {
        this.exceeded = true;
        return true;
      }
      const [a, b] = [refOf(one), refOf(other)];
      if (a !== undefined && a === b) waiting.push([resolveRef(this.roots[0], a), resolveRef(this.roots[1], a)]);
      else if (a !== b) return false;
      if (Array.isArray(one) !== Array.isArray(other)) return false;
      const keys = Object.keys(one);
      if (keys.length !== Object.keys(other).length || !keys.every((key) => Object.hasOwn(other, key))) return false;
      for (const key of keys) waiting.push([own(one, key), own(other, key)]);
    }
    return true;
  }
}

/** Returns a property that is the object's own: those of a schema may be named `__proto__` or `constructor`. */
function own(holder: object, name: string): unknown {
  return Object.hasOwn(holder, name) ? (holder as Schema)[name] : undefined;
}

function refOf(schema: object): string | undefined {
  const ref = own(schema, '$ref');
  return typeof ref === 'string' ? ref : undefined;
}

function recordOf(given: unknown): ReadonlyMap<string, unknown> {
  return new Map(isObject(given) ? Object.entries(given) : []);
}

function listOf<T = string>(given: unknown): T[] {
  return Array.isArray(given) ? [...(given as T[])] : [];
}

function isNull(branch: unknown): boolean {
  return isObject(branch) && (branch['type'] === 'null' || branch['const'] === null);
}

function typesOf(schema: Schema): readonly string[] {
  const { type, nullable } = schema;
  const ofValues = valuesOf(schema)?.map((json) => typeOfValue(JSON.parse(json)));
  const types = type === undefined ? (ofValues ?? ALL_TYPES) : [type].flat().map(String);
  return nullable === true && !types.includes('null') ? [...types, 'null'] : types;
}

function typeOfValue(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function namedTypes(types: readonly string[]): string {
  return types.length >= ALL_TYPES.length ? 'any' : [...new Set(types)].join(' or ');
}

/** Returns the accepted values as JSON; `undefined`: any. */
function valuesOf(schema: Schema): readonly string[] | undefined {
  if (Object.hasOwn(schema, 'const')) return [jsonOf(schema['const'])];
  return Array.isArray(schema['enum']) ? schema['enum'].map(jsonOf) : undefined;
}

function namedValues(values: readonly string[]): string {
  const [shown, rest] = [values.slice(0, 5).map((value) => shortened(JSON.parse(value))), values.length - 5];
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** Returns what tells an alternative from others: its constants, such as `kind=card`, else its title or type. */
function markOf(schema: Schema | false): string {
  if (schema === false) return 'nothing';
  const constants = [...recordOf(schema['properties'])].flatMap(([name, property]) =>
    isObject(property) && Object.hasOwn(property, 'const') ? [`${name}=${shortened(property['const'])}`] : [],
  );
  if (constants.length > 0) return constants.join(',');
  const values = valuesOf(schema);
  if (Object.hasOwn(schema, 'const')) return values!.join();
  return typeof schema['title'] === 'string' ? schema['title'] : namedTypes(typesOf(schema));
}
