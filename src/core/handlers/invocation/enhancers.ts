import { type CanActivate, ClassSerializerInterceptor, Scope, type Type, ValidationPipe } from '@nestjs/common';
import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import { nameOfEnhancer } from '../../calls/operator-log.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import type { ClassOptions } from '../schema/schema-compiler.js';
import type { Method } from './invocation.js';
import { nestVersion } from './nest-version.cjs';
import { MADE, mendedIn, type ProviderWrapper } from './older-nest.js';
import type { ParamLayout } from './params.js';

export type { ProviderWrapper } from './older-nest.js';

/**
 * Lists the enhancers of a handler by kind: the key of their metadata, the method that each has, their name in the
 * config.
 */
const ENHANCERS = [
  { kind: 'guard', metadata: '__guards__', method: 'canActivate', plural: 'Guards' },
  { kind: 'interceptor', metadata: '__interceptors__', method: 'intercept', plural: 'Interceptors' },
  { kind: 'pipe', metadata: '__pipes__', method: 'transform', plural: 'Pipes' },
  { kind: 'filter', metadata: '__exceptionFilters__', method: 'catch', plural: 'Filters' },
] as const;

type EnhancerKind = (typeof ENHANCERS)[number];

/** Returns the enhancers of the whole app that are request- or transient-scoped. */
function scopedGlobals(config: ApplicationConfig, { plural }: EnhancerKind): ProviderWrapper[] {
  return config[`getGlobalRequest${plural}`]();
}

/** Returns the enhancers of one kind on the class and the method of a handler. */
function enhancersOf({ metadata }: EnhancerKind, host: object, method: Method): unknown[] {
  return [host, method].flatMap((holder) => (Reflect.getMetadata(metadata, holder) as unknown[] | undefined) ?? []);
}

/**
 * A guard with this property also decides on requests about an earlier call, such as `tasks/get`: by the request alone,
 * and needs no arguments.
 *
 * @internal
 */
export const ASKED_AGAIN: unique symbol = Symbol('nestjs-mcp-streamable:asked-again');

/** A guard that also decides on requests about an earlier call. @internal */
export interface GuardAskedAgain {
  /** Passes if the request may be made. @throws the HttpException that it denies calls with */
  [ASKED_AGAIN](host: object, handler: object, http: { readonly request: unknown; readonly response: object }): void;
  /** Returns the scopes that calls of the handler need. */
  scopesOf(host: object, handler: object): readonly string[];
}

/** Returns the guards on the class and the method of a handler that also decide on requests about an earlier call. */
export function guardsAskedAgain(host: object, method: Method): GuardAskedAgain[] {
  const guards = enhancersOf(ENHANCERS[0], host, method);
  return guards.filter((guard): guard is GuardAskedAgain => ASKED_AGAIN in (guard as object));
}

/** Names the guards on the class and the method of a handler, for operators; those that check scopes have scopes to be named. */
export function guardNames(host: object, method: Method): string[] {
  const guards = enhancersOf(ENHANCERS[0], host, method) as (Type<CanActivate> | CanActivate)[];
  return [...new Set(guards.filter((guard) => !(ASKED_AGAIN in guard)).map(nameOfEnhancer))];
}

/** Names the interceptors on a class, for operators. */
export function interceptorNames(host: object): string[] {
  const interceptors = (Reflect.getMetadata(ENHANCERS[1].metadata, host) as object[] | undefined) ?? [];
  return interceptors.map(nameOfEnhancer);
}

/** Returns whether a guard stands on the class or the method of a handler. */
export function hasGuards(host: object, method: Method): boolean {
  return enhancersOf(ENHANCERS[0], host, method).length > 0;
}

/** Nest documents the names of these protected properties for subclasses. */
interface PipeOptions {
  readonly transformOptions?: ClassOptions['transform'];
  readonly validatorOptions?: ClassOptions['validation'];
  readonly exceptionFactory: NonNullable<ClassOptions['exceptionFactory']>;
}

/**
 * Returns what the `ValidationPipe`s around arguments do to their class: the first one gets what the client sent.
 *
 * @param atParams the pipes of the parameters that take all arguments
 */
export function classOptionsOf(
  config: ApplicationConfig,
  host: object,
  method: Method,
  atParams: readonly unknown[],
): ClassOptions {
  const pipes = pipesAround(config, host, method, atParams).filter((pipe) => pipe instanceof ValidationPipe);
  const [first, ...others] = pipes as unknown as PipeOptions[];
  if (!first) return {};
  const closed = [first, ...others].some(
    ({ validatorOptions }) => validatorOptions?.whitelist === true && validatorOptions.forbidNonWhitelisted === true,
  );
  const { transformOptions: transform, validatorOptions: validation } = first;
  return { closed, transform, validation, exceptionFactory: (errors) => first.exceptionFactory(errors) };
}

