import { type CanActivate, Logger, type Type } from '@nestjs/common';
import type { ApplicationConfig, ContextId, ExternalContextCreator } from '@nestjs/core';
import { isObservable, lastValueFrom } from 'rxjs';
import { isThenable } from '../../common/promises.js';
import type { McpContext } from '../../context/mcp-context.js';
import { invocationMessages } from '../invocation.messages.js';
import { HANDLER_ARGUMENTS, handlerParams, type ParamLayout } from '../params/param-layout.js';
import { HandlerDeniedError, isDenial, isHttpException } from '../results/handler-denied.error.js';
import { textOf } from '../results/http-exception-text.js';
import { inspected } from '../results/inspected.js';
import { enhancersOf, isBare } from './enhancers.js';
import type { HandlerInvoker } from './handler-invokers.js';
import { emptyShellOf, shellOf } from './handler-shell.js';
import { type HandlerDescription, Invocation, ListingInvocation, NOT_RUN } from './invocation.js';
import { listedGuards, type NestContexts } from './nest-contexts.js';
import { GUARD, type Method, type ProviderWrapper } from './nest-metadata.js';
import type { RequestContexts } from './request-contexts.js';
import { ResponseFacade } from './response-facade.js';

/** What an invoker is made of. */
export interface InvokerParts {
  readonly about: HandlerDescription;
  readonly wrapper: ProviderWrapper;
  readonly layout: ParamLayout;
  readonly config: ApplicationConfig;
  readonly contexts: NestContexts;
  readonly requests: RequestContexts;
  readonly listGuards: readonly Type<CanActivate>[] | undefined;
}

/** A method with everything around it, called as Nest calls a route: request, response, `next`; and the invocation. */
type Surrounded = (request: unknown, response: ResponseFacade, next: () => void, invocation: Invocation) => unknown;

const next = (): void => {};

/**
 * # One method of one provider
 *
 * | provider | for a call | what it costs beside the method |
 * |---|---|---|
 * | static, nothing around it | the method is called | 1 µs |
 * | static | what Nest made at the first call is called | 4 µs with guards, 10 with interceptors; on Nest 11 up to 65 |
 * | anything else | instance and surroundings are made for the call | 20 µs, on Nest 11 up to 70; and its constructors |
 */
export class MethodInvoker implements HandlerInvoker {
  readonly #shell: Method;
  /** Of a static provider. */
  #call: Surrounded | undefined;
  #ask: Surrounded | undefined;
  #lister: ExternalContextCreator | undefined;
  #guarded: boolean | undefined;
  #failureSaid = false;

  constructor(private readonly parts: InvokerParts) {
    const { about, layout } = parts;
    this.#shell = shellOf(about.handler, layout);
  }

