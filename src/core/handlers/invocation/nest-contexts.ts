import { type ArgumentsHost, type CanActivate, type Type, ValidationPipe } from '@nestjs/common';
import {
  type ApplicationConfig,
  type ContextId,
  ExternalContextCreator,
  type ModulesContainer,
  type NestContainer,
} from '@nestjs/core';
import { isObservable, lastValueFrom } from 'rxjs';
import { guardThrew, isPlain, nameOfEnhancer } from '../../calls/operator-log.js';
import { McpHandlerSignal } from '../../calls/handler-signals.js';
import { knownErrors, loadClassPackages } from '../schema/class-names.js';
import { rawOf } from '../schema/class-schema.js';
import type { ClassOptions } from '../schema/schema-compiler.js';
import type { ProviderWrapper } from './enhancers.js';
import { ArgumentsAsked, type Invocation, type Method, PipedValue } from './invocation.js';
import { HANDLER_ARGUMENTS, handlerParams, isPiped } from './params.js';
import type { ResponseFacade } from './response-facade.js';

/** Runs a method with everything around it. */
export type Surrounded = (invocation: Invocation) => unknown;

/** A method of a provider whose enhancers Nest runs. */
export interface SurroundedMethod {
  readonly wrapper: ProviderWrapper;
  readonly methodName: string;
  /** Nest calls this function in place of the method. */
  readonly standIn: Method;
}

/** Builds the context of an instance. @param contextId of an instance that is not static */
export type Surround = (instance: object, contextId?: ContextId) => Surrounded;

/**
 * # Nest's machine around a method, set up our way
 *
 * `ExternalContextCreator` is what `@nestjs/graphql` uses too. We make instances of our own, one per method:
 *
 * - it looks for the module of an instance among providers. It finds none for a controller, and then skips guards in
 * silence. Our instances are given the module
 * - it remembers the parameters of a method by class and method name, and would confuse those of another library that
 * wraps the same method with ours
 * - filters here may answer through the response and return nothing, as those of HTTP do; the original treats that as
 * "not handled", logs the error a second time, and treats a Promise of nothing as a result
 * - a guard that throws `null` or a text is named in the error
 * - pipes see what they see on a route: neither the request and its headers, nor the parameter that we add
 * - lists ask fewer guards, and ask each of them although one wants arguments
 *
 * Some of that replaces private members; `npm run x -- check:compat` tries the oldest and the newest Nest.
 */
export function surroundForCalls(
  config: ApplicationConfig,
  modules: ModulesContainer,
  { wrapper, methodName, standIn }: SurroundedMethod,
): Surround {
  const creator = creatorFor(wrapper, config, modules);
  const { externalErrorProxy, guardsConsumer, pipesConsumer } = creator;
  creator.guardsConsumer = {
    tryActivate: (guards, ...rest) =>
      guardsConsumer.tryActivate(guards, ...rest).catch((thrown: unknown) => {
        throw isPlain(thrown) ? new Error(guardThrew(guards.map(nameOfEnhancer), thrown)) : thrown;
      }),
  };
  creator.externalErrorProxy = {
    createProxy: (target, handler, type) =>
      externalErrorProxy.createProxy(target, { next: (error, host) => filtered(error, host, handler) }, type),
  };
  creator.pipesConsumer = {
    apply: async (value, metadata, pipes) => {
      if (!isPiped(metadata)) return value;
      const argument = await value;
      if (argument instanceof PipedValue) {
        const piped = await pipesConsumer.apply(argument.raw, metadata, pipes.map(withKnownNames));
        // Pipes that let a text pass leave it to the schema.
        return piped === argument.raw ? argument.value : piped;
      }
      // The pipe makes an instance itself: given another instance, it would run `@Transform()` twice.
      const raw = pipes.some((pipe) => pipe instanceof ValidationPipe) ? rawOf(argument) : undefined;
      const result = await pipesConsumer.apply(raw ?? argument, metadata, pipes);
      return raw && result === raw ? argument : result;
    },
  };
  return (instance, contextId) =>
    asRoute(creator.create(instance, standIn, methodName, HANDLER_ARGUMENTS, handlerParams, contextId, wrapper.id));
}

const next = (): void => {};

/** Calls what Nest has made as Nest calls a route. */
function asRoute(made: (request: unknown, response: unknown, next: () => void) => unknown): Surrounded {
  return (invocation) => made(invocation.context.request, invocation.response, next);
}

/** Nest documents the names of these protected members for subclasses. */
interface ValidatingPipe {
  readonly transformOptions?: ClassOptions['transform'];
  readonly validatorOptions?: ClassOptions['validation'];
  validate(object: object, options: ClassOptions['validation']): Promise<ValidationErrors>;
}
type ValidationErrors = Parameters<typeof knownErrors>[0];

