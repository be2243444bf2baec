import type { ArgumentsHost, CanActivate, Type } from '@nestjs/common';
import {
  type ApplicationConfig,
  ExternalContextCreator,
  type ModulesContainer,
  type NestContainer,
} from '@nestjs/core';
import { isObservable, lastValueFrom } from 'rxjs';
import { TICKET_DATA } from '../params/param-layout.js';
import { HandlerSignal } from '../results/handler-signal.js';
import { ArgumentsAsked } from './invocation.js';
import type { ProviderWrapper } from './nest-metadata.js';
import type { ResponseFacade } from './response-facade.js';

/**
 * # Nest's machine around a method, set up our way
 *
 * `ExternalContextCreator` is what `@nestjs/graphql` uses too. We make instances of our own, one per provider:
 *
 * - it looks for the module of a provider by its class, or by its instance among providers. For a controller, and in early
 *   versions of Nest 11 for a class that several modules provide, it finds none or the wrong one, and then skips guards in
 *   silence. Ours are told
 * - it remembers the parameters of a method by the names of class and method: in early versions of Nest 11 two classes of
 *   one name would share them, and in all of 11 another library that wraps the same method
 * - filters here may answer through the response and return nothing, as those of HTTP do; the original takes that for
 *   "not handled", logs the error a second time, and takes a Promise of nothing for a result
 * - pipes see the parameters of the method, and not the one that we add
 * - lists ask fewer guards, and ask each of them although one wants arguments
 *
 * Some of that replaces private members, which are the same in Nest 11.0 to 12.5; the specs run on both.
 */
export class NestContexts {
  readonly #forCalls = new WeakMap<ProviderWrapper, ExternalContextCreator>();

  constructor(
    private readonly config: ApplicationConfig,
    private readonly modules: ModulesContainer,
  ) {}

  /** Runs everything around the methods of a provider. */
  forCalls(wrapper: ProviderWrapper): ExternalContextCreator {
    let creator = this.#forCalls.get(wrapper);
    if (!creator) {
      creator = this.#create(wrapper, this.config);
      const internals = creator as unknown as Internals;
      internals.externalErrorProxy = new SilentFilters(internals.externalErrorProxy);
      internals.pipesConsumer = new PipesOfMethod(internals.pipesConsumer);
      this.#forCalls.set(wrapper, creator);
    }
    return creator;
  }

  /** Runs guards only: those of class and method, and global ones of the given classes. */
  forLists(wrapper: ProviderWrapper, globalGuards: readonly Type<CanActivate>[] = []): ExternalContextCreator {
    const creator = this.#create(wrapper, configForLists(this.config, globalGuards));
    const internals = creator as unknown as Internals;
    internals.guardsConsumer = new EachGuard(internals.guardsConsumer);
    return creator;
  }

  #create({ host }: ProviderWrapper, applicationConfig: ApplicationConfig): ExternalContextCreator {
    // All that a creator asks of the container.
    const container = { applicationConfig, getModules: () => this.modules };
    const creator = ExternalContextCreator.fromContainer(container as unknown as NestContainer);
    const [moduleKey = ''] = [...this.modules].find(([, module]) => module === host) ?? [];
    const internals = creator as unknown as Internals;
    internals.getHostModuleKey = () => moduleKey;
    creator.getContextModuleKey = () => moduleKey;
    return creator;
  }
}

/** Whether a global guard is of one of the classes. */
export function listedGuards(config: ApplicationConfig, listed: readonly Type<CanActivate>[]): ListedGuards {
  const isListed = (type: unknown): boolean => listed.includes(type as Type<CanActivate>);
  return {
    made: config.getGlobalGuards().filter((guard) => listed.some((type) => guard instanceof type)),
    scoped: config.getGlobalRequestGuards().filter(({ metatype, isAlias, inject }) => {
      return isListed(metatype) || (isAlias && isListed(inject?.[0]));
    }),
  };
}

interface ListedGuards {
  readonly made: CanActivate[];
  readonly scoped: ProviderWrapper[];
}

function configForLists(config: ApplicationConfig, listed: readonly Type<CanActivate>[]): ApplicationConfig {
  return Object.create(config, {
    getGlobalGuards: { value: () => listedGuards(config, listed).made },
    getGlobalRequestGuards: { value: () => listedGuards(config, listed).scoped },
  }) as ApplicationConfig;
}

interface Internals {
  /** Since 11.1; before, only the public one. */
  getHostModuleKey: () => string;
  guardsConsumer: GuardsConsumer;
  pipesConsumer: PipesConsumer;
  externalErrorProxy: ErrorProxy;
}

interface GuardsConsumer {
  tryActivate(guards: readonly CanActivate[], ...rest: unknown[]): Promise<boolean>;
}

interface PipesConsumer {
  apply(value: unknown, metadata: { data?: unknown }, pipes: readonly unknown[]): Promise<unknown>;
}

interface ErrorProxy {
  createProxy(target: Target, handler: ErrorHandler, type?: string): Target;
}

type Target = (...args: unknown[]) => Promise<unknown>;

interface ErrorHandler {
  next(error: unknown, host: ArgumentsHost): unknown;
  /** Runs the first filter for the error. @returns what the filter returned; nothing if there is none */
  invokeCustomFilters?(error: unknown, host: ArgumentsHost): unknown;
}

const NOTHING = { defaultValue: undefined };

/** Asks one guard after the other; one that wants arguments has no say. */
class EachGuard implements GuardsConsumer {
  constructor(private readonly original: GuardsConsumer) {}

  async tryActivate(guards: readonly CanActivate[], ...rest: unknown[]): Promise<boolean> {
    for (const guard of guards) {
      try {
        if (!(await this.original.tryActivate([guard], ...rest))) return false;
      } catch (error) {
        if (!(error instanceof ArgumentsAsked)) throw error;
      }
    }
    return true;
  }
}

/** Whatever the pipes of an app do to values, and however often they run: the ticket is none of the method's parameters. */
class PipesOfMethod implements PipesConsumer {
  constructor(private readonly original: PipesConsumer) {}

  async apply(value: unknown, metadata: { data?: unknown }, pipes: readonly unknown[]): Promise<unknown> {
    return metadata.data === TICKET_DATA ? value : this.original.apply(value, metadata, pipes);
  }
}

/**
 * Runs the filters of an error, as they are written for routes, resolvers and messages:
 *
 * - one that answers through the response, whatever it returns, has said what the error is
 * - one that returns an error, or an Observable of one, means that error
 * - what else one returns is the result of the handler
 * - one that returns nothing leaves the error
 */
class SilentFilters implements ErrorProxy {
  constructor(private readonly original: ErrorProxy) {}

  createProxy(target: Target, handler: ErrorHandler, type?: string): Target {
    const next = async (error: unknown, host: ArgumentsHost): Promise<unknown> => {
      if (error instanceof HandlerSignal) throw error;
      const returned = await handler.invokeCustomFilters!(error, host);
      const value: unknown = isObservable(returned) ? await lastValueFrom(returned, NOTHING) : returned;
      const response = host.getArgByIndex<ResponseFacade>(1);
      if (response.sent || value === undefined || value === null) throw response.verdict(error);
      if (value instanceof Error) throw value;
      return value;
    };
    return this.original.createProxy(target, { next }, type);
  }
}
