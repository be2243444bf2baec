import { Inject, Injectable } from '@nestjs/common';
import type { CallingClient, ClientIdentity, McpCall, McpHttpCall, OutboundMessage } from '../../calls/mcp-call.js';
import { ACCEPTED, type PendingReply } from '../../calls/reply.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { SessionRuntime } from '../../sessions/session-runtime.js';
import { assertBatch } from '../../sessions/running/admission.js';
import type { RequestHeaders } from '../../protocol/headers.js';
import { isRequest, type IncomingBody } from '../../protocol/json-rpc.js';
import { changeOf } from '../../protocol/notifications.js';
import { negotiated } from '../../protocol/revisions.js';
import { BareRequests } from '../modern/bare-requests.js';
import { sendOrDrop } from '../modern/modern-client.js';
import { assertInitialize, beginsSession, revisionOf } from './legacy-endpoint.js';

/**
 * Serves the legacy era without sessions (option `sessions: 'off'`, row S17): each POST stands alone. Notifications and responses
 * are taken and ignored: a `cancelled` could name the request of another client.
 */
@Injectable()
export class SessionlessEndpoint {
  constructor(
    @Inject(BareRequests) private readonly requests: BareRequests,
    @Inject(SessionRuntime) private readonly runtime: SessionRuntime,
  ) {}

  /**
   * Takes the messages of a POST.
   *
   * @throws McpError BAD_REQUEST (S10), INVALID_REQUEST (E9, S11), INVALID_PARAMS of a malformed `initialize`
   */
  post(http: McpHttpCall, { batch, messages }: IncomingBody, headers: RequestHeaders): PendingReply {
    const requests = messages.filter(isRequest);
    let revision: string;
    if (beginsSession({ batch, messages })) {
      assertInitialize(requests[0]!);
      requests[0] = negotiated(requests[0]!);
      revision = String(requests[0].params!['protocolVersion']);
    } else revision = revisionOf(headers);
    const [first] = requests;
    if (batch) assertBatch(messages.length, requests, revision);
    if (!first) return ACCEPTED;
    return this.requests.serve(http, requests, batch, new SessionlessClient(revision, this.runtime));
  }
}

/** A client without a session: only its protocol revision is known. */
class SessionlessClient implements CallingClient {
  constructor(
    private readonly protocolVersion: string,
    private readonly runtime: SessionRuntime,
  ) {}

  identity(): ClientIdentity {
    return { protocolVersion: this.protocolVersion, capabilities: {}, clientInfo: { name: 'unknown', version: '' } };
  }

  /** Returns `false`: logging is not declared, as there is no session to keep a level. */
  wantsLog(): boolean {
    return false;
  }

  notify(notification: OutboundMessage, call: McpCall): Promise<void> {
    return isOfSession(notification) ? Promise.resolve() : sendOrDrop(notification, call, this.runtime);
  }

  request({ method }: OutboundMessage): Promise<never> {
    const text = `"${method}" cannot be sent: this endpoint has no sessions (option "sessions"), so a response of the client could not reach this request. Take the input as arguments; only clients of revision 2026-07-28 can be asked.`;
    return Promise.reject(new McpServerRequestError('NO_STREAM', text));
  }
}

/** Returns whether a notification needs a capability that is not declared without sessions. */
function isOfSession(notification: OutboundMessage): boolean {
  return notification.method === 'notifications/message' || changeOf(notification) !== undefined;
}
