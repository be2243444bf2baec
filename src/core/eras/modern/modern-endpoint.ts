import { Inject, Injectable } from '@nestjs/common';
import type { McpHttpCall } from '../../calls/mcp-call.js';
import { ACCEPTED, type PendingReply } from '../../calls/reply.js';
import { isPlainEnvelope, PROTOCOL_VERSION_META_KEY } from '../../protocol/era.js';
import { excerpt, McpError, type McpErrorCode, shown } from '../../protocol/errors.js';
import {
  METHOD_HEADER,
  NAME_HEADER,
  PROTOCOL_VERSION_HEADER,
  type RequestHeaders,
  singleHeader,
} from '../../protocol/headers.js';
import {
  type IncomingBody,
  isNotification,
  isObject,
  isRequest,
  type JsonRpcNotification,
  type JsonRpcRequest,
} from '../../protocol/json-rpc.js';
import { checkStandardHeaders, differentHeader, mirrorHeaders } from '../../protocol/modern-headers.js';
import { isModernRevision, MODERN_REVISIONS } from '../../protocol/revisions.js';
import { sdk } from '../../protocol/spec.js';
import { BareRequests } from './bare-requests.js';
import { ModernClient } from './modern-client.js';
import { Subscriptions } from './subscriptions.js';

/**
 * Serves the modern era (2026-07-28): every request is independent, has the name and capabilities of its client, and ends with
 * its connection.
 *
 *     classified ─▶ headers checked ─▶ dispatched ─▶ answered, or given up
 */
@Injectable()
export class ModernEndpoint {
  constructor(
    @Inject(BareRequests) private readonly requests: BareRequests,
    @Inject(ModernClient) private readonly client: ModernClient,
    @Inject(Subscriptions) private readonly subscriptions: Subscriptions,
  ) {}

  /**
   * Takes the message of a POST.
   *
   * @throws McpError rows M2 to M5 and M7; UNAVAILABLE when the endpoint was closed meanwhile
   */
  post(http: McpHttpCall, body: IncomingBody, headers: RequestHeaders): PendingReply {
    const message = modernRequest(body, headers);
    if (!message) return ACCEPTED;
    checkStandardHeaders(headers, message);
    return this.#serve(http, message);
  }

  /**
   * Takes a message of a transport without headers (2026-07-28, stdio, "Request Metadata").
   *
   * @throws McpError rows M2, M3 and M5
   */
  postWithoutHeaders(http: McpHttpCall, body: IncomingBody): PendingReply {
    const message = modernRequest(body, mirrorHeaders(loneCall(body)));
    return message ? this.#serve({ ...http, headers: undefined }, message) : ACCEPTED;
  }

  #serve(http: McpHttpCall, message: JsonRpcRequest): PendingReply {
    if (message.method === 'subscriptions/listen') return this.subscriptions.listen(http, message);
    return this.requests.serve(http, [message], false, this.client);
  }
}

/**
 * Classifies a POST of the modern era.
 *
 * A well-formed request is recognised by a few comparisons. Any other goes to the SDK's classifier, which names the
 * fault, and takes as much time as a whole call.
 *
 * @returns the request; `undefined` for a notification
 * @throws McpError rows M2 and M3, and the header rows of M4 that the classifier decides
 */
function modernRequest(body: IncomingBody, headers: RequestHeaders): JsonRpcRequest | undefined {
  const message = loneCall(body);
  const request = isRequest(message) ? message : undefined;
  if (!request || !isWellFormed(request, headers)) {
    classify(message, headers);
    assertRevision(message);
  }
  return request;
}

/** Returns the one message of a modern POST. @throws McpError INVALID_REQUEST: a batch, or a response */
export function loneCall({ batch, messages }: IncomingBody): JsonRpcRequest | JsonRpcNotification {
  const message = messages[0]!;
  if (batch) throw new McpError('INVALID_REQUEST', 'Revision 2026-07-28 has no batches. Send the messages one by one.');
  if (isRequest(message) || isNotification(message)) return message;
  const text =
    'A client of revision 2026-07-28 cannot POST a response. Repeat the request, with the answers in "inputResponses".';
  throw new McpError('INVALID_REQUEST', text);
}

function isWellFormed({ params, method }: JsonRpcRequest, headers: RequestHeaders): boolean {
  const meta: Readonly<Record<string, unknown>> | undefined = params?._meta;
  const version = meta?.[PROTOCOL_VERSION_META_KEY];
  return (
    isModernRevision(version) &&
    version === headers[PROTOCOL_VERSION_HEADER] &&
    method === headers[METHOD_HEADER] &&
    isPlainEnvelope(meta!)
  );
}

/** Throws the first fault that the SDK's classifier finds. @throws McpError */
function classify(message: JsonRpcRequest | JsonRpcNotification, headers: RequestHeaders): void {
  const outcome = sdk.classifyInboundRequest({
    httpMethod: 'POST',
    body: message,
    protocolVersionHeader: singleHeader(headers[PROTOCOL_VERSION_HEADER]),
    mcpMethodHeader: singleHeader(headers[METHOD_HEADER]),
    mcpNameHeader: singleHeader(headers[NAME_HEADER]),
  });
  if (outcome.kind !== 'reject') return;
  const { code, message: text, data } = outcome;
  const known = CODES[code] ?? 'BAD_REQUEST';
  const different = known === 'HEADER_MISMATCH' ? differentHeader(headers, message) : undefined;
  throw different ?? new McpError(known, excerpt(text), { data: excerptsOf(data) });
}

/** Shortens the texts in data of the classifier: paths have names of a client. */
function excerptsOf(data: unknown): unknown {
  if (typeof data === 'string') return excerpt(data);
  if (Array.isArray(data)) return data.map(excerptsOf);
  if (!isObject(data)) return data;
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, excerptsOf(value)]));
}

const CODES: Readonly<Record<number, McpErrorCode>> = {
  [-32600]: 'INVALID_REQUEST',
  [-32602]: 'INVALID_PARAMS',
  [-32020]: 'HEADER_MISMATCH',
  [-32022]: 'UNSUPPORTED_PROTOCOL_VERSION',
};

/** Checks the revision. A notification may have it in its header only; such a request was refused before. */
function assertRevision({ params }: JsonRpcRequest | JsonRpcNotification): void {
  const requested: unknown = params?._meta?.[PROTOCOL_VERSION_META_KEY];
  if (requested === undefined || isModernRevision(requested)) return;
  // The error lists the revisions of `server/discover`: legacy ones are negotiated by `initialize`.
  throw unsupportedRevision(requested, MODERN_REVISIONS);
}

/** Returns the error of row M3, with the supported revisions. */
export function unsupportedRevision(requested: unknown, supported: readonly string[]): McpError {
  const text = `Protocol revision ${shown(requested)} is not supported here. Use one of the revisions in "data.supported".`;
  // The schema requires a string; any other value is shown in the message only.
  const data = { supported, ...(typeof requested === 'string' && { requested: excerpt(requested) }) };
  return new McpError('UNSUPPORTED_PROTOCOL_VERSION', text, { data });
}
