import { type CanActivate, ForbiddenException, HttpException, Inject, Injectable, type Type } from '@nestjs/common';
import { ApplicationConfig, type ContextId, ContextIdFactory, ModuleRef, ModulesContainer } from '@nestjs/core';
import { isThenable, settle } from '../../common/promises.js';
import type { McpContext } from '../../calls/mcp-context.js';
import type { McpHandlerTarget } from '../../calls/mcp-target.js';
import { logger } from '../../calls/operator-log.js';
import type { McpHandlerKind } from '../../calls/mcp-execution-context.js';
import {
  DENIAL_DATA,
  McpHandlerDefinitionError,
  HandlerDeniedError,
  isDenial,
  isHttpException,
} from '../handlers.errors.js';
import { inspected, textOf } from '../results/handler-failure.js';
import { markEntryProvider } from '../decorators/handler.decorators.js';
import type { HandlerRunner } from '../results/handler-outcome.js';
import type { Validate } from '../schema/handler-schema.js';
import {
  ASKED_AGAIN,
  assertNoneSkipped,
  guardNames,
  guardsAskedAgain,
  hasGuards,
  isBare,
  isSerialized,
  type ProviderWrapper,
} from './enhancers.js';
import {
  type ArgumentsStrategy,
  type HandlerDescription,
  Invocation,
  ListingInvocation,
  type Method,
  PLAIN,
} from './invocation.js';
import { MethodRoutes } from './method-routes.js';
import { listedGuards, type Surround, surroundForCalls, surroundForGuards, type Surrounded } from './nest-contexts.js';
import { decorated, emptyStandInFor, layoutOf, methodOf, type ParamLayout, standInFor, withGuards } from './params.js';
import { assertPayload } from './older-nest.js';
import { RequestContexts } from './request-contexts.js';
import { ResponseFacade } from './response-facade.js';

export interface HandlerInvokerOptions {
  /**
   * Checks the arguments, after the guards, once, and only if a parameter needs them.
   *
   * @returns what the handler gets
   */
  readonly validate?: Validate | undefined;
  /** Takes the arguments. @default that of the route, if the method is one */
  readonly strategy?: ArgumentsStrategy | undefined;
  readonly kind: McpHandlerKind;
  /** The name of the tool or prompt, the URI of the resource, the template of the resource template. */
  readonly name: string;
  /** Lists the global guards that `visible` asks too; without it, only those of class and method. */
  readonly listGuards?: readonly Type<CanActivate>[];
}

/** A method of a provider that serves calls. */
export interface HandlerHost {
  readonly wrapper: ProviderWrapper;
  readonly methodName: string;
  /** Names the method in messages, such as `OrderTools.find`. */
  readonly origin: string;
  /** Decorates the method for this invoker alone. */
  readonly decorator?: MethodDecorator;
}

/** A function that was registered at run time. */
export interface RegisteredFunction {
  readonly handler: Method;
  readonly guards: readonly CanActivate[];
  readonly owner: object;
  readonly origin: string;
}

interface InvokedMethod {
  readonly wrapper: ProviderWrapper;
  readonly methodName: string;
  readonly layout: ParamLayout;
  /** Stands for the instance of the provider. */
  readonly owner?: object;
}

/**
 * Stands for the registry where Nest makes the enhancers of a provider: with a request-scoped enhancer of the app the registry itself,
 * and all that injects it, would be made for each request.
 */
@Injectable()
export class RegisteredHandlers {}
markEntryProvider(RegisteredHandlers);

/** Makes invokers; one instance serves all endpoints of a module. @internal */
@Injectable()
export class HandlerInvokers {
  constructor(
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(RequestContexts) private readonly contexts: RequestContexts,
    @Inject(MethodRoutes) private readonly routes: Pick<MethodRoutes, 'routeOf'>,
  ) {}

