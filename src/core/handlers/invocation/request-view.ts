import { isObject } from '../../protocol/json-rpc.js';
import type { RouteSchema } from '../schema/route-schema.js';
import {
  asSent,
  isAsSent,
  type JsonArguments,
  partsOf,
  type RequestPart,
  type RouteParts,
  type RoutePlaces,
  valueOf,
} from '../schema/route-values.js';

/** A parameter of a route, with what the view needs. */
export interface RoutedParam {
  readonly part: RequestPart;
  /**
   * The name of the one argument; `undefined`: the parameter takes all that {@link RoutedParams.omitted} does not name.
   */
  readonly field: string | undefined;
}

/** Describes the parameters of a method that is a route too. */
export interface RoutedParams {
  readonly args: readonly RoutedParam[];
  /** Lists the named arguments that parameters without a name do not get. */
  readonly omitted?: readonly string[] | undefined;
  /** The names in the path, for guards, whose arguments stand there too. */
  readonly pathNames: readonly string[];
  /** The verb of the route, if it is one of {@link VERBS}. */
  readonly verb?: string | undefined;
  /** Describes how the schema of the arguments was made; absent: it was written by hand. */
  readonly route?: RouteSchema | undefined;
}

/**
 * A view has one of these verbs in place of the POST. GET is none: a cache of GET answers would treat those of all
 * calls as one.
 */
export const VERBS: readonly string[] = ['PUT', 'PATCH', 'DELETE'];
const PARTS: readonly RequestPart[] = ['params', 'query', 'body'];
const VIEW: unique symbol = Symbol('nestjs-mcp-streamable:request-view');
const OWN = { enumerable: true, configurable: true };
const NONE: JsonArguments = Object.freeze({});
const NO_PARTS: RouteParts = { params: NONE, query: NONE, body: NONE };

/**
 * # The request of a call whose method is a route too
 *
 * Enhancers of such a method are written for its route: a guard reads `request.query.owner`. In the POST of the endpoint
 * that is what the client wrote into the URL, while the method gets the argument. So they, and the method, get an object
 * whose prototype is the request, and whose `params`, `query` and `body` hold the arguments, each where the decorator of
 * its parameter takes it from. Its `method` is PUT, PATCH or DELETE if that is the verb of the route: a guard may decide by it. All
 * else is that of the POST, `url` too.
 *
 * - each call has its own: what a guard writes into it stays in the call
 * - the arguments are those that the client sent, before validation, as on a route; in `params` and `query` they are texts, as
 *   a URL has them
 * - what an enhancer writes into one of the three, or in its place, the method gets
 *
 * @param args `undefined` while a list is made
 * @returns a view, whose three parts throw {@link ArgumentsAsked} when there are no arguments
 */
export function requestView(request: unknown, args: JsonArguments | undefined, params: RoutedParams): object {
  const view = Object.create(isObject(request) ? request : null) as object;
  const parts = args && (params.route ? partsOf(args, params.route) : partsByHand(args, params));
  const { params: path, query, body } = parts ?? NO_PARTS;
  // The parts are copied as they were sent, as enhancers may write into them.
  Object.defineProperty(view, VIEW, { value: { params: copyOf(path), query: copyOf(query), body: copyOf(body) } });
  const { verb } = params;
  if (verb !== undefined) Object.defineProperty(view, 'method', { ...OWN, value: verb, writable: true });
  for (const part of PARTS) {
    // The property is defined, not set: `query` of Express is a getter without a setter.
    const property = parts ? { value: parts[part], writable: true } : { get: refuse };
    Object.defineProperty(view, part, { ...OWN, ...property });
  }
  return view;
}

export function isRequestView(request: object): boolean {
  return Object.hasOwn(request, VIEW);
}

/** Returns the parts of a view as they were made, before enhancers ran. */
export function sentParts(view: unknown): RouteParts {
  return (view as { readonly [VIEW]: RouteParts })[VIEW];
}

/** Returns the arguments with what enhancers have written into the view of them, where a schema was written by hand. */
export function argumentsOf(
  view: unknown,
  args: JsonArguments,
  { args: params, omitted }: RoutedParams,
): JsonArguments {
  const current: Record<string, unknown> = { ...args };
  const sent = sentParts(view);
  for (const { part, field } of params) {
    const given: unknown = (view as RouteParts)[part];
    const written = isObject(given) ? (given as JsonArguments) : NONE;
    const before = sent[part] as JsonArguments;
    const names = field === undefined ? new Set([...Object.keys(before), ...Object.keys(written)]) : [field];
    for (const name of names) {
      if (field === undefined && omitted?.includes(name)) continue;
      const value = Object.hasOwn(written, name) ? written[name] : undefined;
      const isSame = value === (Object.hasOwn(before, name) ? before[name] : undefined);
      if (isSame && isAsSent(value, args[name], part)) continue;
      if (value === undefined) Reflect.deleteProperty(current, name);
      else current[name] = value;
    }
  }
  return current;
}

/** Returns the arguments of a route by their names, with what enhancers have written into the view of them. */
export function namedArguments(view: unknown, args: JsonArguments, { places }: RoutePlaces): JsonArguments {
  const sent = sentParts(view);
  const entries = Object.entries(args).map(([name, argument]): [string, unknown] => {
    const place = places.get(name);
    if (!place) return [name, argument];
    const value = valueOf((view as RouteParts)[place.part], place.field);
    const isSame = value === valueOf(sent[place.part], place.field) && isAsSent(value, argument, place.part);
    return [name, isSame ? argument : value];
  });
  return Object.fromEntries(entries);
}

function partsByHand(args: JsonArguments, { args: params, omitted, pathNames }: RoutedParams): RouteParts {
  const parts = { params: {}, query: {}, body: {} };
  for (const { part, field } of [...pathNames.map((field) => ({ part: 'params' as const, field })), ...params]) {
    const names = field === undefined ? Object.keys(args).filter((name) => !omitted?.includes(name)) : [field];
    // The names are not assigned: a client may name an argument `__proto__`.
    const taken = names
      .filter((name) => Object.hasOwn(args, name))
      .map((name) => [name, asSent(args[name], part)] as const);
    parts[part] = { ...parts[part], ...Object.fromEntries(taken) };
  }
  return parts;
}

function copyOf(part: unknown): JsonArguments {
  return { ...(part as JsonArguments) };
}

/** Thrown when a guard reads arguments while a list is made: it cannot decide whether an entry is shown. */
export class ArgumentsAsked extends Error {
  constructor() {
    super('A list has no arguments.');
  }
}

function refuse(): never {
  throw new ArgumentsAsked();
}
