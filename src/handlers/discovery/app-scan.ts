import type { DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { declarationsOf, type HandlerDeclaration } from '../decorators/handler-declaration.js';
import type { ProviderWrapper } from '../invocation/nest-metadata.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import { EndpointMark, FeatureMark } from './marks.js';

/** A method with what decorators said of it. */
export interface DeclaredMethod {
  readonly methodName: string;
  readonly declarations: readonly HandlerDeclaration[];
}

/** A provider or controller that has handlers. */
export interface DeclaringProvider {
  readonly wrapper: ProviderWrapper;
  /** Its class, also when nobody has made an instance. */
  readonly type: HostType;
  /** The name of the module that provides it. */
  readonly module: string;
  readonly methods: readonly DeclaredMethod[];
}

export type HostType = object & { readonly name: string; readonly prototype: object };

/** What an app has, as far as endpoints care. */
export interface AppScan {
  readonly endpoints: readonly EndpointMark[];
  readonly features: readonly FeatureMark[];
  readonly hosts: readonly DeclaringProvider[];
  /** Whether some module provides the class, or something in its place (as tests do). */
  readonly provides: (type: object) => boolean;
}

/** Nest's own means of looking at an app. */
export interface NestApp {
  readonly discovery: DiscoveryService;
  readonly modules: ModulesContainer;
  readonly scanner: MetadataScanner;
}

/**
 * Looks through all providers and controllers of an app, without making an instance of any.
 *
 * In the order of modules, providers, methods as Nest found them: that follows from the sources alone, so it is the same
 * on every node and in every start.
 */
export function scanApp({ discovery, modules, scanner }: NestApp): AppScan {
  const places = [...modules.values()].map((module) => ({
    module: module.name,
    wrappers: [...discovery.getProviders({}, [module]), ...discovery.getControllers({}, [module])],
  }));
  const wrappers = places.flatMap((place) => place.wrappers).filter((wrapper) => !wrapper.isAlias);
  const ofClasses = wrappers.filter((wrapper) => !wrapper.isNotMetatype);
  const made = new Set(ofClasses.map(instanceOf));
  const known = new Set(wrappers.flatMap(({ token, metatype }): unknown[] => [token, metatype]));
  const isHost = (wrapper: ProviderWrapper): boolean =>
    !wrapper.isAlias && (!wrapper.isNotMetatype || !made.has(instanceOf(wrapper)));
  return {
    endpoints: wrappers.map(instanceOf).filter((instance) => instance instanceof EndpointMark),
    features: wrappers.map(instanceOf).filter((instance) => instance instanceof FeatureMark),
    hosts: places.flatMap(({ module, wrappers }) =>
      wrappers.filter(isHost).flatMap((wrapper) => hostOf(wrapper, module, scanner)),
    ),
    provides: (type) => known.has(type),
  };
}

function hostOf(wrapper: ProviderWrapper, module: string, scanner: MetadataScanner): DeclaringProvider[] {
  const type = typeOf(wrapper);
  if (!type) return [];
  const methods = scanner.getAllMethodNames(type.prototype).map((methodName) => ({
    methodName,
    declarations: declarationsOf(Reflect.get(type.prototype, methodName)),
  }));
  const declared = methods.filter(({ declarations }) => declarations.length > 0);
  // Only now that it is one with handlers: other factories are none of our business.
  if (declared.length > 0 && isMadeLater(wrapper)) {
    throw new HandlerDefinitionError(`${type.name} (${module})`, handlerMessages.madeLater());
  }
  return declared.length > 0 ? [{ wrapper, type, module, methods: declared }] : [];
}

/** The class of a provider; of what a factory or a value gives, that of the instance, or what it is provided as. */
function typeOf(wrapper: ProviderWrapper): HostType | undefined {
  const given = isMadeLater(wrapper) ? wrapper.token : constructorOf(instanceOf(wrapper));
  const type: unknown = wrapper.isNotMetatype ? given : wrapper.metatype;
  const prototype = typeof type === 'function' ? (type.prototype as unknown) : undefined;
  return typeof prototype === 'object' && prototype !== null ? (type as HostType) : undefined;
}

/** By a factory, for each request: nobody knows at the start what it will be, and a handler would silently be missing. */
function isMadeLater(wrapper: ProviderWrapper): boolean {
  return wrapper.isNotMetatype && (wrapper.isTransient || !wrapper.isDependencyTreeStatic());
}

function constructorOf(instance: unknown): unknown {
  if (typeof instance !== 'object' || instance === null) return undefined;
  const prototype: unknown = Object.getPrototypeOf(instance);
  if (prototype === null || prototype === Object.prototype) return undefined;
  return Object.hasOwn(prototype as object, 'constructor') ? (prototype as object).constructor : undefined;
}

function instanceOf(wrapper: ProviderWrapper): unknown {
  return wrapper.instance as unknown;
}