/** Returns how a `ClassSerializerInterceptor` around a handler converts results, without `@SerializeOptions()`. */
export function serializerOptionsOf(
  config: ApplicationConfig,
  host: object,
  method: Method,
): ClassOptions['transform'] {
  const around = interceptorsAround(config, host, method);
  // The property is protected; Nest documents its name for subclasses. The last one is the first that gets the result.
  const serializer = around.findLast((interceptor) => interceptor instanceof ClassSerializerInterceptor);
  return (serializer as { readonly defaultOptions?: ClassOptions['transform'] } | undefined)?.defaultOptions;
}

/** Nest stores the options of `@SerializeOptions()` under this key. */
const SERIALIZE_OPTIONS = 'class_serializer:options';

type SerializeOptions = ClassOptions['transform'] & { readonly schema?: unknown; readonly type?: Type };

/** Returns the options of `@SerializeOptions()` on a method, or else on its class. */
export function serializeOptionsOf(host: Type, method: object): SerializeOptions | undefined {
  const [ofMethod, ofClass] = [method, host].map(
    (holder) => Reflect.getMetadata(SERIALIZE_OPTIONS, holder) as SerializeOptions | undefined,
  );
  return ofMethod ?? ofClass;
}

/** Returns whether a `ClassSerializerInterceptor` stands around a handler: it runs `@Transform()`. */
export function isSerialized(config: ApplicationConfig, host: object, method: Method): boolean {
  const scoped = config.getGlobalRequestInterceptors().map(({ metatype }) => metatype);
  return [...interceptorsAround(config, host, method), ...scoped].some((each) =>
    isOf(ClassSerializerInterceptor, each),
  );
}

function interceptorsAround(config: ApplicationConfig, host: object, method: Method): unknown[] {
  return [...config.getGlobalInterceptors(), ...enhancersOf(ENHANCERS[1], host, method)];
}

/**
 * Returns whether a `ValidationPipe` stands around a parameter, which checks its class.
 *
 * @param atParam the pipes of the parameter itself
 */
export function isValidated(
  config: ApplicationConfig,
  host: object,
  method: Method,
  atParam: readonly unknown[],
): boolean {
  return allPipesAround(config, host, method, atParam).some((pipe) => isOf(ValidationPipe, pipe));
}

/** Returns whether a pipe stands around a parameter that may change a text, a number or a list: Nest's `ValidationPipe` does not. */
export function isConverted(
  config: ApplicationConfig,
  host: object,
  method: Method,
  atParam: readonly unknown[],
): boolean {
  const pipes = allPipesAround(config, host, method, atParam);
  return pipes.some((pipe) => pipe !== ValidationPipe && (pipe as object).constructor !== ValidationPipe);
}

/** Returns whether an enhancer is an instance of a class, or the class itself, or one that extends it. */
function isOf(type: Type | typeof ClassSerializerInterceptor, enhancer: unknown): boolean {
  if (enhancer instanceof type || enhancer === type) return true;
  return typeof enhancer === 'function' && (enhancer.prototype as unknown) instanceof type;
}

/** Returns the pipes around a parameter; those that are made for each request by their classes. */
function allPipesAround(
  config: ApplicationConfig,
  host: object,
  method: Method,
  atParam: readonly unknown[],
): unknown[] {
  const scoped = config.getGlobalRequestPipes().map(({ metatype }) => metatype);
  return [...pipesAround(config, host, method, atParam), ...scoped];
}

function pipesAround(config: ApplicationConfig, host: object, method: Method, atParams: readonly unknown[]): unknown[] {
  return [...config.getGlobalPipes(), ...enhancersOf(ENHANCERS[2], host, method), ...atParams];
}

/**
 * Returns whether a handler has no enhancers. Then Nest would only create the parameters and call the method: each of its
 * stages loops over one of the lists that are checked here.
 */
export function isBare(config: ApplicationConfig, host: object, method: Method): boolean {
  return ENHANCERS.every((kind) => {
    const global: readonly unknown[] = config[`getGlobal${kind.plural}`]();
    return [enhancersOf(kind, host, method), global, scopedGlobals(config, kind)].every(({ length }) => length === 0);
  });
}

/**
 * Throws for an enhancer that Nest would skip. Nest silently skips an enhancer that it cannot create, and without a
 * guard every caller is accepted. So the start fails instead, and names the version of Nest that creates it if there is
 * one.
 *
 * @throws McpHandlerDefinitionError
 */
