import 'reflect-metadata';
import type { DiscoveryService } from '@nestjs/core';

/**
 * Where Nest keeps what its decorators say. These keys are the same since Nest 4, but not exported by all versions from
 * the same place; the specs see to it that they hold.
 */
export const ROUTE_ARGUMENTS = '__routeArguments__';
/** In the key of each entry there whose decorator was made by `createParamDecorator()`. */
export const CUSTOM_ARGUMENT = '__customRouteArgs__';
export const PARAM_TYPES = 'design:paramtypes';

/** What Nest knows of one provider. */
export type ProviderWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** A method that was found on a provider. */
export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** The method of a class by its name, also an inherited one. */
export function methodOf(holder: object, name: string): Method | undefined {
  const method: unknown = Reflect.get(holder, name);
  return typeof method === 'function' ? (method as Method) : undefined;
}

/**
 * The class whose metadata has the parameters of a method: the one that declared it, which a mixin may have copied to
 * another. The same rule as in Nest.
 */
export function paramsHostOf(host: Type, methodName: string): Type {
  const prototype = host.prototype as Record<string, unknown> & { constructor?: unknown };
  const declaring = prototype.constructor as Type | undefined;
  const declares =
    typeof declaring === 'function' &&
    (declaring.prototype as Record<string, unknown> | undefined)?.[methodName] === prototype[methodName];
  return declares ? declaring : host;
}

type Type = new (...args: never[]) => object;