  /**
   * Makes an invoker. All providers must exist: it is called in `onModuleInit` or later. The enhancers are collected
   * when the handler first runs, to include those of `useGlobal…()`.
   *
   * @throws McpHandlerDefinitionError when Nest would not run it as it is written
   */
  create({ wrapper, methodName, origin, decorator }: HandlerHost, options: HandlerInvokerOptions): MethodInvoker {
    const { kind, name, validate, listGuards = [] } = options;
    const host = classOf(wrapper);
    const given = host && methodOf(host.prototype as object, methodName);
    if (!given) throw new McpHandlerDefinitionError(origin, `there is no method "${methodName}" on it.`);
    const handler = decorator ? decorated(given, decorator, host.prototype as object, methodName) : given;
    const route = this.routes.routeOf({ wrapper, host, methodName, method: handler, origin });
    const layout = layoutOf(host, methodName, origin, route?.params);
    const { contextAt } = layout;
    const strategy = options.strategy ?? route?.strategyOf(layout) ?? PLAIN;
    const about: HandlerDescription = { kind, name, origin, handler, given, host, contextAt, strategy, validate };
    return this.#invoker({ wrapper, methodName, layout }, about, listGuards, () => {
      const { made, scoped } = listedGuards(this.config, listGuards);
      return made.length + scoped.length > 0;
    });
  }

  /**
   * Makes an invoker of a function that was registered at run time. The enhancers of the app run around it, and guards of its own.
   *
   * @param owner the object whose class enhancers see as that of the handler
   * @throws McpHandlerDefinitionError when Nest would not run it as the decorators on it say
   */
  createOf(
    { handler: given, guards, owner, origin }: RegisteredFunction,
    { kind, name, validate, listGuards = [] }: HandlerInvokerOptions,
  ): MethodInvoker {
    const wrapper = [...this.modules.values()]
      .map(({ providers }) => providers.get(RegisteredHandlers))
      .find((found) => found !== undefined) as ProviderWrapper;
    const host = owner.constructor as Type<object>;
    const methodName = 'registered';
    const layout = layoutOf(host, methodName, origin);
    // The app may register one function several times, with other guards.
    const handler = withGuards(given, guards);
    const { contextAt } = layout;
    const about: HandlerDescription = {
      kind,
      name,
      origin,
      handler,
      given,
      host,
      contextAt,
      strategy: PLAIN,
      validate,
    };
    // It may be registered before `useGlobalGuards()` is called.
    return this.#invoker({ wrapper, methodName, layout, owner }, about, listGuards, () => listGuards.length > 0);
  }

  /** Returns whether a `ClassSerializerInterceptor` of the app runs around functions that were registered at run time. */
  isSerialized(): boolean {
    return isSerialized(this.config, RegisteredHandlers, () => undefined);
  }

  #invoker(
    { wrapper, methodName, layout, owner }: InvokedMethod,
    about: HandlerDescription,
    listGuards: readonly Type<CanActivate>[],
    areGuardsListed: () => boolean,
  ): MethodInvoker {
    const { config, modules, contexts } = this;
    const { host, handler, origin } = about;
    assertNoneSkipped(config, wrapper, origin, { host, method: handler, layout });
    assertPayload(wrapper, modules, origin);
    const called = { wrapper, methodName, standIn: standInFor(handler, layout) };
    const asked = { wrapper, methodName, standIn: emptyStandInFor(handler) };
    const lazily = (prepare: () => Surround): Surroundings =>
      new Surroundings(wrapper, contexts, () => {
        const surround = prepare();
        return owner ? (_instance, contextId) => surround(owner, contextId) : surround;
      });
    return new MethodInvoker(
      about,
      contexts,
      lazily(() => {
        const bare = isBare(config, host, handler) ? bareCall(layout) : undefined;
        return bare ?? settled(surroundForCalls(config, modules, called));
      }),
      lazily(() => surroundForGuards(config, modules, asked)),
      lazily(() => surroundForGuards(config, modules, asked, listGuards)),
      () => hasGuards(host, handler) || areGuardsListed(),
      // The class of the registry says nothing about a function.
      owner ? [] : [handler, host],
    );
  }
}

/** Returns the class that has the method; the class of the instance, where a factory made it. */
function classOf({ metatype, isNotMetatype, instance }: ProviderWrapper): Type<object> | undefined {
  if (!isNotMetatype) return metatype as Type<object>;
  return ((instance ?? {}) as { constructor?: Type<object> }).constructor;
}

/**
 * Collects the enhancers around a method: once for a static provider, else for each call, with the instance of its request.
 *
 * The request is that of HTTP: `@Inject(REQUEST)` gives it, and what a request-scoped guard of the endpoint put into a
 * request-scoped service is there in the handler. The calls of a batch share their instances, as the fields of one
 * GraphQL request do; so do the entries of one list. A transient provider that needs no request is created for each
 * call. Durable providers live in the context that the app's `ContextIdStrategy` gives, and get its payload as
 * `REQUEST`.
 *
 * Where a strategy gives calls a request of their own, `REQUEST` is that, and its providers belong to the call.
 */
