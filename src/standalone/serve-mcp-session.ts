import type { IncomingMessage, ServerResponse } from 'node:http';
import { systemClock } from '../common/clock.js';
import type { McpReply } from '../context/mcp-exchange.js';
import { loneRequestId, type McpIncoming, refuseModern } from '../endpoint/mcp-endpoint.js';
import { beginsSession, unknownSession } from '../endpoint/legacy/legacy-endpoint.js';
import { protocolMessages } from '../endpoint/endpoint.messages.js';
import type { McpSession } from '../session/mcp-session.js';
import { McpError } from '../wire/errors.js';
import { LAST_EVENT_ID_HEADER, SESSION_ID_HEADER, singleHeader } from '../wire/headers.js';
import { hostOriginPolicy } from '../http/edge/edge-policy.js';
import { refusalOf } from '../http/edge/http-edge.js';
import { httpMessages } from '../http/http.messages.js';
import { resolveHttpOptions, type McpHttpOptions } from '../http/http.options.js';
import { McpRequestReader } from '../http/mcp-incoming.js';
import { assertRevision } from '../http/mcp-session.guard.js';
import { McpResponder } from '../http/responder.js';

/**
 * Serves one session over plain Node HTTP, without Nest: what the module does, for a single session that is there already.
 *
 * Checks Host and Origin, methods, media types and the size of bodies as the module does. There are no guards: whoever
 * reaches the server and knows the session id has the session; `principal` is told to handlers and decides nothing.
 *
 * @param options as for the module; `onError` hears of what is answered with 500
 * @returns a listener for `http.createServer()`
 * @throws McpOptionError for an option that cannot work
 * @publicApi
 */
export function serveMcpSession(
  session: McpSession,
  options: McpHttpOptions & { onError?: (error: unknown) => void } = {},
): (request: IncomingMessage, response: ServerResponse) => void {
  const { clock } = session;
  const resolved = resolveHttpOptions(options);
  const reader = new McpRequestReader(resolved, clock ?? systemClock);
  const responder = new McpResponder({ ...resolved, clock });
  const policy = hostOriginPolicy(resolved, () => {});

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let body: McpIncoming['body'] | undefined;
    try {
      const refusal = refusalOf(request, policy);
      if (refusal) throw refusal;
      const incoming = await reader.read(request as IncomingMessage & { method: string });
      body = incoming.body;
      const reply = await replyOf(session, incoming, responder, response);
      if (reply.kind !== 'stream') return responder.send(response, reply);
      const stream = responder.stream(response);
      stream?.start(reply.open(stream));
    } catch (error) {
      if (!response.headersSent) reader.discardRest(request as IncomingMessage & { method: string }, response);
      const requestId = body ? loneRequestId(body) : null;
      if (error instanceof McpError)
        return refuse(response, requestId === null ? error : error.withRequestId(requestId));
      options.onError?.(error);
      refuse(response, new McpError('INTERNAL_ERROR', httpMessages.refused(500), { requestId }));
    }
  };
  return (request, response) => void serve(request, response);
}

async function replyOf(
  session: McpSession,
  incoming: McpIncoming,
  responder: McpResponder,
  response: ServerResponse,
): Promise<McpReply> {
  const { method, headers, body } = incoming;
  if (incoming.era === 'modern') return refuseModern(body).reply;
  const named = singleHeader(headers[SESSION_ID_HEADER]);
  if (session.over) throw unknownSession();
  if (method === 'POST' && headers[LAST_EVENT_ID_HEADER] !== undefined) {
    throw new McpError('BAD_REQUEST', protocolMessages.cursorOnPost());
  }
  const begins = method === 'POST' && beginsSession(body);
  if (!begins) assertNamed(session, named, incoming);
  switch (method) {
    case 'GET':
      return session.open(singleHeader(headers[LAST_EVENT_ID_HEADER]));
    case 'DELETE':
      void session.end('deleted');
      return { kind: 'empty', status: 204 };
    default: {
      const reply = await responder.replyOf(session.receive(incoming, body), response);
      const introduced = begins && reply.kind === 'json';
      return introduced ? { ...reply, headers: { [SESSION_ID_HEADER]: session.sessionId } } : reply;
    }
  }
}

function assertNamed(session: McpSession, named: string | undefined, { headers }: McpIncoming): void {
  if (!named) throw new McpError('BAD_REQUEST', protocolMessages.noSessionId());
  if (named !== session.sessionId) throw unknownSession();
  assertRevision(headers, session.info);
}

function refuse(response: ServerResponse, error: McpError): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(error.status, { ...error.headers, 'Content-Type': 'application/json' });
  response.end(JSON.stringify(error.toResponse()));
}
