import type { ApplicationConfig } from '@nestjs/core';
import { invocationMessages } from '../invocation.messages.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import type { ParamLayout } from '../params/param-layout.js';
import { type EnhancerKind, ENHANCERS, type Method, PIPE, type ProviderWrapper } from './nest-metadata.js';

/** What stands on the class and the method of a handler, of one kind. */
export function enhancersOf({ metadata }: EnhancerKind, host: object, method: Method): unknown[] {
  return [host, method].flatMap((holder) => (Reflect.getMetadata(metadata, holder) as unknown[] | undefined) ?? []);
}

/**
 * Whether nothing at all runs around a handler. Then Nest's machine would only make the parameters and call the method:
 * each of its stages is a loop over one of the lists that are looked at here.
 */
export function isBare(config: ApplicationConfig, host: object, method: Method): boolean {
  const own = ENHANCERS.flatMap((kind) => enhancersOf(kind, host, method));
  return own.length === 0 && globalEnhancers(config).length === 0 && scopedGlobals(config).length === 0;
}

/**
 * Nest skips in silence what it cannot make: a guard that is not there lets everybody in. So it is said at the start.
 *
 * @throws HandlerDefinitionError
 */
export function assertNoneSkipped(
  wrapper: ProviderWrapper,
  origin: string,
  { host, method, layout }: { host: object; method: Method; layout: ParamLayout },
): void {
  for (const kind of ENHANCERS) {
    const atParams = kind === PIPE ? Object.values(layout.entries).flatMap(({ pipes }) => pipes ?? []) : [];
    for (const enhancer of [...enhancersOf(kind, host, method), ...atParams]) {
      if (typeof enhancer !== 'function' || isMade(wrapper, enhancer, kind)) continue;
      throw new HandlerDefinitionError(origin, invocationMessages.enhancerNotProvided(kind.kind, enhancer.name));
    }
  }
}

/**
 * Request- and transient-scoped enhancers of the whole app are attached to providers by their class.
 *
 * @throws HandlerDefinitionError
 */
export function assertScopedGlobalsAttached(config: ApplicationConfig, wrapper: ProviderWrapper, origin: string): void {
  // By token, which is unique: early versions of Nest 11 hold two wrappers of each.
  const attached = (wrapper.getEnhancersMetadata() ?? []).map(({ token }) => token);
  for (const { kind, wrapper: enhancer } of scopedGlobals(config)) {
    if (attached.includes(enhancer.token)) continue;
    throw new HandlerDefinitionError(origin, invocationMessages.scopedGlobalSkipped(kind, nameOf(enhancer)));
  }
}

/** Given by class: Nest has made it in the module of the provider, or its class is one itself. */
function isMade(wrapper: ProviderWrapper, enhancer: object, { method }: EnhancerKind): boolean {
  const made = wrapper.host?.injectables.has(enhancer as never);
  return made === true || typeof Reflect.get(enhancer, method) === 'function';
}

/** The classes of all guards of the app, for messages. */
export function globalGuardNames(config: ApplicationConfig): string[] {
  const made = config.getGlobalGuards().map(({ constructor: { name } }) => {
    return name === 'Object' ? 'an object without a class' : name;
  });
  return [...new Set([...made, ...config.getGlobalRequestGuards().map(nameOf)])];
}

function globalEnhancers(config: ApplicationConfig): unknown[] {
  return [
    ...config.getGlobalGuards(),
    ...config.getGlobalInterceptors(),
    ...config.getGlobalPipes(),
    ...config.getGlobalFilters(),
  ];
}

function scopedGlobals(config: ApplicationConfig): { kind: string; wrapper: ProviderWrapper }[] {
  const of = (kind: string, wrappers: ProviderWrapper[]) => wrappers.map((wrapper) => ({ kind, wrapper }));
  return [
    ...of('guard', config.getGlobalRequestGuards()),
    ...of('interceptor', config.getGlobalRequestInterceptors()),
    ...of('pipe', config.getGlobalRequestPipes()),
    ...of('filter', config.getGlobalRequestFilters()),
  ];
}

function nameOf({ metatype, name }: ProviderWrapper): string {
  return typeof metatype === 'function' && metatype.name ? metatype.name : String(name);
}
