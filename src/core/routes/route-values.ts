import { isDeepStrictEqual } from 'node:util';
import { isThenable } from '../common/promises.js';
import { isObject } from '../protocol/json-rpc.js';
import { assertValues, type McpArgumentProblem, McpArgumentsError } from '../handlers/handlers.errors.js';
import type { JsonSchema, RequestPart, Validate } from '../handlers/schema/handler-schema.js';

/** Names where the route has an argument of the tool. */
export interface RoutePlace {
  readonly part: RequestPart;
  readonly field: string;
  /** Separates the values of a list in a path. */
  readonly separator?: string | undefined;
}

export type RouteParts = Readonly<Record<RequestPart, unknown>>;

export type JsonArguments = Readonly<Record<string, unknown>>;

/** Maps the arguments of a tool to places in the request of its route. */
export interface RoutePlaces {
  /** Places are found by the name of the argument. */
  readonly places: ReadonlyMap<string, RoutePlace>;
  /** The part that gets arguments which have no place; absent: none does. */
  readonly rest: RequestPart | undefined;
}

/** One parameter as a part of the schema. */
export interface RoutePiece {
  readonly part: RequestPart;
  readonly field: string | undefined;
  /** Properties are found by their name in the part. */
  readonly properties: Readonly<Record<string, JsonSchema>>;
  readonly required: readonly string[];
  /** Separates the values of a list in a path. */
  readonly separator?: string | undefined;
  /** The schema of a whole part. */
  readonly json?: JsonSchema;
  /** The definitions that its properties refer to; those of a whole part are in its schema. */
  readonly $defs?: unknown;
  /** Checks the value of the parameter; absent: its pipes do. */
  readonly check?: Validate;
  /** Names the library of the schema, as that of a compiled schema. */
  readonly outdated?: string | undefined;
}

/** The checked values of one call, by the keys of their parameters. A parameter that its pipes check has none. */
export type CheckedValues = ReadonlyMap<string, unknown>;

/** Returns the parts of a request that has the arguments: those of a path and a query are texts. */
export function partsOf(args: JsonArguments, { places, rest }: RoutePlaces): RouteParts {
  const parts: Record<RequestPart, [string, unknown][]> = { params: [], query: [], body: [] };
  for (const [name, value] of Object.entries(args)) {
    const place = placeOf(name, { places, rest });
    if (place && value !== undefined) parts[place.part].push([place.field, asSent(value, place.part, place.separator)]);
  }
  // The names are not assigned: a client may name an argument `__proto__`.
  const { params, query, body } = parts;
  return { params: Object.fromEntries(params), query: Object.fromEntries(query), body: Object.fromEntries(body) };
}

/**
 * Returns where an argument stands. One that has the name that another had before `rename` stands nowhere: it would
 * take its place.
 */
function placeOf(name: string, { places, rest }: RoutePlaces): RoutePlace | undefined {
  const place = places.get(name);
  if (place || !rest) return place;
  const isTaken = [...places.values()].some(({ part, field }) => part === rest && field === name);
  return isTaken ? undefined : { part: rest, field: name };
}

/** Returns a value as a part of a request has it: in a path, a list is one text. */
export function asSent(value: unknown, part: RequestPart, separator = ','): unknown {
  if (part === 'body') return value;
  const sent = texts(value);
  const isTexts = Array.isArray(sent) && sent.every((each) => typeof each === 'string');
  return part === 'params' && isTexts ? sent.join(separator) : sent;
}

/** Returns whether a part of a request holds a value as it was sent: a list or an object may have been written into. */
export function isAsSent(value: unknown, argument: unknown, part: RequestPart): boolean {
  // A body holds the argument itself, with all that was written into it.
  if (part === 'body' || typeof value !== 'object') return true;
  const sent = asSent(argument, part);
  // Express takes a wildcard apart.
  return isDeepStrictEqual(value, part === 'params' && typeof sent === 'string' ? sent.split('/') : sent);
}

/** Converts a value that a guard has written into a query to the type of its schema. */
function fromText(value: unknown, type: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (type === 'boolean' && (value === 'true' || value === 'false')) return value === 'true';
  const isNumber = (type === 'integer' || type === 'number') && value.trim() !== '' && Number.isFinite(Number(value));
  return isNumber ? Number(value) : value;
}

function texts(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return value.map(texts);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, texts(each)]));
}

/**
 * Returns whether a URL can have the value: texts and lists of texts; objects where the schema has them, as a parser of
 * queries may make them.
 */
function fitsUrl(value: unknown, part: RequestPart, json: JsonSchema | undefined): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (COMBINED.some((key) => json && key in json)) return true;
  const types = [json?.['type']].flat();
  if (!Array.isArray(value)) return part === 'query' && types.includes('object');
  const items = isObject(json?.['items']) ? json['items'] : undefined;
  return (part === 'query' || types.includes('array')) && value.every((each) => fitsUrl(each, part, items));
}

const COMBINED = ['anyOf', 'oneOf', 'allOf', '$ref'];

