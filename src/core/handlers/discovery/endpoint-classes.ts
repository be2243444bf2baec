import { type CanActivate, Inject, Injectable, type Type } from '@nestjs/common';
import { DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { MCP_OPTIONS } from '../../common/options.js';
import { type RequiredScopes, SCOPES_DECORATOR, type ScopesDecorator } from '../../plugins/scopes.js';
import type { ClassMark } from '../decorators/handler.decorators.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import { whyNotShared } from '../invocation/enhancers.js';
import { HandlerInvokers, type MethodInvoker } from '../invocation/handler-invokers.js';
import { MethodRoutes } from '../invocation/method-routes.js';
import { methodOf } from '../invocation/params.js';
import { HandlerTable } from '../registry/handler-table.js';
import { type DeclaringProvider, EndpointMark, hostsOf, scanApp } from './app-scan.js';

/** The classes of an app whose methods serve calls of one endpoint. */
@Injectable()
export class EndpointClasses {
  #all: readonly DeclaringProvider[] | undefined;

  constructor(
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
    @Inject(MethodRoutes) private readonly routes: MethodRoutes,
    @Inject(EndpointMark) private readonly endpoint: EndpointMark,
    @Inject(HandlerInvokers) private readonly invokers: HandlerInvokers,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(MCP_OPTIONS) private readonly options: { readonly listGuards?: readonly Type<CanActivate>[] },
    @Inject(SCOPES_DECORATOR) private readonly requireScopes: ScopesDecorator,
  ) {}

  /** In the order in which Nest found them. All providers must exist. @throws McpHandlerDefinitionError */
  get all(): readonly DeclaringProvider[] {
    return (this.#all ??= this.#found());
  }

  /** Returns the classes that a decorator of a feature has marked. @throws McpHandlerDefinitionError */
  marked<Options>(feature: string): MarkedClass<Options>[] {
    return this.all.flatMap((host) => {
      const { type, mark } = host;
      if (mark?.feature !== feature) return [];
      return [{ type, origin: originOf(host), options: mark.options as Options, method: this.#method(host, mark) }];
    });
  }

  #found(): DeclaringProvider[] {
    const hosts = hostsOf(this.endpoint, scanApp(this.discovery, this.modules, this.scanner, this.routes));
    for (const host of hosts) if (host.mark) this.table.assertServes(originOf(host));
    return hosts;
  }

  /** @throws McpHandlerDefinitionError */
  #method(provider: DeclaringProvider, mark: ClassMark): MarkedClass['method'] {
    const { wrapper, type, module } = provider;
    const origin = originOf(provider);
    const { decorator, methods, serving: methodName } = mark;
    for (const name of methods) {
      if (methodOf(type.prototype, name)) continue;
      throw new McpHandlerDefinitionError(origin, `it has ${decorator}, but no method "${name}". Add it.`);
    }
    const why = whyNotShared(wrapper);
    if (why !== undefined) {
      const reason = `it has ${decorator} and ${why}, while its lists are kept beyond a request. Inject singletons only; "${methodName}" finds the request in its McpContext.`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    const { listGuards } = this.options;
    const about = { kind: 'tool', name: type.name, ...(listGuards && { listGuards }) } as const;
    const host = { wrapper, methodName, origin: `${type.name}.${methodName} (${module})` };
    return (scopes) => this.invokers.create(scopes ? { ...host, decorator: this.requireScopes(scopes) } : host, about);
  }
}

function originOf({ type, module }: DeclaringProvider): string {
  return `${type.name} (${module})`;
}

/** A class with the decorator of a feature. */
export interface MarkedClass<Options = unknown> {
  readonly type: object & { readonly name: string };
  /** Names it in messages, such as `PluginTools (PluginsModule)`. */
  readonly origin: string;
  /** What the decorator has stored. */
  readonly options: Options;
  /** Makes the invoker of its method. @throws TypeError for what is no scope; McpHandlerDefinitionError */
  method(scopes?: RequiredScopes): MethodInvoker;
}
