import 'reflect-metadata';
import type { ExecutionContext } from '@nestjs/common';
import { McpContext } from '../../calls/mcp-context.js';
import { HANDLER_CALL } from '../../calls/mcp-execution-context.js';
import { contextFactory, ROUTE_ARGUMENTS } from '../decorators/param.decorators.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import type { ArgumentParam, RequestPart } from '../schema/handler-schema.js';
import type { Invocation, Method } from './invocation.js';
import type { ResponseFacade } from './response-facade.js';

/** The key of each entry there whose decorator was made by `createParamDecorator()` contains this text. */
const CUSTOM_ARGUMENT = '__customRouteArgs__';
const GUARDS_METADATA = '__guards__';
const PARAM_TYPES = 'design:paramtypes';

/** Our copy of the metadata has this key: Nest's own key is for routes. */
export const HANDLER_ARGUMENTS = 'nestjs-mcp-streamable:arguments';

/** One decorated parameter, as Nest stores it. */
interface ParamEntry {
  readonly index: number;
  readonly data?: unknown;
  readonly factory?: (data: unknown, context: ExecutionContext) => unknown;
  readonly pipes?: readonly unknown[];
  /** Present on Nest 12. */
  readonly schema?: unknown;
}

type ParamEntries = Readonly<Record<string, ParamEntry>>;

type Host = new (...args: never[]) => object;

/** Describes how the parameters of a method are made. */
export interface ParamLayout {
  /** Lists for Nest everything that goes through pipes. */
  readonly entries: ParamEntries;
  /** Lists the parameters that are the `McpContext`, which no pipe sees. */
  readonly contextAt: readonly number[];
  /**
   * The index of an additional parameter, after those of the method, that passes the invocation to the stand-in. No pipe
   * sees it.
   */
  readonly invocationAt: number;
  readonly args: readonly ArgumentParam[];
  /**
   * Whether arguments and the context are all there are, and no pipe stands at one of them: then they can be made
   * without Nest.
   */
  readonly plain: boolean;
  /**
   * Whether parameters have decorators. Without decorators the first parameter takes arguments, which the method may
   * ignore.
   */
  readonly decorated: boolean;
}

/** Says which parameters methods of a kind may have. */
export interface ParamRules {
  /** Lists the parts of a request whose decorators take arguments. */
  readonly parts: readonly RequestPart[];
  /** Whether `@Res({ passthrough: true })` gives the response. */
  readonly givesResponse: boolean;
  /** Says why parameters need decorators; absent: without them the first one takes the arguments, and the second is the context. */
  readonly undecorated?: string;
  /** Returns why a parameter is refused, and what to do. @param decorator its name */
  refusal(decorator: string): string;
}

/** The rules of methods that are handlers alone. */
const OF_HANDLERS: ParamRules = {
  parts: ['body'],
  givesResponse: false,
  refusal: (decorator) =>
    `a parameter has ${decorator}, which only an HTTP route has. Use @McpArgs(), @McpCtx(), @Req(), @Headers(), or a custom decorator.`,
};

/** Nest numbers its own decorators for parameters. */
const BODY = 3;
/**
 * Maps the decorators of arguments to the part of a request that a route takes them from: `@Body()`, and on a route
 * `@Query()` and `@Param()`. A tool's arguments have one place, so each gives that of its name there, or all.
 */
const ARGUMENTS: Readonly<Record<number, RequestPart>> = { [BODY]: 'body', 4: 'query', 5: 'params' };
/** Nest stores under this key that a method only adds to its response: `@Res({ passthrough: true })`. */
const PASSTHROUGH = '__responsePassthrough__';
const RESPONSE = 1;
const FROM_REQUEST: Readonly<
  Record<number, (request: RequestLike, name: unknown, response: ResponseFacade) => unknown>
> = {
  0: (request) => request,
  [RESPONSE]: (_request, _name, response) => response,
  6: ({ headers }, name) => (typeof name === 'string' ? headers?.[name.toLowerCase()] : headers),
  7: ({ session }) => session,
  11: ({ ip }) => ip,
};
const OF_ROUTES: Readonly<Record<number, string>> = {
  [RESPONSE]: '@Res()',
  2: '@Next()',
  4: '@Query()',
  5: '@Param()',
  8: '@UploadedFile()',
  9: '@UploadedFiles()',
  10: '@HostParam()',
  12: '@RawBody()',
};

interface RequestLike {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly ip?: unknown;
  readonly session?: unknown;
}

const argumentsAt = (index: number): ParamEntries => ({ [`${BODY}:${index}`]: { index, pipes: [] } });
const contextAt = (index: number): ParamEntries => ({
  [`context${CUSTOM_ARGUMENT}:${index}`]: { index, factory: contextFactory, pipes: [] },
});