/** Checks what stands in the request of a call, parameter by parameter. One object serves all calls. */
export class RouteChecks {
  /** Names the arguments by where they stand. */
  readonly #names: ReadonlyMap<string, string>;
  readonly #properties: ReadonlyMap<string, JsonSchema>;

  constructor(
    private readonly pieces: readonly RoutePiece[],
    private readonly places: RoutePlaces,
    private readonly maxValues = Infinity,
  ) {
    this.#names = new Map([...places.places].map(([name, { part, field }]) => [keyOf(part, field), name]));
    this.#properties = new Map(
      pieces.flatMap(({ part, properties }) =>
        Object.entries(properties).map(([name, json]) => [keyOf(part, name), json] as const),
      ),
    );
  }

  /**
   * Checks the arguments.
   *
   * @param parts the request as guards and interceptors have left it
   * @param sent the same as it was before them, and the arguments that it was made of: an untouched value keeps its type
   * @returns the values, or a promise of them where a schema needs one
   * @throws McpArgumentsError, or rejects with it
   */
  validate(parts: RouteParts, sent: SentArguments): CheckedValues | Promise<CheckedValues> {
    assertValues(sent.args, this.maxValues);
    const problems = this.#misfits(sent.args);
    const checked = new Map<string, unknown>();
    const waiting: PromiseLike<void>[] = [];
    const failed = (piece: RoutePiece, error: unknown): void => {
      if (!(error instanceof McpArgumentsError)) throw error;
      problems.push(...error.problems.map((problem) => this.#named(piece, problem)));
    };
    for (const piece of this.pieces) {
      if (!piece.check) continue;
      const key = keyOf(piece.part, piece.field);
      try {
        const given = this.#jsonOf(piece, parts, sent);
        const value = piece.check(given);
        if (!isThenable(value)) checked.set(key, value === given ? asOnRoute(piece, parts, value) : value);
        else {
          const settled = value.then((each) => void checked.set(key, each));
          waiting.push(settled.then(undefined, (error: unknown) => failed(piece, error)));
        }
      } catch (error) {
        failed(piece, error);
      }
    }
    const end = (): CheckedValues => {
      if (problems.length > 0) throw new McpArgumentsError(problems);
      return checked;
    };
    return waiting.length > 0 ? Promise.all(waiting).then(end) : end();
  }

  /** Returns problems of arguments that no URL could have: what reads a path or a query relies on texts. */
  #misfits(args: JsonArguments): McpArgumentProblem[] {
    return Object.entries(args).flatMap(([name, value]) => {
      const { part, field } = placeOf(name, this.places) ?? { part: 'body' };
      const fits = part === 'body' || fitsUrl(value, part, this.#properties.get(keyOf(part, field)));
      return fits
        ? []
        : [{ path: name, message: part === 'params' ? 'must be a text' : 'must be a text or a list of texts' }];
    });
  }

  /** Returns what a parameter gets, with the types that the client sent. */
  #jsonOf({ part, field }: RoutePiece, parts: RouteParts, sent: SentArguments): unknown {
    const whole = parts[part];
    const asJson = (name: string, value: unknown): unknown => {
      const key = keyOf(part, name);
      const argument = valueOf(sent.args, this.#names.get(key) ?? name);
      if (value === valueOf(sent.parts[part], name) && isAsSent(value, argument, part)) return argument;
      const type = this.#properties.get(key)?.['type'];
      if (part === 'params' && Array.isArray(value) && type === 'string') return value.join('/');
      return part === 'body' ? value : fromText(value, type);
    };
    if (field !== undefined) return asJson(field, valueOf(whole, field));
    if (!isObject(whole)) return whole;
    return Object.fromEntries(Object.entries(whole).map(([name, value]) => [name, asJson(name, value)]));
  }

  /** Returns a problem under the name of the argument, instead of that in the request. */
  #named({ part, field }: RoutePiece, { path, message }: McpArgumentProblem): McpArgumentProblem {
    const places = path === '' ? [] : path.split('.');
    const [first, below] = field === undefined ? [places[0], places.slice(1)] : [field, places];
    if (first === undefined) return { path, message };
    return { path: [this.#names.get(keyOf(part, first)) ?? first, ...below].join('.'), message };
  }
}

/** Holds the arguments of a call, and the request that was made of them. */
export interface SentArguments {
  readonly parts: RouteParts;
  readonly args: JsonArguments;
}

/** Returns the checked text of a wildcard as its route has it: on Express a list of segments. */
function asOnRoute({ part, field }: RoutePiece, parts: RouteParts, value: unknown): unknown {
  if (part !== 'params' || field === undefined || typeof value !== 'string') return value;
  const seen = valueOf(parts.params, field);
  return Array.isArray(seen) ? seen : value;
}

/** Returns a value of a part by its name; never one of its prototype. */
export function valueOf(holder: unknown, field: string): unknown {
  return isObject(holder) && Object.hasOwn(holder, field) ? holder[field] : undefined;
}

/** Returns a key such as `body.note`, or `body` for the whole of it. */
export function keyOf(part: RequestPart, field: string | undefined): string {
  return field === undefined ? part : `${part}.${field}`;
}
