import { type CanActivate, Inject, Injectable, type Type } from '@nestjs/common';
import { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import type { McpContext } from '../../context/mcp-context.js';
import type { HandlerKind } from '../handler-entry.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { invocationMessages } from '../invocation.messages.js';
import { layoutOf } from '../params/param-layout.js';
import { assertNoneSkipped, assertScopedGlobalsAttached } from './enhancers.js';
import type { HandlerDescription } from './invocation.js';
import { MethodInvoker } from './method-invoker.js';
import { NestContexts } from './nest-contexts.js';
import { methodOf, type ProviderWrapper } from './nest-metadata.js';
import { RequestContexts } from './request-contexts.js';

/** How one method of a provider is called. */
export interface HandlerInvoker {
  /**
   * Runs guards, interceptors, pipes, the method, and filters, in the order of a route. Observables and async iterables are
   * drained: tagged values are sent at once, the one untagged value is the result.
   *
   * @param raw the arguments as the client sent them
   * @param changed takes what the method returned, if interceptors made something else of it
   * @returns what the method returned, as interceptors and filters left it
   * @throws HandlerDeniedError when the caller was not let in
   * @throws HandlerSignal when nobody waits for the result any more
   * @throws whatever else the handler and what is around it threw
   */
  run(raw: unknown, context: McpContext, changed?: (returned: unknown) => void): Promise<unknown>;
  /**
   * Whether the guards that can say so without arguments let this caller in. Never rejects.
   *
   * Costs nothing without guards. With guards: what they do themselves, plus 2 µs, and 0.3 for each guard beyond the first.
   * For a provider that is not static, what is around it is made for each entry of each list, which costs Nest 20 µs
   * (Nest 12; up to 70 on Nest 11); its constructor runs once for each HTTP request.
   */
  visible(context: McpContext): boolean | Promise<boolean>;
  /**
   * Whether all guards, global ones included, let this caller in with these arguments. Nothing else runs. Never rejects.
   *
   * @param raw the arguments as the client sent them
   */
  admits(raw: unknown, context: McpContext): Promise<boolean>;
  /** There are guards that `visible` asks. */
  readonly guarded: boolean;
}

export interface HandlerInvokerOptions {
  /**
   * Checks the arguments, after the guards, once, and only if a parameter needs them.
   *
   * @returns what the handler gets
   */
  readonly validate?: (raw: unknown) => unknown;
  readonly kind: HandlerKind;
  /** The name of the tool or prompt, the URI of the resource, the template of the resource template. */
  readonly name: string;
  /** Global guards that `visible` asks too; without it, only those of class and method. */
  readonly listGuards?: readonly Type<CanActivate>[];
}

/** A method of a provider. */
export interface HandlerHost {
  readonly wrapper: ProviderWrapper;
  readonly methodName: string;
  /** For messages: `OrderTools.find`. */
  readonly origin: string;
}

/** Makes invokers; one for all endpoints of a module. @internal */
@Injectable()
export class HandlerInvokers {
  readonly #contexts: NestContexts;
  readonly #requests = new RequestContexts();

  constructor(
    @Inject(ApplicationConfig) private readonly config: ApplicationConfig,
    @Inject(ModulesContainer) modules: ModulesContainer,
  ) {
    this.#contexts = new NestContexts(config, modules);
  }

  /**
   * To be called when all providers are there: in `onModuleInit` or later. Nest's part is made when the handler first runs,
   * so that what `useGlobal…()` adds counts.
   *
   * @throws HandlerDefinitionError when Nest would not run it as it is written
   */
  create({ wrapper, methodName, origin }: HandlerHost, options: HandlerInvokerOptions): HandlerInvoker {
    const host = classOf(wrapper);
    const handler = host && methodOf(host.prototype as object, methodName);
    if (!handler) throw new HandlerDefinitionError(origin, invocationMessages.noMethod(methodName));
    const layout = layoutOf(host, methodName, origin);
    assertNoneSkipped(wrapper, origin, { host, method: handler, layout });
    assertScopedGlobalsAttached(this.config, wrapper, origin);
    const { kind, name, validate, listGuards } = options;
    const about: HandlerDescription = { kind, name, origin, methodName, handler, host, validate };
    const { config } = this;
    return new MethodInvoker({
      about,
      wrapper,
      layout,
      config,
      contexts: this.#contexts,
      requests: this.#requests,
      listGuards,
    });
  }
}

/** The class whose method it is; of the instance, where a factory made it. */
function classOf({ metatype, isNotMetatype, instance }: ProviderWrapper): Type<object> | undefined {
  if (!isNotMetatype) return metatype as Type<object>;
  const { constructor } = (instance ?? {}) as { constructor?: Type<object> };
  return constructor;
}
