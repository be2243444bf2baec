import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ServerResponse } from 'node:http';
import { Clock } from '../base/clock.js';
import { isThenable } from '../base/thenable.js';
import type { McpReply } from '../context/mcp-reply.js';
import { McpEndpoint } from '../protocol/mcp-endpoint.js';
import { McpError } from '../wire/errors.js';
import { LAST_EVENT_ID_HEADER, singleHeader } from '../wire/header.js';
import { abandonBody } from './abandon-body.js';
import type { EdgePolicy } from './edge/edge-policy.js';
import { methodNotAllowed } from './edge/http-edge.js';
import { httpMessages } from './http.messages.js';
import { EDGE_POLICY } from './mcp-edge.guard.js';
import { type McpIncoming, McpRequestReader, type PlatformRequest, rawRequest } from './mcp-incoming.js';
import { closeWithConnection } from './pipelined-response.js';
import { McpResponder } from './responder.js';
import { hasGone } from './sse-response.js';
import { protocolMessages } from '../protocol/protocol.messages.js';

/** What the controllers of all endpoints do: ask the endpoint, and write what it replies. @internal */
@Injectable()
export class McpHttpHandler {
  constructor(
    @Inject(McpEndpoint) private readonly endpoint: McpEndpoint,
    @Inject(McpRequestReader) private readonly reader: McpRequestReader,
    @Inject(McpResponder) private readonly responder: McpResponder,
    @Inject(HttpAdapterHost) private readonly host: HttpAdapterHost,
    @Inject(EDGE_POLICY) private readonly policy: EdgePolicy,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /** Settles when the head of the answer is written, however long the stream lasts: a timeout of the app must not end it. */
  async post(request: object, response: object): Promise<void> {
    const { call, body, session, headers } = this.#incoming(request);
    if (call.era === 'legacy' && headers[LAST_EVENT_ID_HEADER] !== undefined) {
      throw new McpError('BAD_REQUEST', protocolMessages.cursorOnPost());
    }
    const served = this.endpoint.post(call, body, headers, session);
    const serving = isThenable(served) ? await served : served;
    const raw = (response as { raw?: ServerResponse }).raw ?? (response as ServerResponse);
    // Of the response: the request's own "close" comes when its body is read.
    const abandon = (): void => serving.abandon();
    closeWithConnection(raw);
    raw.on('close', abandon);
    // It may have closed while the request was read, guarded, or its session looked up.
    if (hasGone(raw)) abandon();
    try {
      const reply = await serving.reply;
      if (!this.#send(response, reply)) serving.abandon();
    } finally {
      raw.off('close', abandon);
    }
  }

  async get(request: object, response: object): Promise<void> {
    const { session, headers } = this.#incoming(request);
    this.#send(response, await this.endpoint.get(session!, singleHeader(headers[LAST_EVENT_ID_HEADER])));
  }

  async delete(request: object, response: object): Promise<void> {
    const { session } = this.#incoming(request);
    this.#send(response, await this.endpoint.delete(session!));
  }

  /** Left to the app's CORS, which answers before any route; what gets here found none (E2). */
  options(request: PlatformRequest): never {
    throw methodNotAllowed('OPTIONS', this.policy.allow, abandonBody(rawRequest(request), this.clock));
  }

  #incoming(request: object): McpIncoming {
    const incoming = this.reader.of(request);
    if (!incoming) throw new Error(httpMessages.noSessionGuard());
    return incoming;
  }

  #send(response: object, reply: McpReply): boolean {
    return this.responder.send(this.host.httpAdapter, response, reply);
  }
}
