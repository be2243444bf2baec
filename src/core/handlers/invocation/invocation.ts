import { AsyncResource } from 'node:async_hooks';
import { Observable } from 'rxjs';
import { isThenable } from '../../common/promises.js';
import type { HandlerRound, McpContext } from '../../calls/mcp-context.js';
import type { McpHandlerCall, McpHandlerKind } from '../../calls/mcp-execution-context.js';
import { HandlerCancelled } from '../../calls/handler-signals.js';
import { comesInParts, Drain } from '../results/drain.js';
import type { RequestPart, Validate } from '../schema/handler-schema.js';
import { ResponseFacade } from './response-facade.js';

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
  readonly strategy: ArgumentsStrategy;
  readonly validate: Validate | undefined;
}

/**
 * Decides what the arguments of a method are, and which request it and its enhancers see. One object serves all calls of a method. A
 * method that is a route too has another one than {@link PLAIN}.
 */
export interface ArgumentsStrategy {
  /**
   * Returns the context of a call with another request; absent: method and enhancers see the request of HTTP.
   *
   * @param raw the arguments as the client sent them; `undefined` while a list is made
   */
  contextOf?(context: McpContext, raw: unknown, call: Invocation): McpContext;
  /** Validates the arguments. @returns them, or a promise of them, in a form of its own @throws or rejects if they are not valid */
  validate(raw: unknown, call: Invocation): unknown;
  /** Returns what a parameter gets of the validated arguments: a {@link PipedValue}, if its pipes get something else. */
  argument(valid: unknown, field: string | undefined, part: RequestPart, call: Invocation): unknown;
  /** Returns the validated arguments by their names; absent: the validated arguments have these names. */
  named?(raw: unknown, call: Invocation): unknown;
  /** Returns the parameters as the method gets them, or a promise of them; absent: as pipes have left them. */
  params?(piped: unknown[], call: Invocation): unknown[] | PromiseLike<unknown[]>;
}

/** The arguments are those that the client sent, validated. */
export const PLAIN: ArgumentsStrategy = Object.freeze({
  validate: (raw: unknown, { about: { validate } }: Invocation) => (validate ? validate(raw) : raw),
  argument: (valid: unknown, field?: string) => (field === undefined ? valid : fieldOf(valid, field)),
});

/** A parameter gets this value: its pipes get the raw one, and a parameter without pipes the checked one. */
export class PipedValue {
  constructor(
    readonly raw: unknown,
    readonly value: unknown,
  ) {}
}

/** The call as a handler and its enhancers see it; the response that they get refers to it. */
export class Invocation implements McpHandlerCall {
  /**
   * Whether the parameters are being created: then all guards have accepted the caller. A 401 or 403 from here on is a failure of
   * the handler, not a denial.
   */
  entered = false;
  /** Whether nothing surrounds the method: then a result in parts is drained at once. */
  alone = false;
  readonly context: McpContext;
  #response: ResponseFacade<Invocation> | undefined;
  #validated: { readonly args: unknown } | undefined;
  /** Holds more than one when an interceptor runs the method again. */
  #drains: Set<Drain> | undefined;
  #ended = false;

  constructor(
    readonly about: HandlerDescription,
    private readonly raw: unknown,
    private readonly given: McpContext,
  ) {
    this.context = about.strategy.contextOf?.(given, raw, this) ?? given;
  }

  /** The response that enhancers get: without enhancers there is none. */
  get response(): ResponseFacade<Invocation> {
    return (this.#response ??= new ResponseFacade<Invocation>(this.context.request, this, this.given.request));
  }

  get args(): unknown {
    return this.raw;
  }

  /**
   * The arguments or a promise of them, which rejects if they are not valid: each parameter fails by it. They are validated once, when
   * the first parameter needs them.
   */
  get valid(): unknown {
    if (this.#validated) return this.#validated.args;
    let args: unknown;
    try {
      args = this.about.strategy.validate(this.raw, this);
    } catch (error) {
      args = Promise.reject(error);
    }
    this.#validated = { args };
    return args;
  }

  /** Returns an argument as the handler gets it. */
  argument(field: string | undefined, part: RequestPart): unknown {
    const { valid } = this;
    const { strategy } = this.about;
    if (!isThenable(valid)) return strategy.argument(valid, field, part, this);
    return valid.then((args) => strategy.argument(args, field, part, this));
  }

  /** Returns the arguments for what decides before the method runs: by their names, as the method gets them. */
  get validArguments(): unknown {
    const { valid } = this;
    const { strategy } = this.about;
    if (!strategy.named) return valid;
    return isThenable(valid) ? valid.then(() => strategy.named!(this.raw, this)) : strategy.named(this.raw, this);
  }

  /**
   * Calls the method.
   *
   * @param params the parameters without those that are the context
   * @returns the result of the method. Inside interceptors, a result in parts becomes an Observable of its value, so their
   *   operators apply: `timeout()` unsubscribes from the source, and `retry()` unsubscribes before it subscribes again
   */
  call(instance: unknown, params: unknown[]): unknown {
    const entering = this.context.entering(this);
    return entering ? entering.then(() => this.#call(instance, params)) : this.#call(instance, params);
  }

  #call(instance: unknown, params: unknown[]): unknown {
    const { context } = this;
    const { contextAt, strategy } = this.about;
    // The call may have ended while guards and pipes ran: then the method must not run.
    if (context.aborted) throw new HandlerCancelled(context.signal.reason);
    for (const index of contextAt) params[index] = context;
    const values = strategy.params ? strategy.params(params, this) : params;
    return isThenable(values) ? values.then((made) => this.#enter(instance, made)) : this.#enter(instance, values);
  }

  #enter(instance: unknown, values: unknown[]): unknown {
    const { handler } = this.about;
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

  #settled(value: unknown): unknown {
    if (!comesInParts(value)) return value;
    if (this.alone) return new Drain(value, this.context, this.about.origin).result;
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

/** Thrown when a guard reads arguments while a list is made: it cannot decide whether an entry is shown. */
export class ArgumentsAsked extends Error {
  constructor() {
    super('A list has no arguments.');
  }
}

/** Guards get this invocation while a list is made. */
export class ListingInvocation extends Invocation {
  /** Throws: a list has no arguments. @throws ArgumentsAsked */
  override get args(): never {
    throw new ArgumentsAsked();
  }
}
