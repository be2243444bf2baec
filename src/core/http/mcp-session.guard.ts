import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import type { McpSessionInfo } from '../calls/mcp-call.js';
import { after, type MaybePromise } from '../common/promises.js';
import { McpEndpoint } from '../eras/mcp-endpoint.js';
import { EDGE_POLICY, type EdgePolicy } from './edge/edge-policy.js';
import { ENDPOINT_KEY, type EndpointKey } from './edge/endpoint-route.js';
import { admittedOrRefused } from './edge/http-edge.js';
import { McpRequestReader, type PlatformRequest, rawRequest } from './mcp-incoming.js';
import { rawResponse } from './responder.js';
import { sessionOf } from './session-access.js';

/**
 * The last guard of the endpoint: finds the session that a request names and decides whether the caller may use it.
 *
 * A session is used by the principal that initialized it, and for other principals it does not exist. To change that,
 * extend the class, override {@link canAccess}, and give the subclass as the option `sessionGuard`; it is resolved in
 * the endpoint's module, so its dependencies come from the option `imports`.
 *
 * ```ts
 * class TenantSessionGuard extends McpSessionGuard {
 *   protected override canAccess(session: McpSessionInfo, request: Request, principal?: string) {
 *     return super.canAccess(session, request, principal) && request.headers['x-tenant'] === 'acme';
 *   }
 * }
 * ```
 *
 * @publicApi
 */
@Injectable()
export class McpSessionGuard implements CanActivate {
  // Injected into properties, so that a subclass can have its own constructor.
  /** @internal */
  @Inject(McpRequestReader) protected readonly reader!: McpRequestReader;
  /** @internal */
  @Inject(McpEndpoint) protected readonly endpoint!: McpEndpoint;
  /** @internal */
  @Inject(ENDPOINT_KEY) protected readonly edgeKey!: EndpointKey;
  /** @internal */
  @Inject(EDGE_POLICY) protected readonly edge!: EdgePolicy;

  /**
   * Returns whether a caller may use a session; it is called for every POST, GET and DELETE that names one.
   *
   * @param request Express' `Request` or Fastify's `FastifyRequest`, after the guards before it have run
   * @param principal the caller, as returned by the option `principal`; `undefined`: anonymous
   * @returns `false`: for this caller the session does not exist (404). Throw an `HttpException` to say more
   */
  protected canAccess(
    session: McpSessionInfo,
    _request: unknown,
    principal: string | undefined,
  ): boolean | Promise<boolean> {
    return session.principal === principal;
  }

  /** @internal */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    const request = http.getRequest<PlatformRequest>();
    // The request may have bypassed the edge, for example if a middleware of the app rewrote its URL (E1, E2).
    const refusal = admittedOrRefused(rawRequest(request), this.edgeKey, this.edge);
    if (refusal) throw refusal;
    return after(this.reader.read(request, rawResponse(http.getResponse<object>())), (incoming) => {
      const { era, principal } = incoming;
      if (!this.endpoint.hasSessions(era)) return true;
      const mayUse = (session: McpSessionInfo): MaybePromise<boolean> => this.canAccess(session, request, principal);
      return after(sessionOf(incoming, this.endpoint.legacy.sessions, mayUse), (session) => {
        incoming.session = session;
        return true;
      });
    });
  }
}
