import { ContextIdFactory, type ContextId, ModuleRef } from '@nestjs/core';
import type { ProviderWrapper } from './nest-metadata.js';

/**
 * # Providers that live as long as a request
 *
 * The request is that of HTTP: `@Inject(REQUEST)` gives it, and what a request-scoped guard of the endpoint put into a
 * request-scoped service is there in the handler. The calls of a batch share their instances, as the fields of one GraphQL
 * request do; so do the entries of one list. A transient provider that needs no request is made anew for each call.
 *
 * Durable providers live in the context that the app's `ContextIdStrategy` gives; what they get as `REQUEST` is its
 * payload, as in routes. Early versions of Nest 11 take that from what is registered, so both have contexts of their own.
 */
export class RequestContexts {
  readonly #ofRequests = new WeakMap<object, Map<'request' | 'durable', ContextId>>();

  /** The instance of a provider for one request, made when the first call needs it. */
  async resolve(wrapper: ProviderWrapper, request: unknown): Promise<{ instance: object; contextId: ContextId }> {
    const moduleRef = moduleRefOf(wrapper);
    const contextId = this.#contextIdOf(wrapper, request, moduleRef);
    const instance: object = await moduleRef.resolve(wrapper.token, contextId, { strict: true });
    return { instance, contextId };
  }

  #contextIdOf(wrapper: ProviderWrapper, request: unknown, moduleRef: ModuleRef): ContextId {
    const lifetime = wrapper.isDependencyTreeDurable() ? 'durable' : 'request';
    const ofRequest = typeof request === 'object' && request !== null ? request : undefined;
    // A transient tree without anything of the request: nothing to share.
    if (!ofRequest || wrapper.isDependencyTreeStatic()) return ContextIdFactory.create();
    const known = this.#ofRequests.get(ofRequest) ?? new Map<'request' | 'durable', ContextId>();
    this.#ofRequests.set(ofRequest, known);
    let contextId = known.get(lifetime);
    if (!contextId) {
      contextId = ContextIdFactory.getByRequest(ofRequest);
      register(moduleRef, ofRequest, contextId, lifetime);
      known.set(lifetime, contextId);
    }
    return contextId;
  }
}

/** Says what `REQUEST` is, unless Nest's router has done so for a request-scoped controller or guard of the endpoint. */
function register(moduleRef: ModuleRef, request: object, contextId: ContextId, lifetime: string): void {
  if (hangsOn(request, contextId) || hangsOn((request as { raw?: unknown }).raw, contextId)) return;
  const payload: unknown = contextId.payload;
  const value: unknown = lifetime === 'durable' ? payload : Object.assign(request, payload);
  moduleRef.registerRequestByContextId(value, contextId);
}

/** The router keeps the id under a symbol that is not exported. */
function hangsOn(request: unknown, contextId: ContextId): boolean {
  if (typeof request !== 'object' || request === null) return false;
  return Object.getOwnPropertySymbols(request).some((key) => Reflect.get(request, key) === contextId);
}

function moduleRefOf(wrapper: ProviderWrapper): ModuleRef {
  return wrapper.host!.getProviderByKey<ModuleRef>(ModuleRef).instance;
}
