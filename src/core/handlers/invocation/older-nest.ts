import 'reflect-metadata';
import { ContextIdFactory, type DiscoveryService, type ModulesContainer, REQUEST } from '@nestjs/core';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import { nestVersion } from './nest-version.cjs';

/** A provider, as Nest describes it. */
export type ProviderWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/** A fault of Nest is described by the first version of each major version that does not have it. */
export type Mended = Readonly<Record<string, string>>;

/**
 * Older versions do not make some enhancers for each handler, so that a guard is skipped, or called without its
 * constructor: transient enhancers, global ones by `useExisting` of a scoped class, and enhancers of a provider that
 * has another token than its class.
 */
export const MADE: Mended = { 11: '11.2.8', 12: '12.2.0' };

/** Older versions give a durable provider the request of its first caller as `REQUEST`, instead of the payload of the strategy. */
const PAYLOAD: Mended = { 11: '11.2.10', 12: '12.5.0' };

/**
 * On Fastify, older versions put the global prefix before each path of middleware, also before those of routes that are
 * excluded from it: it does not run for these.
 */
const MOUNTED: Mended = { 11: '11.2.0' };

/** Returns the path for which Nest runs middleware on Fastify. @param prefix of the app, such as `/api` */
export function mountedOnFastify(path: string, prefix: string, version = nestVersion): string {
  return mendedIn(MOUNTED, version) === undefined || path.startsWith(prefix) ? path : `${prefix}${path}`;
}

/**
 * Returns where a fault is fixed.
 *
 * @returns the version of the same major version that does not have it; nothing if `version` does not have it
 */
export function mendedIn(mended: Mended, version: string): string | undefined {
  const needed = mended[version.split('.')[0]!];
  return needed !== undefined && isOlder(version, needed) ? needed : undefined;
}

function isOlder(version: string, other: string): boolean {
  const [own, others] = [version, other].map((each) => each.split('.').map((part) => Number.parseInt(part, 10)));
  const at = own!.findIndex((part, index) => part !== others![index]);
  return at >= 0 && own![at]! < others![at]!;
}

/**
 * Checks durable providers that inject `REQUEST`, around a handler whose provider is not static.
 *
 * @throws McpHandlerDefinitionError for one that an older Nest would give the request of another caller
 */
export function assertPayload(
  wrapper: ProviderWrapper,
  modules: ModulesContainer,
  origin: string,
  version = nestVersion,
): void {
  const needed = mendedIn(PAYLOAD, version);
  // Without a strategy, providers that are durable live as long as a request.
  const { strategy } = ContextIdFactory as unknown as { readonly strategy?: unknown };
  if (needed === undefined || !strategy || wrapper.isDependencyTreeStatic()) return;
  const all = [...modules.values()].flatMap((module) => [...module.providers.values(), ...module.injectables.values()]);
  const durable = all.find((each) => each.durable === true && injectsRequest(each));
  if (!durable) return;
  throw new McpHandlerDefinitionError(
    origin,
    `Nest ${version} would give the durable provider ${String(durable.name)} the request of its first caller as REQUEST, instead of the payload of the ContextIdStrategy. Update Nest to ${needed}.`,
  );
}

/** Nest stores what `@Inject()` declares at parameters and at properties under these keys. */
const INJECTED = [
  ['self:paramtypes', 'param'],
  ['self:properties_metadata', 'type'],
] as const;

/**
 * Returns whether a provider injects `REQUEST`, by its class or factory: Nest resolves its dependencies when the first
 * request comes.
 */
function injectsRequest({ metatype, inject }: ProviderWrapper): boolean {
  if (inject)
    return inject.some((each: unknown) => each === REQUEST || (each as { token?: unknown }).token === REQUEST);
  if (typeof metatype !== 'function') return false;
  return INJECTED.some(([key, token]) => {
    const noted = (Reflect.getMetadata(key, metatype) ?? []) as Readonly<Record<string, unknown>>[];
    return noted.some((each) => each[token] === REQUEST);
  });
}
