import type { InjectionToken, Provider } from '@nestjs/common';
import { contract, MCP_OPTIONS, object, required } from '../common/options.js';
import { ENDPOINT_NAME, type EndpointName } from './endpoint-name.js';

type Parts = Readonly<Record<string, object | undefined>>;
type Backend = Parts & { claim?(endpoint: Pick<EndpointName, 'name' | 'path'>): void };

/** The injection token of the option `backend`; its value is `undefined` without one. */
export const MCP_BACKEND = Symbol('nestjs-mcp-streamable:backend');

export const backendProvider: Provider = {
  provide: MCP_BACKEND,
  useFactory: ({ backend }: { backend?: Backend | (() => Backend) }, { name, path }: EndpointName) => {
    const parts = typeof backend === 'function' ? backend() : backend;
    parts?.claim?.({ name, path });
    return parts;
  },
  inject: [MCP_OPTIONS, ENDPOINT_NAME],
};

/**
 * The injection token of the stores that outlive this process while an app is developed; its value is `undefined`
 * otherwise.
 */
export const MCP_DEV_STORES = Symbol('nestjs-mcp-streamable:dev-stores');

/**
 * Returns the provider of a part that an app may replace: by the option of its name, or in the option `backend`.
 *
 * @param methods the methods that it must have; those of the option are checked with all options
 * @param byDefault creates the default
 * @param inject the tokens of the arguments of `byDefault`
 * @param ifShared the methods that it must have, too, if its `scope` is `shared`
 */
export function replaceablePart<T extends object, Injected extends unknown[]>(
  provide: InjectionToken<T>,
  name: string,
  methods: readonly (keyof T & string)[],
  byDefault: (...injected: Injected) => T,
  inject: InjectionToken[] = [],
  ifShared: readonly string[] = [],
): Provider {
  return {
    provide,
    useFactory: (options: Parts, backend: Parts | undefined, dev: Parts | undefined, ...injected: Injected): T => {
      const own = options[name];
      if (own) return own as T;
      if (options['backend'] === undefined) return (dev?.[name] as T | undefined) ?? byDefault(...injected);
      const parts = object<Parts>(required)(backend, 'backend');
      return contract<T>(required, methods, ifShared)(parts[name] as T, `backend.${name}`);
    },
    inject: [MCP_OPTIONS, MCP_BACKEND, MCP_DEV_STORES, ...inject],
  };
}