  get guarded(): boolean {
    return (this.#guarded ??= this.#isGuarded());
  }

  async run(raw: unknown, context: McpContext, changed?: (returned: unknown) => void): Promise<unknown> {
    const invocation = new Invocation(this.parts.about, raw, context);
    const response = new ResponseFacade(context.request);
    try {
      const call = this.#isStatic ? (this.#call ??= this.#callOfStatic()) : await this.#callFor(context.request);
      const result = await call(context.request, response, next, invocation);
      const { returned } = invocation;
      if (changed && returned !== NOT_RUN && returned !== result) changed(returned);
      return result;
    } catch (error) {
      if (invocation.entered || !isDenial(error)) throw error;
      context.mcpCall.denied = true;
      throw new HandlerDeniedError(error.getStatus(), textOf(error), response.denialHeaders, { cause: error });
    } finally {
      invocation.end();
    }
  }

  visible(context: McpContext): boolean | Promise<boolean> {
    return this.guarded ? this.#asked(context) : true;
  }

  async admits(raw: unknown, context: McpContext): Promise<boolean> {
    const { contexts, wrapper } = this.parts;
    return this.#letIn(new Invocation(this.parts.about, raw, context), () => {
      const creator = contexts.forCalls(wrapper);
      return this.#isStatic ? this.#guardsAround(creator, this.#instance) : this.#askFor(creator, context.request);
    });
  }

  async #asked(context: McpContext): Promise<boolean> {
    const { contexts, wrapper, listGuards, about } = this.parts;
    return this.#letIn(new ListingInvocation(about, undefined, context), () => {
      const creator = (this.#lister ??= contexts.forLists(wrapper, listGuards));
      if (!this.#isStatic) return this.#askFor(creator, context.request);
      return (this.#ask ??= this.#guardsAround(creator, this.#instance));
    });
  }

  /** @param asking makes what asks the guards */
  async #letIn(invocation: Invocation, asking: () => Surrounded | Promise<Surrounded>): Promise<boolean> {
    const { request } = invocation.context;
    try {
      const ask = await asking();
      await ask(request, new ResponseFacade(request), next, invocation);
      return true;
    } catch (error) {
      if (!isHttpException(error)) this.#sayOnce(error);
      return false;
    }
  }

  get #isStatic(): boolean {
    const { wrapper } = this.parts;
    return wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
  }

  get #instance(): object {
    return this.parts.wrapper.instance as object;
  }

  #callOfStatic(): Surrounded {
    const { config, about, layout } = this.parts;
    const { plain } = layout;
    return plain && isBare(config, about.host, about.handler)
      ? this.#bare(layout, plain)
      : this.#everythingAround(this.#instance);
  }

  async #callFor(request: unknown): Promise<Surrounded> {
    const { instance, contextId } = await this.parts.requests.resolve(this.parts.wrapper, request);
    return this.#everythingAround(instance, contextId);
  }

  async #askFor(creator: ExternalContextCreator, request: unknown): Promise<Surrounded> {
    const { instance, contextId } = await this.parts.requests.resolve(this.parts.wrapper, request);
    return this.#guardsAround(creator, instance, contextId);
  }

  /** What Nest would do when nothing stands around the method: make the parameters, and call it. */
  #bare({ contextAt }: ParamLayout, plain: NonNullable<ParamLayout['plain']>): Surrounded {
    const { handler } = this.parts.about;
    const instance = this.#instance;
    return async (_request, _response, _next, invocation) => {
      invocation.entered = true;
      const params: unknown[] = [];
      for (const { index, field } of plain) {
        const argument = invocation.argument(field);
        params[index] = isThenable(argument) ? await argument : argument;
      }
      for (const index of contextAt) params[index] = invocation.context;
      const returned = invocation.settle(Reflect.apply(handler, instance, params));
      const settled = isThenable(returned) ? await returned : returned;
      return isObservable(settled) ? lastValueFrom(settled) : settled;
    };
  }

  #everythingAround(instance: object, contextId?: ContextId): Surrounded {
    const { contexts, about, wrapper } = this.parts;
    const creator = contexts.forCalls(wrapper);
    const inquirer = contextId && wrapper.id;
    return creator.create(
      instance,
      this.#shell,
      about.methodName,
      HANDLER_ARGUMENTS,
      handlerParams,
      contextId,
      inquirer,
    );
  }

  #guardsAround(creator: ExternalContextCreator, instance: object, contextId?: ContextId): Surrounded {
    const { about, wrapper } = this.parts;
    const only = { guards: true, interceptors: false, filters: false };
    const shell = emptyShellOf(about.handler);
    const inquirer = contextId && wrapper.id;
    return creator.create(instance, shell, about.methodName, undefined, undefined, contextId, inquirer, only);
  }

  #isGuarded(): boolean {
    const { about, config, listGuards = [] } = this.parts;
    if (enhancersOf(GUARD, about.host, about.handler).length > 0) return true;
    const { made, scoped } = listedGuards(config, listGuards);
    return made.length + scoped.length > 0;
  }

  #sayOnce(error: unknown): void {
    if (this.#failureSaid) return;
    this.#failureSaid = true;
    new Logger('McpStreamable').error(invocationMessages.visibilityFailed(this.parts.about.origin, inspected(error)));
  }
}
