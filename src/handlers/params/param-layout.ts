import type { ExecutionContext } from '@nestjs/common';
import { McpContext } from '../../context/mcp-context.js';
import { invocationMessages } from '../invocation.messages.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import type { Ticket } from '../invocation/handler-shell.js';
import type { Invocation } from '../invocation/invocation.js';
import { CUSTOM_ARGUMENT, methodOf, PARAM_TYPES, paramsHostOf, ROUTE_ARGUMENTS } from '../invocation/nest-metadata.js';
import { contextFactory } from './mcp-params.decorators.js';

/** Where our copy of the metadata is kept: what stands in Nest's own place is for routes. */
export const HANDLER_ARGUMENTS = 'nestjs-mcp-streamable:arguments';

/** One decorated parameter, as Nest notes it. */
interface ParamEntry {
  readonly index: number;
  readonly data?: unknown;
  readonly factory?: (data: unknown, context: ExecutionContext) => unknown;
  readonly pipes?: readonly unknown[];
}

type ParamEntries = Readonly<Record<string, ParamEntry>>;

type Host = Parameters<typeof paramsHostOf>[0];

/** How the parameters of a method are made. */
export interface ParamLayout {
  /** For Nest: everything that goes through pipes. */
  readonly entries: ParamEntries;
  /** Parameters that are the `McpContext`, which no pipe sees. */
  readonly contextAt: readonly number[];
  /** One more parameter, behind those of the method: how the invocation comes to the shell. No pipe sees it. */
  readonly ticketAt: number;
  /**
   * The parameters that are arguments, when those and the context are all there are and no pipe stands at one of them:
   * then they can be made without Nest.
   */
  readonly plain: readonly { readonly index: number; readonly field: unknown }[] | undefined;
}

/** Nest's numbers of its own decorators for parameters. */
const BODY = 3;
const FROM_REQUEST: Readonly<Record<number, (request: RequestLike, name: unknown) => unknown>> = {
  0: (request) => request,
  6: ({ headers }, name) => (typeof name === 'string' ? headers?.[name.toLowerCase()] : headers),
  11: ({ ip }) => ip,
};
const OF_ROUTES: Readonly<Record<number, string>> = {
  1: '@Res()',
  2: '@Next()',
  4: '@Query()',
  5: '@Param()',
  7: '@Session()',
  8: '@UploadedFile()',
  9: '@UploadedFiles()',
  10: '@HostParam()',
  12: '@RawBody()',
};

interface RequestLike {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly ip?: unknown;
}

const argumentsAt = (index: number): ParamEntries => ({ [`${BODY}:${index}`]: { index, pipes: [] } });
const contextAt = (index: number): ParamEntries => ({
  [`context${CUSTOM_ARGUMENT}:${index}`]: { index, factory: contextFactory, pipes: [] },
});

/** Stands where the data of a param decorator is, and keeps pipes from the ticket. */
export const TICKET_DATA = Symbol('nestjs-mcp-streamable:ticket');

/** Also notes that the parameters are being made: Nest asks for all of them before it awaits the first. */
const TICKET: Omit<Required<ParamEntry>, 'index'> = {
  data: TICKET_DATA,
  pipes: [],
  factory: (_data, context): Ticket => {
    const invocation = context.getArgByIndex<Invocation>(3);
    invocation.entered = true;
    return () => invocation;
  },
};

/**
 * Reads what the decorators say of a method's parameters, and notes for Nest how they are made.
 *
 * @param origin for messages
 * @throws HandlerDefinitionError for a parameter that only a route has, and for one of which nothing says what it is
 */
export function layoutOf(host: Host, methodName: string, origin: string): ParamLayout {
  const paramsHost = paramsHostOf(host, methodName);
  const decorated = Object.entries(entriesOf(host, methodName, origin));
  const context = decorated.filter(([, entry]) => isContext(entry));
  const piped = decorated.filter(([, entry]) => !isContext(entry));
  for (const [key] of piped) assertServable(key, origin);
  const ticketAt = Math.max(...decorated.map(([, { index }]) => index)) + 1;
  const ticket = [`ticket${CUSTOM_ARGUMENT}:${ticketAt}`, { ...TICKET, index: ticketAt }] as const;
  const entries: ParamEntries = Object.fromEntries([ticket, ...piped]);
  // On both: Nest 12 reads from the first, early versions of Nest 11 from the second.
  for (const holder of new Set([paramsHost, host])) {
    Reflect.defineMetadata(HANDLER_ARGUMENTS, entries, holder, methodName);
  }
  return { entries, contextAt: context.map(([, { index }]) => index), ticketAt, plain: plainOf(piped) };
}

