import { type DynamicModule, Module, type Type } from '@nestjs/common';
import type { DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import {
  type ClassMark,
  classMarkOf,
  confirmOf,
  declarationsOf,
  endpointsOf,
  type HandlerDeclaration,
  toolsOf,
} from '../decorators/handler.decorators.js';
import { McpHandlerDefinitionError, namesText } from '../handlers.errors.js';
import type { ProviderWrapper } from '../invocation/enhancers.js';
import type { MethodRoutes } from '../invocation/method-routes.js';

/** Marks an endpoint of the app. The module of each endpoint provides one. */
export class EndpointMark {
  constructor(readonly name: string | undefined) {}
}

/** Holds the arguments of `McpStreamableModule.forFeature()`. Each module that it makes provides one. */
export class FeatureMark {
  constructor(
    readonly providers: readonly object[],
    /** The option `name` of the endpoint; `undefined`: the class counts as one without a mark. */
    readonly endpoint: string | undefined,
  ) {}
}

/** The module of `forFeature()` provides a mark, which endpoints find. */
@Module({})
class McpFeatureModule {}

/** Returns the module of `forFeature()`. @throws McpHandlerDefinitionError for a provider that is not a class */
export function featureModule(providers: readonly Type[], name: string | undefined): DynamicModule {
  // Circular imports leave `undefined` in the array.
  const classes = Array.isArray(providers) && providers.every((provider) => typeof provider === 'function');
  if (!classes) {
    throw new McpHandlerDefinitionError(
      'forFeature()',
      'it takes an array of provider classes, and one element is not a class. It is undefined if it comes from a circular import.',
    );
  }
  const mark = new FeatureMark(providers, name);
  return { module: McpFeatureModule, providers: [{ provide: Symbol('mcp feature'), useValue: mark }] };
}

/** A provider or controller that has handlers. */
export interface DeclaringProvider {
  readonly wrapper: ProviderWrapper;
  /** The class is known also when there is no instance yet. */
  readonly type: HostType;
  /** The name of the module that provides it. */
  readonly module: string;
  /** Holds its methods with the declarations of their decorators. */
  readonly methods: readonly { readonly methodName: string; readonly declarations: readonly HandlerDeclaration[] }[];
  /** Present if it has the decorator of a feature. */
  readonly mark: ClassMark | undefined;
}

type HostType = object & { readonly name: string; readonly prototype: object };

/** Holds the endpoints, marks and hosts of an app. */
export interface AppScan {
  readonly endpoints: readonly EndpointMark[];
  readonly features: readonly FeatureMark[];
  readonly hosts: readonly DeclaringProvider[];
  /** Returns whether a module provides the class, or a replacement for it (as tests do). */
  readonly provides: (type: object) => boolean;
}

/**
 * Scans all providers and controllers of an app, without creating an instance.
 *
 * Modules, providers and methods are in the order in which Nest found them, which depends on the sources alone: it is
 * the same on every node and in every start.
 */
export function scanApp(
  discovery: DiscoveryService,
  modules: ModulesContainer,
  scanner: MetadataScanner,
  routes: Pick<MethodRoutes, 'toolsOf'>,
): AppScan {
  const found = [...modules.values()].flatMap((module) =>
    [...discovery.getProviders({}, [module]), ...discovery.getControllers({}, [module])]
      .filter(({ isAlias }) => !isAlias)
      .map((wrapper) => ({ wrapper, module: module.name, instance: wrapper.instance as unknown })),
  );
  const instances = found.map(({ instance }) => instance);
  const ofClasses = new Set(found.filter(({ wrapper }) => !wrapper.isNotMetatype).map(({ instance }) => instance));
  const known = new Set(found.flatMap(({ wrapper: { token, metatype } }): unknown[] => [token, metatype]));
  return {
    endpoints: instances.filter((instance) => instance instanceof EndpointMark),
    features: instances.filter((instance) => instance instanceof FeatureMark),
    hosts: found
      // A factory may return the instance of a class that is also provided.
      .filter(({ wrapper, instance }) => !wrapper.isNotMetatype || !ofClasses.has(instance))
      .flatMap(({ wrapper, module }) => hostOf(wrapper, module, scanner, routes)),
    provides: (type) => known.has(type),
  };
}

function hostOf(
  wrapper: ProviderWrapper,
  module: string,
  scanner: MetadataScanner,
  routes: Pick<MethodRoutes, 'toolsOf'>,
): DeclaringProvider[] {
  // A factory that runs for each request may make any class, so its handlers cannot be found at the start.
  const madeLater = wrapper.isNotMetatype && (wrapper.isTransient || !wrapper.isDependencyTreeStatic());
  const given: unknown = madeLater ? wrapper.token : classOf(wrapper.instance);
  const type: unknown = wrapper.isNotMetatype ? given : wrapper.metatype;
  if (typeof type !== 'function') return [];
  const prototype: unknown = type.prototype;
  if (typeof prototype !== 'object' || prototype === null) return [];
  const names = scanner.getAllMethodNames(prototype);
  const made = routes.toolsOf(type, names);
  const except = toolsOf(type)?.except ?? [];
  const mark = classMarkOf(type);
  const methods = names
    .map((methodName) => {
      // This includes a method that the base class has made a tool.
      const isLeftOut = except.includes(methodName);
      const declared = declarationsOf(Reflect.get(prototype, methodName)).filter(
        ({ kind }) => kind !== 'tool' || !isLeftOut,
      );
      const isTool = declared.some(({ kind }) => kind === 'tool');
      const isMade = !isTool && made.includes(methodName);
      if (!isTool && !isMade && !isLeftOut && confirmOf(prototype, methodName)) {
        const remedy = mark && methodName === mark.serving ? mark.confirm : 'Add @Tool(), or remove @Confirm().';
        const reason = `it has @Confirm(), but is no tool: only tools ask before they run. ${remedy}`;
        throw new McpHandlerDefinitionError(`${type.name}.${methodName} (${module})`, reason);
      }
      return { methodName, declarations: isMade ? [...declared, ROUTE_TOOL] : declared };
    })
    .filter(({ declarations }) => declarations.length > 0);
  if (methods.length === 0 && !mark) return [];
  if (!madeLater) return [{ wrapper, type, module, methods, mark }];
  throw new McpHandlerDefinitionError(
    `${type.name} (${module})`,
    'a factory creates it for each request, so its handlers cannot be found at the start. Register it by its class, or by "useClass".',
  );
}

const ROUTE_TOOL: HandlerDeclaration = { kind: 'tool', options: {} };

/** Returns the class without asking the instance itself, which may be a Proxy. */
function classOf(instance: unknown): unknown {
  if (typeof instance !== 'object' || instance === null) return undefined;
  const prototype = Object.getPrototypeOf(instance) as object | null;
  return prototype && Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value;
}

/**
 * # Which endpoint a handler belongs to
 *
 * | the app has | a class with a mark | a class without |
 * |---|---|---|
 * | one endpoint, named or not | that of the mark | that endpoint |
 * | several, one of them without a name | those of its marks | the one without a name |
 * | several, all with names | those of its marks | the app does not start |
 *
 * Marks are `@McpHandlers({ endpoint })` and `McpStreamableModule.forFeature([Class], name)`; with several, the class
 * belongs to all of them. A mark with an unknown endpoint prevents the start, too: otherwise the handler would be
 * served nowhere, or at the wrong endpoint, without notice.
 *
 * @throws McpHandlerDefinitionError
 */
export function hostsOf(
  endpoint: EndpointMark,
  { endpoints, features, hosts, provides }: AppScan,
): DeclaringProvider[] {
  const named = (name: string, origin: string): EndpointMark => {
    const found = endpoints.find((each) => each.name === name);
    if (found) return found;
    const known = namesText(endpoints.map((each) => each.name ?? '(without a name)'));
    const advice = endpoints.some((each) => each.name !== undefined) ? '' : ' Leave the name of the endpoint out.';
    const reason = `it belongs to the endpoint "${name}", which the app does not have. ${known}${advice}`;
    throw new McpHandlerDefinitionError(origin, reason);
  };
  // Each name and class in `forFeature()` must exist, also if the class has no handlers.
  for (const feature of features) {
    for (const type of feature.providers as HostType[]) {
      if (feature.endpoint !== undefined) named(feature.endpoint, type.name);
      if (provides(type)) continue;
      const reason =
        'McpStreamableModule.forFeature() names it, but no module provides it. Add it to the "providers" of its module.';
      throw new McpHandlerDefinitionError(type.name, reason);
    }
  }
  return hosts.filter(({ type }) => {
    const marks = features.filter(({ providers }) => providers.includes(type)).map((feature) => feature.endpoint);
    const marked = [...endpointsOf(type), ...marks.filter((name) => name !== undefined)];
    // Each name is checked, to find one that no endpoint has.
    if (marked.length > 0) return marked.map((name) => named(name, type.name)).includes(endpoint);
    const own = endpoints.length === 1 ? endpoints[0] : endpoints.find(({ name }) => name === undefined);
    if (own) return own === endpoint;
    throw new McpHandlerDefinitionError(
      type.name,
      `its endpoint is not specified, and every endpoint of the app has a name. Use @McpHandlers({ endpoint }) or McpStreamableModule.forFeature(). ${namesText(endpoints.map(({ name }) => String(name)))}`,
    );
  });
}
