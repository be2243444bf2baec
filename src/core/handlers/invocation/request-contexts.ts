import { Inject, Injectable } from '@nestjs/common';
import { type ContextId, ContextIdFactory, ModuleRef } from '@nestjs/core';
// @nestjs/graphql imports it from here too.
import { REQUEST_CONTEXT_ID } from '@nestjs/core/router/request/request-constants.js';
import { isObject } from '../../protocol/json-rpc.js';

/**
 * # The DI context of a request
 *
 * Nest keeps the providers of a request in a context, and stores its id in the request: `ContextIdFactory.getByRequest(request)`
 * gives an enhancer the instances that its route has. Nest's router does so if the controller is not static, and ours is. So the
 * request of the endpoint gets its context here, before the first guard; it is made when it is first asked for.
 *
 * - All that serves the request shares the context: guards of the endpoint, enhancers and providers of handlers, the calls of
 *   a batch, the entries of a list.
 * - A request that was made for one call, as for a method that is a route too, has a context of its own: providers of the POST have
 *   read its query.
 * - A context that Nest has made before, for middleware or a guard, is kept.
 */
@Injectable()
export class RequestContexts {
  /** The request whose context is being made: Nest looks there first. */
  #making: object | undefined;
  // All requests share two getters: one with a getter of its own would be a dictionary, which takes 900 bytes and is slow.
  readonly #shared = this.#property(false);
  readonly #own = this.#property(true);

  constructor(@Inject(ModuleRef) private readonly moduleRef: ModuleRef) {}

  /** Gives a request its context, unless it has one. @param isOwn whether it needs one of its own, as the view of another request */
  open(request: unknown, isOwn = false): void {
    if (!isObject(request)) return;
    if (isOwn ? Object.hasOwn(request, REQUEST_CONTEXT_ID) : REQUEST_CONTEXT_ID in request) return;
    Object.defineProperty(request, REQUEST_CONTEXT_ID, isOwn ? this.#own : this.#shared);
  }

  /** Returns the context of a request; a new one if there is no request. */
  of(request: unknown): ContextId {
    this.open(request);
    return ContextIdFactory.getByRequest(request as object);
  }

  #property(isOwn: boolean): PropertyDescriptor {
    const make = (request: object): ContextId | undefined => this.#make(request, isOwn);
    return {
      configurable: true,
      get(this: object) {
        return make(ownerOf(this));
      },
    };
  }

  #make(request: object, isOwn: boolean): ContextId | undefined {
    if (this.#making === request) return undefined;
    const before = this.#making;
    this.#making = request;
    try {
      const contextId = ContextIdFactory.getByRequest(request, isOwn ? [] : undefined);
      Object.defineProperty(request, REQUEST_CONTEXT_ID, { value: contextId });
      this.moduleRef.registerRequestByContextId(Object.assign(request, contextId.payload), contextId);
      return contextId;
    } finally {
      this.#making = before;
    }
  }
}

/** Returns the request that has the context: the getter of an object is called for those that inherit from it, too. */
function ownerOf(request: object): object {
  let owner = request;
  while (!Object.hasOwn(owner, REQUEST_CONTEXT_ID)) owner = Object.getPrototypeOf(owner) as object;
  return owner;
}
