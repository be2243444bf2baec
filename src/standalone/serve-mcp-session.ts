import type { IncomingMessage, ServerResponse } from 'node:http';
import { resolveOptions } from '../core/common/options.js';
import { after } from '../core/common/promises.js';
import type { McpReply, PendingReply } from '../core/calls/reply.js';
import { assertNoCursor, type McpEndpoint, type McpIncoming, refuseModern } from '../core/eras/mcp-endpoint.js';
import { hostOriginPolicy } from '../core/http/edge/edge-policy.js';
import { methodNotAllowed, refusalOf } from '../core/http/edge/http-edge.js';
import { HTTP_TABLE, maxBodyValues, type McpHttpOptions } from '../core/http/http.options.js';
import { refuse } from '../core/http/mcp-exception.filter.js';
import { McpRequestReader } from '../core/http/mcp-incoming.js';
import { Challenges } from '../core/http/credentials.js';
import { McpController } from '../core/http/mcp.controller.js';
import { McpResponder } from '../core/http/responder.js';
import { sessionOf } from '../core/http/session-access.js';
import type { KnownSession } from '../core/sessions/running/live-sessions.js';
import type { McpSession } from '../core/sessions/running/mcp-session.js';
import { McpError } from '../core/protocol/errors.js';
import { cursorOf, SESSION_ID_HEADER } from '../core/protocol/headers.js';

/**
 * Serves one session over plain Node HTTP, without Nest's application: what the module does, for a session that exists.
 *
 * Host and Origin, methods, media types, the size of bodies, the session id and the revision are checked by the
 * module's own code. There are no guards: every client that can reach the server and knows the session id can use the
 * session; `principal` is passed to handlers, but not checked.
 *
 * @param options as for the module; `onError` is called with errors that are answered with a status of 500 or more
 * @returns a listener for `http.createServer()`
 * @throws McpOptionError for an option that cannot work
 * @publicApi
 */
export function serveMcpSession(
  session: McpSession,
  options: McpHttpOptions & { onError?: (error: unknown) => void } = {},
): (request: IncomingMessage, response: ServerResponse) => void {
  const { clock, responseMode } = session;
  const resolved = resolveOptions(HTTP_TABLE, options);
  const read = { ...resolved, maxBodyValues: maxBodyValues(resolved, true), responseMode };
  const reader = new McpRequestReader(read, clock);
  const responder = new McpResponder({ ...resolved, clock });
  const policy = hostOriginPolicy(resolved, () => {});
  const endpoint = new SessionEndpoint(session);
  const controller = new SessionController(endpoint, reader, responder);

  const serve = async (request: NodeRequest, response: ServerResponse): Promise<void> => {
    const { method } = request;
    const refusal = refusalOf(request, policy);
    if (refusal) throw refusal;
    if (method === 'OPTIONS') throw methodNotAllowed(method, policy.allow);
    const incoming = await reader.read(request);
    if (incoming.era === 'legacy') {
      incoming.session = await sessionOf(incoming, endpoint, () => true);
    }
    if (method === 'POST') return controller.post(request, response);
    return method === 'GET' ? controller.get(request, response) : controller.delete(request, response);
  };
  return (request, response) => {
    serve(request as NodeRequest, response).catch((error: unknown) => {
      const status = refuse(error, request as NodeRequest, response, reader, responder);
      if (status >= 500 && !(error instanceof McpError)) options.onError?.(error);
    });
  };
}

type NodeRequest = IncomingMessage & { readonly method: string };

/** Serves one session; clients of revision 2026-07-28 get an error with the supported revisions. */
class SessionEndpoint implements Pick<McpEndpoint, 'post' | 'get' | 'delete'> {
  constructor(private readonly session: McpSession) {}

  lookup(id: string): KnownSession | undefined {
    const { sessionId, over, info } = this.session;
    return id === sessionId && !over ? { info } : undefined;
  }

  post(incoming: McpIncoming): PendingReply {
    const { era, body, headers, session } = incoming;
    if (era === 'modern') return refuseModern(body);
    assertNoCursor(headers);
    const exchange = this.session.receive(incoming, body);
    if (session) return exchange;
    const named = { [SESSION_ID_HEADER]: this.session.sessionId };
    const reply = after(exchange.reply, (answer): McpReply => {
      return answer.kind === 'json' ? { ...answer, headers: named } : answer;
    });
    return { reply, cancel: () => exchange.cancel() };
  }

  get({ headers }: McpIncoming): Promise<McpReply> {
    return this.session.open(cursorOf(headers));
  }

  delete(): Promise<void> {
    void this.session.end('deleted');
    return Promise.resolve();
  }
}

/** Runs the controller of the module without injection. */
class SessionController extends McpController {
  constructor(
    protected override readonly endpoint: SessionEndpoint,
    protected override readonly requests: McpRequestReader,
    protected override readonly responses: McpResponder,
    protected override readonly challenges = new Challenges(),
  ) {
    super();
  }
}