export function assertNoneSkipped(
  config: ApplicationConfig,
  wrapper: ProviderWrapper,
  origin: string,
  { host, method, layout }: { host: object; method: Method; layout: ParamLayout },
  version = nestVersion,
): void {
  const attached = wrapper.getEnhancersMetadata() ?? [];
  const needed = mendedIn(MADE, version);
  const update = (what: string, why: string): McpHandlerDefinitionError => {
    const reason = `Nest ${version} would skip its ${what}, or run it without its constructor, because ${why}. Update Nest to ${needed}.`;
    return new McpHandlerDefinitionError(origin, reason);
  };
  for (const enhancerKind of ENHANCERS) {
    const { kind } = enhancerKind;
    const atParams = kind === 'pipe' ? Object.values(layout.entries).flatMap(({ pipes }) => pipes ?? []) : [];
    for (const enhancer of [...enhancersOf(enhancerKind, host, method), ...atParams]) {
      if (typeof enhancer !== 'function') continue;
      const made = wrapper.host?.injectables.get(enhancer as never) as ProviderWrapper | undefined;
      if (needed !== undefined && made?.isTransient) throw update(`${kind} ${enhancer.name}`, 'it is transient');
      if (made !== undefined || isStatic(enhancer, enhancerKind)) continue;
      if (needed !== undefined && !wrapper.isNotMetatype)
        throw update(`${kind} ${enhancer.name}`, 'the token of its provider is not its class');
      throw new McpHandlerDefinitionError(
        origin,
        `Nest would silently skip its ${kind} ${enhancer.name}, because it creates those only for providers that are registered by class. Register the provider by its class or by "useClass", or give the ${kind} as an instance.`,
      );
    }
    // Enhancers of the whole app are attached to providers by their class. Older versions attach a copy with the same
    // id.
    for (const enhancer of scopedGlobals(config, enhancerKind)) {
      const what = `global ${kind} ${nameOf(enhancer)}`;
      if (needed !== undefined && enhancer.isTransient) throw update(what, 'it is transient');
      if (needed !== undefined && enhancer.isAlias) throw update(what, 'it is given by "useExisting", and is scoped');
      if (attached.some(({ id }) => id === enhancer.id)) continue;
      if (needed !== undefined && !wrapper.isNotMetatype && wrapper.token !== wrapper.metatype)
        throw update(what, 'the token of its provider is not its class');
      throw new McpHandlerDefinitionError(
        origin,
        `Nest would silently skip the ${what}, which is request- or transient-scoped: Nest runs those only around providers that are registered by a class with an MCP decorator.`,
      );
    }
    const globals: readonly unknown[] = config[`getGlobal${enhancerKind.plural}`]();
    if (needed !== undefined && globals.some((enhancer) => enhancer === null || enhancer === undefined))
      throw update(`global ${kind}`, 'it is given by "useExisting", and is scoped');
  }
}

/** Returns whether the class of an enhancer has the method as a static one, which Nest calls. */
function isStatic(enhancer: object, { method }: EnhancerKind): boolean {
  return typeof Reflect.get(enhancer, method) === 'function';
}

/** Says why a provider, without its enhancers, is not the same for all requests; `undefined`: it is. */
export function whyNotShared(wrapper: ProviderWrapper): string | undefined {
  const injected = [
    ...(wrapper.getCtorMetadata() ?? []),
    ...(wrapper.getPropertiesMetadata() ?? []).map(({ wrapper: property }) => property),
  ];
  const scoped = injected.find((each) => each && !each.isDependencyTreeStatic());
  if (scoped) return `injects ${String(scoped.name)}, which is made for each request`;
  const own = wrapper.scope === Scope.REQUEST || wrapper.scope === Scope.TRANSIENT;
  return own ? 'is not a singleton' : undefined;
}

/**
 * Names the guards of the app, for messages.
 *
 * @returns `named`: their classes; `unnamed`: the modules in which a factory made an object without a class, of which nothing is known
 */
export function globalGuardNames(
  config: ApplicationConfig,
  modules: ModulesContainer,
): { readonly named: string[]; readonly unnamed: string[] } {
  const [named, unnamed] = [new Set<string>(), new Set<string>()];
  for (const guard of config.getGlobalGuards()) {
    const { name } = guard.constructor;
    const home = name === 'Object' ? homeOf(guard, modules) : undefined;
    if (home?.isFactory) unnamed.add(home.module);
    else named.add(name === 'Object' ? `an object without a class (${home?.module ?? 'app.useGlobalGuards()'})` : name);
  }
  for (const wrapper of config.getGlobalRequestGuards()) named.add(nameOf(wrapper));
  return { named: [...named], unnamed: [...unnamed] };
}

function homeOf(
  guard: CanActivate,
  modules: ModulesContainer,
): { readonly module: string; readonly isFactory: boolean } | undefined {
  for (const { name: module, providers } of modules.values()) {
    for (const { instance, metatype } of providers.values()) {
      if (instance === guard) return { module, isFactory: typeof metatype === 'function' };
    }
  }
  return undefined;
}

function nameOf({ metatype, isAlias, inject, name }: ProviderWrapper): string {
  const type: unknown = isAlias ? inject?.[0] : metatype;
  return typeof type === 'function' && type.name ? type.name : String(name);
}
