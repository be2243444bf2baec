import type { McpContext } from '../calls/mcp-context.js';
import { isThenable } from '../common/promises.js';
import { type ArgumentsStrategy, type Invocation, PipedValue, PLAIN } from '../handlers/invocation/invocation.js';
import type { ArgumentParam, RequestPart } from '../handlers/schema/handler-schema.js';
import { isObject } from '../protocol/json-rpc.js';
import { requestView, type SeenRoute, sentParts } from './request-view.js';
import type { RouteSchema } from './route-schema.js';
import {
  asSent,
  type CheckedValues,
  isAsSent,
  type JsonArguments,
  keyOf,
  partsOf,
  type RouteParts,
  valueOf,
} from './route-values.js';

/**
 * The arguments of a method that is a route too, whose schema is made of the route. They stand in a view of the request, where enhancers
 * read and change them, and are checked parameter by parameter.
 */
export class RouteArguments implements ArgumentsStrategy {
  constructor(
    private readonly route: SeenRoute,
    private readonly schema: RouteSchema,
  ) {}

  contextOf(context: McpContext, raw: unknown, call: Invocation): McpContext {
    const parts = raw === undefined ? undefined : partsOf(raw as JsonArguments, this.schema);
    return context.seeing(requestView(context.request, parts, this.route, call));
  }

  validate(raw: unknown, { context: { request } }: Invocation): CheckedValues | Promise<CheckedValues> {
    return this.schema.checks.validate(request as RouteParts, {
      parts: sentParts(request),
      args: raw as JsonArguments,
    });
  }

  argument(valid: unknown, field: string | undefined, part: RequestPart, { context }: Invocation): PipedValue {
    const whole = (context.request as RouteParts)[part];
    const raw = field === undefined ? whole : valueOf(whole, field);
    const values = valid as CheckedValues;
    const key = keyOf(part, field);
    return new PipedValue(raw, values.has(key) ? values.get(key) : raw);
  }

  /** Returns the arguments with what enhancers have written into the view of them. */
  named(raw: unknown, { context: { request } }: Invocation): JsonArguments {
    const sent = sentParts(request);
    const entries = Object.entries(raw as JsonArguments).map(([name, argument]): [string, unknown] => {
      const place = this.schema.places.get(name);
      if (!place) return [name, argument];
      const value = valueOf((request as RouteParts)[place.part], place.field);
      const isSame = value === valueOf(sent[place.part], place.field) && isAsSent(value, argument, place.part);
      return [name, isSame ? argument : value];
    });
    return Object.fromEntries(entries);
  }

  /** Checks the arguments, too, if no parameter has asked for them: guards have read the path. */
  params(piped: unknown[], { valid }: Invocation): unknown[] | PromiseLike<unknown[]> {
    return isThenable(valid) ? valid.then(() => piped.map(checked)) : piped.map(checked);
  }
}

/** Returns what the method gets: the checked value, where no pipe has made another one. */
function checked(param: unknown): unknown {
  return param instanceof PipedValue ? param.value : param;
}

/**
 * The arguments of a method that is a route too, whose schema was written by hand, or which is no tool: the schema checks them as one
 * object, with what enhancers have changed.
 */
export class HandWrittenArguments implements ArgumentsStrategy {
  /** Lists the named arguments that parameters without a name do not get. */
  readonly #omitted: readonly string[];
  readonly #places: readonly Pick<ArgumentParam, 'part' | 'field'>[];

  constructor(
    private readonly route: SeenRoute,
    private readonly args: readonly ArgumentParam[],
    pathNames: readonly string[],
  ) {
    this.#omitted = omittedOf(args);
    this.#places = [...pathNames.map((field) => ({ part: 'params' as const, field })), ...args];
  }

  contextOf(context: McpContext, raw: unknown, call: Invocation): McpContext {
    const parts = raw === undefined ? undefined : this.#partsOf(givenTo(call, raw));
    return context.seeing(requestView(context.request, parts, this.route, call));
  }

  validate(raw: unknown, call: Invocation): unknown {
    const { kind, validate } = call.about;
    const args = this.#left(call.context.request, givenTo(call, raw));
    const left = kind === 'template' ? { uri: args['uri'], variables: args } : args;
    return validate ? validate(left) : left;
  }

  argument(valid: unknown, field: string | undefined, part: RequestPart, call: Invocation): unknown {
    const value = PLAIN.argument(valid, field, part, call);
    if (field !== undefined || !this.#omitted.some((name) => valueOf(valid, name) !== undefined)) return value;
    return Object.fromEntries(Object.entries(value as object).filter(([name]) => !this.#omitted.includes(name)));
  }

  #partsOf(args: JsonArguments): RouteParts {
    const parts = { params: {}, query: {}, body: {} };
    for (const { part, field } of this.#places) {
      const names = field === undefined ? Object.keys(args).filter((name) => !this.#omitted.includes(name)) : [field];
      // The names are not assigned: a client may name an argument `__proto__`.
      const taken = names
        .filter((name) => Object.hasOwn(args, name))
        .map((name) => [name, asSent(args[name], part, this.route.splitNames.has(name) ? '/' : undefined)] as const);
      parts[part] = { ...parts[part], ...Object.fromEntries(taken) };
    }
    return parts;
  }

  /** Returns what enhancers have left of the arguments. */
  #left(view: unknown, args: JsonArguments): JsonArguments {
    const current: Record<string, unknown> = { ...args };
    const sent = sentParts(view);
    for (const { part, field } of this.args) {
      const given: unknown = (view as RouteParts)[part];
      const written = isObject(given) ? (given as JsonArguments) : {};
      const before = sent[part] as JsonArguments;
      const names = field === undefined ? new Set([...Object.keys(before), ...Object.keys(written)]) : [field];
      for (const name of names) {
        if (field === undefined && this.#omitted.includes(name)) continue;
        const value = Object.hasOwn(written, name) ? written[name] : undefined;
        const isSame = value === (Object.hasOwn(before, name) ? before[name] : undefined);
        if (isSame && isAsSent(value, args[name], part)) continue;
        if (value === undefined) Reflect.deleteProperty(current, name);
        else current[name] = value;
      }
    }
    return current;
  }
}

/** Returns the arguments as the method gets them: those of a template are its variables. */
function givenTo({ about: { kind } }: Invocation, raw: unknown): JsonArguments {
  if (kind !== 'template') return raw as JsonArguments;
  const { uri, variables } = raw as { readonly uri: unknown; readonly variables: object };
  return { ...variables, uri };
}

/**
 * Returns the named arguments that are no part of `@Body()`, unless its class has them: a pipe that refuses other properties would
 * refuse each call.
 */
function omittedOf(args: readonly ArgumentParam[]): string[] {
  const classes = args.flatMap(({ field, type }) => (field === undefined && typeof type === 'function' ? [type] : []));
  const ofClass = (field: string): boolean =>
    classes.some(({ prototype }) => Reflect.hasMetadata('design:type', prototype as object, field));
  return args.flatMap(({ field }) => (field === undefined || ofClass(field) ? [] : [field]));
}