/** The param decorator of the invocation has this data, so that pipes skip it. */
const INVOCATION_DATA = Symbol('nestjs-mcp-streamable:invocation');

/** Notes also that the parameters are being made: Nest asks for all of them before it awaits the first. */
const INVOCATION_PARAM: Omit<Required<ParamEntry>, 'index' | 'schema'> = {
  data: INVOCATION_DATA,
  pipes: [],
  factory: (_data, context): InvocationValue => {
    const invocation = context.getArgByIndex<ResponseFacade<Invocation>>(1)[HANDLER_CALL]!;
    invocation.entered = true;
    return () => invocation;
  },
};

/**
 * Reads the decorators of a method's parameters, and writes metadata for Nest on how to create them. Without decorators
 * they are `(args, ctx)`, or follow their types.
 *
 * @param origin names the handler in messages
 * @throws McpHandlerDefinitionError for a parameter that a method of its kind cannot have, and for one whose meaning is unknown
 */
export function layoutOf(host: Host, methodName: string, origin: string, rules: ParamRules = OF_HANDLERS): ParamLayout {
  const paramsHost = paramsHostOf(host, methodName);
  const prototype = paramsHost.prototype as object;
  const types = (Reflect.getMetadata(PARAM_TYPES, prototype, methodName) as unknown[] | undefined) ?? [];
  const noted = (Reflect.getMetadata(ROUTE_ARGUMENTS, paramsHost, methodName) as ParamEntries | undefined) ?? {};
  const decorated = Object.keys(noted).length > 0;
  const undecorated = types[0] === McpContext ? [argumentsAt(1), contextAt(0)] : [argumentsAt(0), contextAt(1)];
  // From the first one with a default value on, parameters do not count into the length: they can do without a value.
  const method = methodOf(host.prototype as object, methodName);
  const needed = method?.length ?? 0;
  if (rules.undecorated !== undefined && !decorated && Math.max(needed, types.length) > 0)
    throw new McpHandlerDefinitionError(origin, rules.undecorated);
  const all = decorated ? withContext(noted, types, needed, origin) : { ...undecorated[0], ...undecorated[1] };
  const piped = Object.entries(all).filter(([, entry]) => !isContext(entry));
  const passthrough = Reflect.getMetadata(PASSTHROUGH, paramsHost, methodName) === true;
  for (const [key] of piped) assertServable(key, rules, passthrough, origin);
  const invocationAt = Math.max(...Object.values(all).map(({ index }) => index)) + 1;
  const invocation = [
    `invocation${CUSTOM_ARGUMENT}:${invocationAt}`,
    { ...INVOCATION_PARAM, index: invocationAt },
  ] as const;
  const entries: ParamEntries = Object.fromEntries<ParamEntry>([invocation, ...piped]);
  Reflect.defineMetadata(HANDLER_ARGUMENTS, entries, paramsHost, methodName);
  const args = piped
    .filter(([key]) => isArgument(key))
    .map(([key, { index, data, pipes = [], schema }]) => ({
      index,
      field: data as string | undefined,
      part: ARGUMENTS[typeOf(key)!]!,
      type: types[index],
      pipes,
      schema,
    }));
  return {
    entries,
    contextAt: Object.values(all)
      .filter(isContext)
      .map(({ index }) => index),
    invocationAt,
    args,
    plain: args.length === piped.length && piped.every(([, { pipes }]) => !pipes?.length),
    decorated,
  };
}

/** Adds the context: beside decorated parameters, one without a decorator is the context. */
function withContext(decorated: ParamEntries, types: readonly unknown[], needed: number, origin: string): ParamEntries {
  const taken = Object.values(decorated).map(({ index }) => index);
  const free = Array.from({ length: Math.max(needed, types.length) }, (_, index) => index).filter(
    (index) => !taken.includes(index),
  );
  const typed = free.filter((index) => types[index] === McpContext);
  const unknown = free.filter((index) => index < needed && !typed.includes(index));
  const hasContext = typed.length > 0 || Object.values(decorated).some(isContext);
  const [first] = unknown;
  if (first === undefined) return Object.assign({}, decorated, ...typed.map(contextAt)) as ParamEntries;
  // The metadata of an interface, a type import and `any` is `Object`.
  const mayBeContext = types[first] === undefined || types[first] === Object;
  if (unknown.length === 1 && !hasContext && mayBeContext) return { ...decorated, ...contextAt(first) };
  throw new McpHandlerDefinitionError(
    origin,
    `its parameter ${first} (counted from 0) has no decorator, while others have one. Decorate it: @McpArgs('name') for an argument, @McpCtx() for the context. A single parameter without a decorator is the context.`,
  );
}

