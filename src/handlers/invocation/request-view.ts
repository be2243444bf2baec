import { isObject } from '../../wire/json-rpc.js';

/** Where the arguments of a route stand in its request. */
export type RequestPart = 'params' | 'query' | 'body';

/** A parameter of a route, as far as the view needs it. */
export interface RoutedParam {
  readonly part: RequestPart;
  /** The name of the one argument; `undefined`: all that {@link RoutedParams.omitted} does not name. */
  readonly field: string | undefined;
}

/** The parameters of a method that is a route too. */
export interface RoutedParams {
  readonly args: readonly RoutedParam[];
  /** Named arguments that parameters without a name do not get. */
  readonly omitted?: readonly string[] | undefined;
}

type Arguments = Readonly<Record<string, unknown>>;

const PARTS: readonly RequestPart[] = ['params', 'query', 'body'];
const VIEW: unique symbol = Symbol('nestjs-mcp-streamable:request-view');
const NONE: Arguments = Object.freeze({});

/**
 * # The request of a call whose method is a route too
 *
 * Enhancers of such a method are written for its route: a guard reads `request.query.owner`. In the POST of the endpoint
 * that is what the client wrote into the URL, while the method gets the argument. So they, and the method, get an object
 * whose prototype is the request, and whose `params`, `query` and `body` hold the arguments, each where the decorator of
 * its parameter takes it from. All else is that of the POST, `method` and `url` too.
 *
 * - each call has its own: what a guard writes into it stays in the call
 * - the arguments are those that the client sent, before validation, as on a route
 * - what an enhancer writes into one of the three, or in its place, the method gets: {@link argumentsOf}
 *
 * @param args `undefined` while a list is made
 * @returns a view, whose three parts throw {@link ArgumentsAsked} when there are no arguments
 */
export function requestView(request: unknown, args: Arguments | undefined, params: RoutedParams): object {
  const view = Object.create(isObject(request) ? request : null) as object;
  Object.defineProperty(view, VIEW, { value: true });
  const parts = args && partsOf(args, params);
  for (const part of PARTS) {
    // Defined, not set: `query` of Express is a getter without a setter.
    const property = parts ? { value: parts[part], writable: true } : { get: refuse };
    Object.defineProperty(view, part, { ...property, enumerable: true, configurable: true });
  }
  return view;
}

export function isRequestView(request: object): boolean {
  return Object.hasOwn(request, VIEW);
}

/** The arguments with what enhancers have written into the view of them. */
export function argumentsOf(view: unknown, args: Arguments, { args: params, omitted }: RoutedParams): Arguments {
  const current: Record<string, unknown> = { ...args };
  for (const { part, field } of params) {
    const given: unknown = (view as Record<RequestPart, unknown>)[part];
    const written = isObject(given) ? (given as Arguments) : NONE;
    const names = field === undefined ? new Set([...Object.keys(args), ...Object.keys(written)]) : [field];
    for (const name of names) {
      if (field === undefined && omitted?.includes(name)) continue;
      const value = Object.hasOwn(written, name) ? written[name] : undefined;
      if (value === (Object.hasOwn(args, name) ? args[name] : undefined)) continue;
      if (value === undefined) Reflect.deleteProperty(current, name);
      else current[name] = value;
    }
  }
  return current;
}

function partsOf(args: Arguments, { args: params, omitted }: RoutedParams): Record<RequestPart, Arguments> {
  const parts = { params: {}, query: {}, body: {} };
  for (const { part, field } of params) {
    const names = field === undefined ? Object.keys(args).filter((name) => !omitted?.includes(name)) : [field];
    // No assignment: a client may name an argument `__proto__`.
    const taken = names.filter((name) => Object.hasOwn(args, name)).map((name) => [name, args[name]] as const);
    parts[part] = { ...parts[part], ...Object.fromEntries(taken) };
  }
  return parts;
}

/** A guard read arguments while a list is made: it cannot decide whether an entry is shown. */
export class ArgumentsAsked extends Error {
  constructor() {
    super('A list has no arguments.');
  }
}

function refuse(): never {
  throw new ArgumentsAsked();
}