class Surroundings {
  #surround: Surround | undefined;
  /** Holds the enhancers of a static provider, once they were collected. */
  ofStatic: Surrounded | undefined;

  constructor(
    private readonly wrapper: ProviderWrapper,
    private readonly contexts: RequestContexts,
    private readonly prepare: () => Surround,
  ) {}

  for(request: unknown): Surrounded | Promise<Surrounded> {
    const surround = (this.#surround ??= this.prepare());
    if (this.#isStatic) return (this.ofStatic = surround(this.wrapper.instance as object));
    return this.#made(request).then(({ instance, contextId }) => surround(instance, contextId));
  }

  /** Returns the provider, or a promise of the one that is made for a request. */
  instance(request: unknown): object | Promise<object> {
    return this.#isStatic ? (this.wrapper.instance as object) : this.#made(request).then(({ instance }) => instance);
  }

  get #isStatic(): boolean {
    return this.wrapper.isDependencyTreeStatic() && !this.wrapper.isTransient;
  }

  #made(request: unknown): Promise<{ readonly instance: object; readonly contextId: ContextId }> {
    const { wrapper } = this;
    const moduleRef = wrapper.host!.getProviderByKey<ModuleRef>(ModuleRef).instance;
    const contextId = this.#contextIdOf(request);
    return moduleRef
      .resolve<object>(wrapper.token, contextId, { strict: true })
      .then((instance) => ({ instance, contextId }));
  }

  #contextIdOf(request: unknown): ContextId {
    // A transient tree uses nothing of the request: there is nothing to share.
    return this.wrapper.isDependencyTreeStatic() ? ContextIdFactory.create() : this.contexts.of(request);
  }
}

/**
 * # One method of one provider
 *
 * | provider | for a call | what it costs beside the method |
 * |---|---|---|
 * | static, nothing around it | the method is called | 1 µs |
 * | static | what Nest made at the first call is called | 4 µs with guards, 10 with interceptors; on Nest 11 up to 65 |
 * | anything else | instance and surroundings are made for the call | 20 µs, on Nest 11 up to 70; and its constructors |
 */
export class MethodInvoker implements HandlerRunner {
  #guarded: boolean | undefined;
  #failureSaid = false;

  constructor(
    private readonly about: HandlerDescription,
    private readonly contexts: RequestContexts,
    private readonly calls: Surroundings,
    private readonly admission: Surroundings,
    private readonly listing: Surroundings,
    private readonly isGuarded: () => boolean,
    readonly metadata: McpHandlerTarget['metadata'],
  ) {}

  get guarded(): boolean {
    return (this.#guarded ??= this.isGuarded());
  }

  scopes(): readonly string[] {
    const { host, handler } = this.about;
    return guardsAskedAgain(host, handler).flatMap((guard) => guard.scopesOf(host, handler));
  }

  guards(): readonly string[] {
    return guardNames(this.about.host, this.about.handler);
  }

  /** Returns a runner of the same method for another handler. */
  named(name: string, validate: Validate | undefined): HandlerRunner {
    const about = { ...this.about, name, validate };
    const { contexts, calls, admission, listing, metadata } = this;
    return new MethodInvoker(about, contexts, calls, admission, listing, () => this.guarded, metadata);
  }

  /** Returns the provider. @param request for which it is made, if it is not static */
  instance(request: unknown): object | Promise<object> {
    return this.calls.instance(request);
  }

  run(raw: unknown, context: McpContext): unknown {
    const invocation = this.#invocation(raw, context);
    const { ofStatic } = this.calls;
    if (ofStatic) return ofStatic(invocation);
    return settle(
      () => this.calls.for(invocation.context.request),
      (call) => call(invocation),
      (error) => {
        throw failureOf(invocation, error);
      },
    );
  }

  visible(context: McpContext): boolean | Promise<boolean> {
    if (!this.guarded) return true;
    // The guards of all entries share it, so it is not that of a view.
    this.contexts.open(context.request);
    return this.#letIn(this.listing, new ListingInvocation(this.about, undefined, context), context.request);
  }

  admits(raw: unknown, context: McpContext): Promise<boolean> {
    const invocation = this.#invocation(raw, context);
    return this.#letIn(this.admission, invocation, invocation.context.request);
  }

  async assertAdmits(raw: unknown, context: McpContext): Promise<void> {
    const invocation = this.#invocation(raw, context);
    try {
      const ask = await this.admission.for(invocation.context.request);
      await ask(invocation);
    } catch (error) {
      if (isHttpException(error) && !isDenial(error)) throw error;
      const denial = isDenial(error) ? error : new ForbiddenException('Forbidden resource');
      throw (context.mcpCall.denied = denialOf(denial, invocation.response, error));
    }
  }

  permits(context: McpContext): boolean {
    return !this.#refusal(context);
  }

  assertPermits(context: McpContext): void {
    const refusal = this.#refusal(context);
    if (!refusal) return;
    throw (context.mcpCall.denied = refusal);
  }

  #invocation(raw: unknown, context: McpContext): Invocation {
    const invocation = new Invocation(this.about, raw, context);
    const { request } = invocation.context;
    this.contexts.open(request, request !== context.request);
    return invocation;
  }

