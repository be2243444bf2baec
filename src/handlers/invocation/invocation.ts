import { AsyncResource } from 'node:async_hooks';
import { Observable } from 'rxjs';
import { isThenable } from '../../common/promises.js';
import type { McpContext } from '../../context/mcp-context.js';
import { McpHandlerCall, type McpHandlerKind } from '../../context/mcp-execution-context.js';
import { comesInParts, drain, type Drain } from '../results/drain.js';
import { HandlerCancelled } from '../results/handler-signal.js';
import type { Method } from './nest-metadata.js';

/** One handler, as it was declared. */
export interface HandlerDescription {
  readonly kind: McpHandlerKind;
  readonly name: string;
  /** `OrderTools.find`. */
  readonly origin: string;
  readonly methodName: string;
  readonly handler: Method;
  readonly host: McpHandlerCall['host'];
  readonly validate: ((raw: unknown) => unknown) | undefined;
}

/** No method has returned anything yet. */
export const NOT_RUN = Symbol('nestjs-mcp-streamable:not-run');

/** What a handler and everything around it is told of the call: the fourth argument in Nest. */
export class Invocation extends McpHandlerCall {
  /**
   * The parameters are being made: everybody who decides about the caller has let it in. A 401 or 403 from here on is
   * what the handler says of its own work.
   */
  entered = false;
  /** What the method gave when it last ran, before interceptors and filters saw it. */
  returned: unknown = NOT_RUN;
  #validated: Validated | undefined;
  /** More than one when an interceptor runs the method again. */
  #drains: Set<Drain> | undefined;
  #over = false;

  constructor(
    private readonly about: HandlerDescription,
    private readonly raw: unknown,
    readonly context: McpContext,
  ) {
    super();
  }

  get args(): unknown {
    return this.raw;
  }
  get kind(): McpHandlerKind {
    return this.about.kind;
  }
  get name(): string {
    return this.about.name;
  }
  get handler(): Method {
    return this.about.handler;
  }
  get host(): McpHandlerCall['host'] {
    return this.about.host;
  }

  /** The arguments as the handler gets them: validated when the first parameter needs them, and once. */
  argument(field?: unknown): unknown {
    const { validate } = this.about;
    if (!validate) return fieldOf(this.raw, field);
    const { args } = (this.#validated ??= validated(validate, this.raw));
    return isThenable(args) ? args.then((valid) => fieldOf(valid, field)) : fieldOf(args, field);
  }

  /**
   * What the method returned, however it comes. What comes in parts becomes an Observable of its value, which takes part in
   * what interceptors do: `timeout()` leaves the source, and `retry()` leaves the one before it asks for the next.
   */
  settle(returned: unknown): unknown {
    return isThenable(returned) ? this.#settledLater(returned) : this.#settled(returned);
  }

  /** The caller has its answer: a source that an interceptor left running, without unsubscribing from it, is left. */
  end(): void {
    this.#over = true;
    this.#drains?.forEach((drain) => drain.stop());
  }

  async #settledLater(promised: PromiseLike<unknown>): Promise<unknown> {
    return this.#settled(await promised);
  }

  #settled(value: unknown): unknown {
    if (!comesInParts(value)) return (this.returned = value);
    // Interceptors subscribe elsewhere: the source is to find the async context of its method.
    const start = AsyncResource.bind(() => drain(value, this.context, this.about.origin));
    return new Observable((subscriber) => {
      if (this.#over) throw new HandlerCancelled(undefined);
      const drained = start();
      const drains = (this.#drains ??= new Set());
      drains.add(drained);
      drained.result.then(
        (result) => {
          this.returned = result;
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

/** Its failure is that of whoever asks for an argument, each time. */
function validated(validate: (raw: unknown) => unknown, raw: unknown): Validated {
  try {
    return { args: validate(raw) };
  } catch (error) {
    return { args: Promise.reject(error) };
  }
}

interface Validated {
  /** Or a promise of them. */
  readonly args: unknown;
}

function fieldOf(args: unknown, field: unknown): unknown {
  if (typeof field !== 'string') return args;
  return typeof args === 'object' && args !== null && Object.hasOwn(args, field)
    ? (args as Record<string, unknown>)[field]
    : undefined;
}

/** What guards are told while a list is made. */
export class ListingInvocation extends Invocation {
  /** @throws ArgumentsAsked */
  override get args(): never {
    throw new ArgumentsAsked();
  }
}

/** A guard wants arguments where there are none: it cannot say whether an entry is shown. */
export class ArgumentsAsked extends Error {
  constructor() {
    super('A list has no arguments.');
  }
}
