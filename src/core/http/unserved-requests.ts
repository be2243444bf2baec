import { setImmediate as nextTurn } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import { nameOfEnhancer } from '../calls/operator-log.js';
import { loneRequestId } from '../eras/mcp-endpoint.js';
import { McpError } from '../protocol/errors.js';
import { McpRequestReader, type PlatformRequest } from './mcp-incoming.js';
import { RefusalLog } from './refusal-log.js';
import { McpResponder } from './responder.js';

/**
 * # Requests that an interceptor ends
 *
 * An interceptor of the app may end without `next.handle()`, as a cache and a switch for maintenance do. Nest sends the value of
 * such an interceptor for a route that returns values. The controller writes its responses itself, so Nest sends nothing, and the
 * client would wait for ever. Such a request is answered here, after the interceptors have ended (E17).
 */
@Injectable()
export class UnservedRequests {
  #warned = false;

  constructor(
    @Inject(McpRequestReader) private readonly reader: McpRequestReader,
    @Inject(McpResponder) private readonly responder: McpResponder,
    @Inject(RefusalLog) private readonly refusals: RefusalLog,
    @Inject(ENDPOINT_NAME) private readonly endpoint: Pick<EndpointName, 'interceptors'>,
    @Inject(ApplicationConfig) private readonly app: ApplicationConfig,
  ) {}

  /** Whether there are interceptors around the endpoint; those of `useGlobalInterceptors()` may come late. */
  get possible(): boolean {
    const { app, endpoint } = this;
    const all: readonly unknown[][] = [app.getGlobalInterceptors(), app.getGlobalRequestInterceptors()];
    return endpoint.interceptors.length > 0 || all.some(({ length }) => length > 0);
  }

  /**
   * Answers a request for which Nest has done all, unless the controller has run or the app has answered it.
   *
   * @param request the platform's
   * @returns when it is answered
   */
  ended(request: object, response: object): void | Promise<void> {
    if (this.#isUnserved(request, response)) return this.#endedUnserved(request, response);
  }

  async #endedUnserved(request: object, response: object): Promise<void> {
    // Nest calls the controller some microtasks after `next.handle()`.
    await nextTurn();
    if (this.#isUnserved(request, response)) this.#answer(request as PlatformRequest, response);
  }

  #isUnserved(request: object, response: object): boolean {
    return !this.reader.isServed(request) && this.responder.isOpen(response);
  }

  #answer(request: PlatformRequest, response: object): void {
    const body = this.reader.bodyOf(request);
    const text = 'An interceptor of the app ended the request before it was served. Try again later.';
    const error = new McpError('UNAVAILABLE', text, { requestId: body ? loneRequestId(body) : null });
    this.responder.send(response, { kind: 'json', body: JSON.stringify(error.toResponse()), status: error.status });
    const isFirst = !this.#warned;
    this.#warned = true;
    const { status, code } = error;
    this.refusals.note(request, { status, code, isFirst, message: isFirst ? `${ENDED} ${this.#cure()}` : ENDED });
  }

  #cure(): string {
    const scoped = this.app.getGlobalRequestInterceptors().map(({ metatype, name }) => metatype?.name ?? String(name));
    const names = [...this.app.getGlobalInterceptors().map(nameOfEnhancer), ...scoped, ...this.endpoint.interceptors];
    return `Around the endpoint are: ${names.join(', ')}. Let the interceptor pass requests of the endpoint, or write the response itself.`;
  }
}

const ENDED = 'an interceptor of the app ended without next.handle().';