  #refusal(context: McpContext): HandlerDeniedError | undefined {
    const { host, handler } = this.about;
    const { request } = context;
    const response = new ResponseFacade(request);
    try {
      for (const guard of guardsAskedAgain(host, handler)) guard[ASKED_AGAIN](host, handler, { request, response });
      return undefined;
    } catch (error) {
      if (isDenial(error)) return denialOf(error, response);
      throw error;
    }
  }

  /**
   * Runs the guards.
   *
   * @param providersOf the request whose providers are asked; those of a list are made once for all entries
   */
  async #letIn(surroundings: Surroundings, invocation: Invocation, providersOf: unknown): Promise<boolean> {
    try {
      const ask = await surroundings.for(providersOf);
      await ask(invocation);
      return true;
    } catch (error) {
      if (!isHttpException(error)) this.#sayOnce(error);
      return false;
    }
  }

  #sayOnce(error: unknown): void {
    if (this.#failureSaid) return;
    this.#failureSaid = true;
    logger.error(
      `A guard of ${this.about.origin} failed while a list was made, so the entry was left out. This warning is logged once. ${inspected(error)}`,
    );
  }
}

/** Returns the denial of a caller. @param cause what was thrown, if it is not the denial itself */
function denialOf(
  denial: HttpException,
  { denialHeaders }: ResponseFacade,
  cause: unknown = denial,
): HandlerDeniedError {
  const { [DENIAL_DATA]: data } = denial as { readonly [DENIAL_DATA]?: unknown };
  return new HandlerDeniedError(denial.getStatus(), textOf(denial), denialHeaders, { cause, data });
}

/**
 * Returns the error of a guard that limits rates, with the time to wait in its text: a model does not read headers, and without it
 * repeats the call at once.
 */
function withRetryAfter(error: unknown, { retryAfter }: ResponseFacade): unknown {
  if (retryAfter === undefined || !isHttpException(error) || error.getStatus() !== 429) return error;
  const text = textOf(error);
  if (text.split(/\W+/).includes(retryAfter)) return error;
  const when = /^\d+$/.test(retryAfter) ? `in ${retryAfter} seconds` : `after ${retryAfter}`;
  return new HttpException(`${text.replace(/[.!]?\s*$/, '.')} Try again ${when}.`, 429, { cause: error });
}

/** Ends each invocation with its call, and tells a denial of its guards from a failure of its method. */
function settled(surround: Surround): Surround {
  return (instance, contextId) => {
    const call = surround(instance, contextId);
    return (invocation) =>
      settle(
        () => call(invocation),
        (answer) => {
          invocation.end();
          return answer;
        },
        (error) => {
          invocation.end();
          throw failureOf(invocation, error);
        },
      );
  };
}

/** Returns the error of a call, and notes a denial. */
function failureOf(invocation: Invocation, error: unknown): unknown {
  if (invocation.entered) return error;
  const { context, response } = invocation;
  if (!isDenial(error)) return withRetryAfter(error, response);
  return (context.mcpCall.denied = denialOf(error, response));
}

/**
 * Does the same as Nest when a method has no enhancers: makes the parameters, and calls it.
 *
 * @returns nothing if a pipe stands at a parameter, or one is made by a decorator of the app
 */
function bareCall({ plain, args }: ParamLayout): Surround | undefined {
  if (!plain) return undefined;
  return (instance) => (invocation) => {
    invocation.entered = invocation.alone = true;
    const params: unknown[] = [];
    for (const { index, field, part } of args) params[index] = invocation.argument(field, part);
    if (!params.some(isThenable)) return invocation.call(instance, params);
    return Promise.all(params).then((made) => invocation.call(instance, made));
  };
}