/** Returns a `ValidationPipe` whose errors have the names that the client sent; any other pipe as it is. */
function withKnownNames(pipe: unknown): unknown {
  // A subclass with a transform() of its own may have private fields, which are not inherited.
  if (!(pipe instanceof ValidationPipe) || pipe.transform !== ValidationPipe.prototype.transform) return pipe;
  const { transformOptions: transform, validatorOptions: validation } = pipe as unknown as ValidatingPipe;
  const validate: ValidatingPipe['validate'] = async (object, options) => {
    const validationError = { ...options?.validationError, target: true };
    const errors = await (pipe as unknown as ValidatingPipe).validate(object, { ...options, validationError });
    return errors.length === 0
      ? errors
      : knownErrors(errors, loadClassPackages(), { use: 'input', transform, validation });
  };
  return Object.create(pipe, { validate: { value: validate } });
}

const GUARDS_ONLY = { guards: true, interceptors: false, filters: false };

/** Runs guards only. @param listed the guards of class and method, and global ones of these classes; else all guards */
export function surroundForGuards(
  config: ApplicationConfig,
  modules: ModulesContainer,
  { wrapper, methodName, standIn }: SurroundedMethod,
  listed?: readonly Type<CanActivate>[],
): Surround {
  const creator = creatorFor(wrapper, listed ? configForLists(config, listed) : config, modules);
  if (listed) {
    const { guardsConsumer } = creator;
    creator.guardsConsumer = {
      // The guards run one after the other; a guard that reads arguments does not decide.
      async tryActivate(guards, ...rest) {
        for (const guard of guards) {
          try {
            if (!(await guardsConsumer.tryActivate([guard], ...rest))) return false;
          } catch (error) {
            if (!(error instanceof ArgumentsAsked)) throw error;
          }
        }
        return true;
      },
    };
  }
  return (instance, contextId) =>
    asRoute(creator.create(instance, standIn, methodName, undefined, undefined, contextId, wrapper.id, GUARDS_ONLY));
}

/** Returns the global guards that are of one of the classes. */
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

function creatorFor(
  { host }: ProviderWrapper,
  applicationConfig: ApplicationConfig,
  modules: ModulesContainer,
): Creator {
  // A creator uses only this part of the container.
  const container = { applicationConfig, getModules: () => modules };
  const creator = ExternalContextCreator.fromContainer(container as unknown as NestContainer) as unknown as Creator;
  const [moduleKey = ''] = [...modules].find(([, module]) => module === host) ?? [];
  // Older versions of Nest look by the class alone.
  creator.getHostModuleKey = creator.getContextModuleKey = () => moduleKey;
  return creator;
}

/** Includes the private members that are replaced. */
interface Creator extends Pick<ExternalContextCreator, 'create'> {
  getHostModuleKey: () => string;
  getContextModuleKey: () => string;
  guardsConsumer: { tryActivate(guards: readonly CanActivate[], ...rest: unknown[]): Promise<boolean> };
  pipesConsumer: {
    apply(value: unknown, metadata: { type?: unknown; data?: unknown }, pipes: readonly unknown[]): Promise<unknown>;
  };
  externalErrorProxy: { createProxy(target: Target, handler: ErrorHandler, type?: string): Target };
}

type Target = (...args: unknown[]) => Promise<unknown>;

interface ErrorHandler {
  next(error: unknown, host: ArgumentsHost): unknown;
  /** Runs the first filter for the error. @returns what the filter returned; nothing if there is none */
  invokeCustomFilters?(error: unknown, host: ArgumentsHost): unknown;
}

const NOTHING = { defaultValue: undefined };

/**
 * Runs the filters of an error, as they are written for routes, resolvers and messages:
 *
 * - one that answers through the response, whatever it returns, has said what the error is
 * - one that returns an error, or an Observable of one, means that error
 * - what else one returns is the result of the handler
 * - one that returns nothing leaves the error
 */
async function filtered(error: unknown, host: ArgumentsHost, handler: ErrorHandler): Promise<unknown> {
  if (error instanceof McpHandlerSignal) throw error;
  const returned = await handler.invokeCustomFilters!(error, host);
  const value: unknown = isObservable(returned) ? await lastValueFrom(returned, NOTHING) : returned;
  const response = host.getArgByIndex<ResponseFacade>(1);
  if (response.sent || value === undefined || value === null) throw response.errorFor(error);
  if (value instanceof Error) throw value;
  return value;
}
