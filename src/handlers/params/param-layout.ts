import type { ExecutionContext } from '@nestjs/common';
import { invocationMessages } from '../invocation.messages.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import type { Ticket } from '../invocation/handler-shell.js';
import type { Invocation } from '../invocation/invocation.js';
import { CUSTOM_ARGUMENT, paramsHostOf, ROUTE_ARGUMENTS } from '../invocation/nest-metadata.js';
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

/** Without decorators: `(args, ctx)`. */
const UNDECORATED: ParamEntries = {
  [`${BODY}:0`]: { index: 0, pipes: [] },
  [`context${CUSTOM_ARGUMENT}:1`]: { index: 1, factory: contextFactory, pipes: [] },
};

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
 * @throws HandlerDefinitionError for a parameter that only a route has
 */
export function layoutOf(host: Parameters<typeof paramsHostOf>[0], methodName: string, origin: string): ParamLayout {
  const paramsHost = paramsHostOf(host, methodName);
  const noted = Reflect.getMetadata(ROUTE_ARGUMENTS, paramsHost, methodName) as ParamEntries | undefined;
  const decorated = Object.entries(noted && Object.keys(noted).length > 0 ? noted : UNDECORATED);
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