/** A parameter that is arguments of the call. */
export interface ArgumentParam {
  readonly index: number;
  /** The name of the one argument; `undefined`: all of them. */
  readonly field: string | undefined;
  /** As TypeScript left it behind; `undefined` in builds without decorator metadata. */
  readonly type: unknown;
  /** Not the first parameter of a method without decorators, which may ignore it. */
  readonly decorated: boolean;
}

/** @throws HandlerDefinitionError as {@link layoutOf} */
export function argumentParamsOf(host: Host, methodName: string, origin: string): ArgumentParam[] {
  const types = paramTypesOf(host, methodName);
  const decorated = decoratedOf(host, methodName) !== undefined;
  return Object.entries(entriesOf(host, methodName, origin))
    .filter(([key]) => typeOf(key) === BODY)
    .map(([, { index, data }]) => ({ index, field: data as string | undefined, type: types[index], decorated }));
}

/**
 * Without decorators the parameters are `(args, ctx)`, or what their types say. Beside decorated ones, one without a decorator
 * is the context.
 */
function entriesOf(host: Host, methodName: string, origin: string): ParamEntries {
  const types = paramTypesOf(host, methodName);
  const decorated = decoratedOf(host, methodName);
  if (decorated) return withContext(decorated, { host, methodName, types, origin });
  return types[0] === McpContext ? { ...argumentsAt(1), ...contextAt(0) } : { ...argumentsAt(0), ...contextAt(1) };
}

function decoratedOf(host: Host, methodName: string): ParamEntries | undefined {
  const noted: unknown = Reflect.getMetadata(ROUTE_ARGUMENTS, paramsHostOf(host, methodName), methodName);
  return noted && Object.keys(noted).length > 0 ? (noted as ParamEntries) : undefined;
}

function withContext(
  decorated: ParamEntries,
  { host, methodName, types, origin }: { host: Host; methodName: string; types: readonly unknown[]; origin: string },
): ParamEntries {
  const taken = new Set(Object.values(decorated).map(({ index }) => index));
  // From the first one with a default value on, a parameter does not count into the length: it can do without a value.
  const needed = methodOf(host.prototype as object, methodName)?.length ?? 0;
  const free = Array.from({ length: Math.max(needed, types.length) }, (_, index) => index).filter(
    (index) => !taken.has(index),
  );
  const typed = free.filter((index) => types[index] === McpContext);
  const unknown = free.filter((index) => index < needed && types[index] !== McpContext);
  const hasContext = typed.length > 0 || Object.values(decorated).some(isContext);
  const [first] = unknown;
  if (first === undefined) return Object.assign({}, decorated, ...typed.map(contextAt)) as ParamEntries;
  // `Object` is what an interface, a type import and `any` leave behind.
  const mayBeContext = types[first] === undefined || types[first] === Object;
  if (unknown.length === 1 && !hasContext && mayBeContext) return { ...decorated, ...contextAt(first) };
  throw new HandlerDefinitionError(origin, invocationMessages.undecoratedParam(first));
}

function paramTypesOf(host: Host, methodName: string): readonly unknown[] {
  const { prototype } = paramsHostOf(host, methodName);
  return (Reflect.getMetadata(PARAM_TYPES, prototype as object, methodName) as unknown[] | undefined) ?? [];
}

/** Makes what Nest's own decorators inject; the same for all handlers, as everything comes with the call. */
export const handlerParams = {
  exchangeKeyForValue(type: number, data: unknown, args: readonly unknown[]): unknown {
    if (type === BODY) return (args[3] as Invocation).argument(data);
    return FROM_REQUEST[type]?.(args[0] ?? {}, data);
  },
};

/** With pipes it is a parameter like others, and they see it. */
function isContext({ factory, pipes }: ParamEntry): boolean {
  return factory === contextFactory && !pipes?.length;
}

function assertServable(key: string, origin: string): void {
  const type = typeOf(key);
  if (type === undefined || type === BODY || type in FROM_REQUEST) return;
  throw new HandlerDefinitionError(
    origin,
    invocationMessages.routeParam(OF_ROUTES[type] ?? `a decorator of type ${type}`),
  );
}

function plainOf(entries: readonly (readonly [string, ParamEntry])[]): ParamLayout['plain'] {
  const plain = entries.every(([key, { pipes }]) => typeOf(key) === BODY && !pipes?.length);
  return plain ? entries.map(([, { index, data }]) => ({ index, field: data })) : undefined;
}

/** Nest's number of the decorator; `undefined` for one made by `createParamDecorator()`. */
function typeOf(key: string): number | undefined {
  return key.includes(CUSTOM_ARGUMENT) ? undefined : Number(key.split(':', 1)[0]);
}
