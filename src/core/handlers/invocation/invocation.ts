import { AsyncResource } from 'node:async_hooks';
import { Observable } from 'rxjs';
import { isThenable } from '../../common/promises.js';
import type { HandlerRound, McpContext } from '../../calls/mcp-context.js';
import type { McpHandlerCall, McpHandlerKind } from '../../calls/mcp-execution-context.js';
import { HandlerCancelled } from '../../calls/handler-signals.js';
import { comesInParts, Drain } from '../results/drain.js';
import type { Validate } from '../schema/handler-schema.js';
import { type RequestPart, type RouteParts, RouteValue, RouteValues } from '../../routes/route-values.js';
import {
  argumentsOf,
  ArgumentsAsked,
  namedArguments,
  requestView,
  type RoutedParams,
  sentParts,
} from '../../routes/request-view.js';

/** A method that was found on a provider. */
export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Describes one handler, as it was declared. */
export interface HandlerDescription {
  readonly kind: McpHandlerKind;
  readonly name: string;
  /** Names the method, such as `OrderTools.find`. */
  readonly origin: string;
  readonly handler: Method;
  /** The function that the app has written, if `handler` has other guards. */
  readonly given?: Method;
  readonly host: McpHandlerCall['about']['host'];
  /** Lists the parameters that are the `McpContext`. */
  readonly contextAt: readonly number[];
  /** Lists the arguments that parameters without a name do not get. */
  readonly omitted?: readonly string[] | undefined;
  /** Present if the method is a route too. */
  readonly routed?: RoutedParams | undefined;
  readonly validate: Validate | undefined;
}

/** The call as a handler and its enhancers see it; the response that they get refers to it. */
export class Invocation implements McpHandlerCall {
  /**
   * Whether the parameters are being created: then all guards have accepted the caller. A 401 or 403 from here on is a failure of
   * the handler, not a denial.
   */
  entered = false;
  /** Its request is a view of that of HTTP if the method is a route too. */
  readonly context: McpContext;
  #validated: { readonly args: unknown } | undefined;
  /** Holds more than one when an interceptor runs the method again. */
  #drains: Set<Drain> | undefined;
  #ended = false;