/** Creates the values that Nest's own decorators inject; shared by all handlers, as all values come from the call. */
export const handlerParams = {
  exchangeKeyForValue(type: number, data: unknown, args: readonly unknown[]): unknown {
    const part = ARGUMENTS[type];
    const response = args[1] as ResponseFacade<Invocation>;
    if (part) return response[HANDLER_CALL]!.argument(typeof data === 'string' ? data : undefined, part);
    return FROM_REQUEST[type]?.(args[0] ?? {}, data, response);
  },
};

/**
 * Returns whether pipes see a parameter; as on a route, not what stands in the request itself.
 *
 * @param type Nest's number, or its key
 */
export function isPiped({ type, data }: { readonly type?: unknown; readonly data?: unknown }): boolean {
  return data !== INVOCATION_DATA && !Object.hasOwn(FROM_REQUEST, String(type));
}

/** Returns whether a parameter is the context. With pipes it is a parameter like others, and they see it. */
function isContext({ factory, pipes }: ParamEntry): boolean {
  return factory === contextFactory && !pipes?.length;
}

function assertServable(key: string, rules: ParamRules, passthrough: boolean, origin: string): void {
  const type = typeOf(key);
  const part = type === undefined ? undefined : ARGUMENTS[type];
  if (type === undefined || (part && rules.parts.includes(part))) return;
  const isServable = type === RESPONSE ? rules.givesResponse && passthrough : type in FROM_REQUEST;
  if (isServable) return;
  throw new McpHandlerDefinitionError(origin, rules.refusal(OF_ROUTES[type] ?? `a decorator of type ${type}`));
}

function isArgument(key: string): boolean {
  const type = typeOf(key);
  return type !== undefined && type in ARGUMENTS;
}

/** Returns Nest's number of the decorator; `undefined` for one made by `createParamDecorator()`. */
function typeOf(key: string): number | undefined {
  return key.includes(CUSTOM_ARGUMENT) ? undefined : Number(key.split(':', 1)[0]);
}

/**
 * Returns the function that Nest calls in place of a method: `ExternalContextCreator` keeps only the last value of an
 * Observable, so that progress and cancellation would be lost. The stand-in drains the result itself.
 *
 * Its prototype is the method: metadata, name and length are found through it, so that a `Reflector` finds the metadata
 * of the decorators.
 */
export function standInFor(method: Method, { invocationAt }: ParamLayout): Method {
  return withMetadataOf(method, function standIn(this: unknown, ...params: unknown[]): unknown {
    const invocation = (params[invocationAt] as InvocationValue)();
    params.length = invocationAt;
    return invocation.call(this, params);
  });
}

/** Returns the function that Nest calls when only guards are asked. */
export function emptyStandInFor(method: Method): Method {
  return withMetadataOf(method, () => undefined);
}

/** Returns a function that does the same, with guards of its own beside those that decorators have put on it. */
export function withGuards(method: Method, guards: readonly unknown[]): Method {
  const marked = withMetadataOf(method, (...params) => Reflect.apply(method, undefined, params));
  const decorated = (Reflect.getMetadata(GUARDS_METADATA, method) as unknown[] | undefined) ?? [];
  const all = [...decorated, ...guards];
  if (all.length > 0) Reflect.defineMetadata(GUARDS_METADATA, all, marked);
  return marked;
}

/** Returns a function that does the same as a method, with one more decorator. */
export function decorated(method: Method, decorator: MethodDecorator, prototype: object, name: string): Method {
  const marked = withMetadataOf(method, function marked(this: unknown, ...params: unknown[]): unknown {
    return Reflect.apply(method, this, params);
  });
  decorator(prototype, name, { value: marked });
  return marked;
}

/** An invocation reaches the stand-in as the value of one more parameter. */
type InvocationValue = () => Invocation;

function withMetadataOf(method: Method, standIn: Method): Method {
  for (const key of ['name', 'length']) Reflect.deleteProperty(standIn, key);
  Object.setPrototypeOf(standIn, method);
  return standIn;
}

/** Returns the method of a class by its name, also an inherited one. */
export function methodOf(holder: object, name: string): Method | undefined {
  const method: unknown = Reflect.get(holder, name);
  return typeof method === 'function' ? (method as Method) : undefined;
}

/**
 * Returns the class whose metadata has the parameters of a method: the one that declared it, which a mixin may have copied to
 * another. The same rule as in Nest.
 */
function paramsHostOf(host: Host, methodName: string): Host {
  const prototype = host.prototype as Record<string, unknown> & { constructor?: unknown };
  const declaring = prototype.constructor as Host | undefined;
  const declares =
    typeof declaring === 'function' &&
    (declaring.prototype as Record<string, unknown> | undefined)?.[methodName] === prototype[methodName];
  return declares ? declaring : host;
}
