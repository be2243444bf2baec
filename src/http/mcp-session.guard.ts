import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import type { IncomingHttpHeaders } from 'node:http';
import { isThenable } from '../common/promises.js';
import type { McpSessionInfo } from '../context/mcp-call.js';
import { McpEndpoint, type McpIncoming } from '../endpoint/mcp-endpoint.js';
import { isCrossOrigin } from './edge/host-origin.js';
import { beginsSession, unknownSession } from '../endpoint/legacy/legacy-endpoint.js';
import { protocolMessages } from '../endpoint/endpoint.messages.js';
import type { KnownSession } from '../session/live-sessions.js';
import { McpError } from '../wire/errors.js';
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER, singleHeader } from '../wire/headers.js';
import { isInitializeRequest } from '../wire/json-rpc.js';
import { LEGACY_REVISIONS, isLegacyRevision } from '../wire/revisions.js';
import { EDGE_POLICY, type EdgePolicy, SESSION_METHODS } from './edge/edge-policy.js';
import { ENDPOINT_KEY, type EndpointKey } from './edge/endpoint-route.js';
import { admittedOrRefused } from './edge/http-edge.js';
import { McpRequestReader, type PlatformRequest, rawRequest } from './mcp-incoming.js';

/**
 * The last guard of the endpoint: finds the session that a request names and decides whether the caller may use it.
 *
 * A session is used by the principal that initialized it, and for everybody else it does not exist. To decide otherwise,
 * extend the class, override {@link canAccess}, and give the subclass as the option `sessionGuard`; it is resolved in the
 * endpoint's module, so what it injects comes from the option `imports`.
 *
 * ```ts
 * @Injectable()
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
  // Properties, so that a subclass has its constructor to itself.
  /** @internal */
  @Inject(McpRequestReader) protected readonly reader!: McpRequestReader;
  /** @internal */
  @Inject(McpEndpoint) protected readonly endpoint!: McpEndpoint;
  /** @internal */
  @Inject(ENDPOINT_KEY) protected readonly edgeKey!: EndpointKey;
  /** @internal */
  @Inject(EDGE_POLICY) protected readonly edge!: EdgePolicy;

  /**
   * Whether a caller may use a session; asked on every POST, GET and DELETE that names one.
   *
   * @param request Express' `Request` or Fastify's `FastifyRequest`, as the guards before left it
   * @param principal who sends it, as the option `principal` says; `undefined`: anonymous
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
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<PlatformRequest>();
    // It may have come round the edge: a middleware of the app has rewritten its URL, for example (E1, E2).
    const refusal = admittedOrRefused(rawRequest(request), this.edgeKey, this.edge);
    if (refusal) throw refusal;
    // The controller refuses it: there is nothing to read, and no session to ask for (E2).
    if (!SESSION_METHODS.includes(request.method)) return true;
    const incoming = await this.reader.read(request);
    // First: at shutdown sessions vanish one by one, and 404 would have their clients start over here (E13).
    this.endpoint.assertTaken(incoming.method, incoming.body);
    // An endpoint without sessions has none to look for.
    if (this.endpoint.hasSessions && incoming.era === 'legacy') incoming.session = await this.#admit(incoming);
    return true;
  }

  async #admit(incoming: McpIncoming): Promise<KnownSession | undefined> {
    const { headers, method, body, request, principal } = incoming;
    const id = singleHeader(headers[SESSION_ID_HEADER]);
    const begins = method === 'POST' && beginsSession(body);
    if (!id) {
      if (begins) return undefined;
      // Whoever batches it has no session yet, and would be told to initialize first (E9).
      if (body.messages.some(isInitializeRequest)) {
        throw new McpError('INVALID_REQUEST', protocolMessages.initializeInBatch());
      }
      // A page that did initialize could not read the id unless CORS exposes it (S5).
      const authority = singleHeader(headers['host']) ?? singleHeader(headers[':authority']);
      throw new McpError(
        'BAD_REQUEST',
        protocolMessages.noSessionId(isCrossOrigin(singleHeader(headers['origin']), authority)),
      );
    }
    const found = this.endpoint.legacy.lookup(id);
    const known = isThenable(found) ? await found : found;
    const may = known && beganAt(incoming, known.info) && this.canAccess(known.info, request, principal);
    const session = (isThenable(may) ? await may : may) ? known : undefined;
    if (begins) {
      // A client whose session is lost starts over, often with the old id in its hands (S3).
      if (!session) return undefined;
      throw new McpError('INVALID_REQUEST', protocolMessages.initializedAlready());
    }
    if (!session) throw unknownSession();
    assertRevision(headers, session.info);
    return session;
  }
}

/** A session of one tenant is unknown at the path of another. */
function beganAt({ routeParams }: McpIncoming, session: McpSessionInfo): boolean {
  if (!routeParams && !session.routeParams) return true;
  return JSON.stringify(routeParams) === JSON.stringify(session.routeParams);
}

/**
 * The header, if there is one, names the negotiated revision (S9, S10).
 *
 * @throws McpError BAD_REQUEST
 * @internal
 */
export function assertRevision(headers: IncomingHttpHeaders, { protocolVersion }: McpSessionInfo): void {
  const requested = singleHeader(headers[PROTOCOL_VERSION_HEADER]);
  if (requested === undefined || requested === protocolVersion) return;
  const message = isLegacyRevision(requested)
    ? protocolMessages.wrongRevision(requested, protocolVersion)
    : protocolMessages.unsupportedRevision(requested, LEGACY_REVISIONS);
  throw new McpError('BAD_REQUEST', message, { data: { supported: LEGACY_REVISIONS, requested } });
}