  constructor(
    readonly about: HandlerDescription,
    private readonly raw: unknown,
    context: McpContext,
  ) {
    const { routed } = about;
    this.context = routed ? context.seeing(requestView(context.request, this.#given, routed)) : context;
  }

  get args(): unknown {
    return this.raw;
  }

  /** Returns an argument as the handler gets it: arguments are validated once, when the first parameter needs them. */
  argument(field: unknown, part: RequestPart): unknown {
    const { args } = (this.#validated ??= { args: this.#validate() });
    return isThenable(args) ? args.then((valid) => this.#part(valid, field, part)) : this.#part(args, field, part);
  }

  /** Returns the arguments for what decides before the method runs: by their names, as the method gets them. */
  get validArguments(): unknown {
    const { args } = (this.#validated ??= { args: this.#validate() });
    return isThenable(args) ? args.then((valid) => this.#byName(valid)) : this.#byName(args);
  }

  #byName(valid: unknown): unknown {
    const route = this.about.routed?.route;
    return route ? namedArguments(this.context.request, this.#given ?? {}, route) : valid;
  }

  /**
   * Calls the method.
   *
   * @param params the parameters without those that are the context
   * @returns the result of the method. A result in parts becomes an Observable of its value, so operators of
   *   interceptors apply: `timeout()` unsubscribes from the source, and `retry()` unsubscribes before it subscribes
   *   again
   */
  call(instance: unknown, params: unknown[]): unknown {
    const entering = this.context.entering(this);
    return entering ? entering.then(() => this.#call(instance, params)) : this.#call(instance, params);
  }

  #call(instance: unknown, params: unknown[]): unknown {
    const { context } = this;
    const { contextAt, routed } = this.about;
    // The call may have ended while guards and pipes ran: then the method must not run.
    if (context.aborted) throw new HandlerCancelled(context.signal.reason);
    for (const index of contextAt) params[index] = context;
    // No parameter has asked for the arguments, while guards have read the path.
    const valid = routed?.route && !this.#validated ? this.#validate() : undefined;
    return isThenable(valid) ? valid.then(() => this.#enter(instance, params)) : this.#enter(instance, params);
  }

  #enter(instance: unknown, params: unknown[]): unknown {
    const { handler, routed } = this.about;
    // The route checks values that no pipe has seen.
    const values = routed?.route ? params.map((param) => (param instanceof RouteValue ? param.value : param)) : params;
    const { round } = this.context;
    round?.entered();
    let returned: unknown;
    try {
      returned = Reflect.apply(handler, instance, values);
    } catch (error) {
      round?.returned();
      throw error;
    }
    if (isThenable(returned)) {
      return round ? this.#reported(returned, round) : returned.then((value) => this.#settled(value));
    }
    round?.returned();
    return this.#settled(returned);
  }

  /** Reports to the round when a promise has settled. `then()` is called once: a query of some libraries runs each time. */
  #reported(returned: PromiseLike<unknown>, round: Pick<HandlerRound, 'returned'>): PromiseLike<unknown> {
    return returned.then(
      (value) => {
        round.returned();
        return this.#settled(value);
      },
      (error: unknown) => {
        round.returned();
        throw error;
      },
    );
  }

  /** Unsubscribes from sources that an interceptor left running after the call was answered. */
  end(): void {
    this.#ended = true;
    this.#drains?.forEach((drain) => drain.stop());
  }

  /**
   * Validates the arguments.
   *
   * @returns the arguments or a promise of them, which rejects if they are not valid: each parameter fails by it
   */
  #validate(): unknown {
    try {
      const { validate, routed } = this.about;
      if (routed?.route) {
        const view = this.context.request as RouteParts;
        return routed.route.checks.validate(view, { parts: sentParts(view), args: this.#given ?? {} });
      }
      const raw = routed ? this.#left(routed) : this.raw;
      return validate ? validate(raw) : raw;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Returns the arguments as a method gets them: those of a template are its variables. */
  get #given(): Readonly<Record<string, unknown>> | undefined {
    const raw = this.raw as Record<string, unknown> | undefined;
    return raw && this.about.kind === 'template' ? { ...(raw['variables'] as object), uri: raw['uri'] } : raw;
  }

  /** Returns what the enhancers of a route have left of the arguments. */
  #left(routed: RoutedParams): unknown {
    const args = argumentsOf(this.context.request, this.#given!, routed);
    return this.about.kind === 'template' ? { uri: args['uri'], variables: args } : args;
  }

  #part(args: unknown, field: unknown, part: RequestPart): unknown {
    if (args instanceof RouteValues) return args.of(part, field as string | undefined);
    const { omitted } = this.about;
    if (typeof field === 'string') return fieldOf(args, field);
    if (!omitted?.some((name) => fieldOf(args, name) !== undefined)) return args;
    return Object.fromEntries(Object.entries(args as object).filter(([name]) => !omitted.includes(name)));
  }

  #settled(value: unknown): unknown {
    if (!comesInParts(value)) return value;
    // Interceptors subscribe in another async context: the source must run in that of its method.
    const start = AsyncResource.bind(() => new Drain(value, this.context, this.about.origin));
    return new Observable((subscriber) => {
      if (this.#ended) throw new HandlerCancelled(undefined);
      const drained = start();
      const drains = (this.#drains ??= new Set());
      drains.add(drained);
      drained.result.then(
        (result) => {
          subscriber.next(result);
          subscriber.complete();
        },
        (error: unknown) => subscriber.error(error),
      );
      return () => {
        drained.stop();
        drains.delete(drained);
      };
    });
  }
}

function fieldOf(args: unknown, field: string): unknown {
  return typeof args === 'object' && args !== null && Object.hasOwn(args, field)
    ? (args as Record<string, unknown>)[field]
    : undefined;
}

/** Guards get this invocation while a list is made. */
export class ListingInvocation extends Invocation {
  /** Throws: a list has no arguments. @throws ArgumentsAsked */
  override get args(): never {
    throw new ArgumentsAsked();
  }
}
