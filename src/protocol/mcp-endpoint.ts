import type { McpHttpCall, McpSessionInfo } from '../call/mcp-call.js';
import { ACCEPTED, type McpReply, type McpServing } from '../call/mcp-reply.js';
import { McpError } from '../wire/errors.js';
import { PROTOCOL_VERSION_META_KEY } from '../wire/era.js';
import { isNotification, isRequest, type IncomingBody } from '../wire/json-rpc.js';
import { LEGACY_REVISIONS } from '../wire/revisions.js';
import type { InitializationHost } from './legacy/initialization.js';
import { LegacyEndpoint } from './legacy/legacy-endpoint.js';
import { protocolMessages } from './protocol.messages.js';

const RETRY_AFTER = { 'Retry-After': '1' };

/**
 * One endpoint: takes what HTTP brings, hands it to the era it belongs to, and says what to answer.
 *
 *     open ──close()──▶ closing (503 to everybody) ──▶ closed
 */
export class McpEndpoint {
  readonly legacy: LegacyEndpoint;
  #closed: Promise<void> | undefined;

  constructor(private readonly host: InitializationHost) {
    this.legacy = new LegacyEndpoint(host);
  }

  /**
   * @param session the session that the caller named and may use, if any
   * @throws McpError
   */
  async post(http: McpHttpCall, body: IncomingBody, session: McpSessionInfo | undefined): Promise<McpServing> {
    this.assertOpen();
    return http.era === 'modern' ? refuseModern(body) : this.legacy.post(http, body, session);
  }

  async get(session: McpSessionInfo, lastEventId: string | undefined): Promise<McpReply> {
    this.assertOpen();
    return this.legacy.get(session, lastEventId);
  }

  async delete(session: McpSessionInfo): Promise<McpReply> {
    this.assertOpen();
    return this.legacy.delete(session);
  }

  /** Answers every open call and ends every stream of this node. Idempotent. */
  close(): Promise<void> {
    return (this.#closed ??= this.host.sessions.shutdown());
  }

  /** @throws McpError UNAVAILABLE from the moment on when shutdown begins (E13) */
  assertOpen(): void {
    if (this.#closed) throw new McpError('UNAVAILABLE', protocolMessages.shuttingDown(), { headers: RETRY_AFTER });
  }
}

/** The modern era is not served yet: its clients are told what is, and fall back (behaviour §0, M3). */
export function refuseModern(body: IncomingBody): McpServing {
  const [message] = body.messages;
  if (body.batch) throw new McpError('INVALID_REQUEST', protocolMessages.modernBatch());
  if (isNotification(message!)) return ACCEPTED;
  if (!isRequest(message!)) throw new McpError('INVALID_REQUEST', protocolMessages.modernResponse());
  const requested = message.params?._meta?.[PROTOCOL_VERSION_META_KEY];
  throw new McpError('UNSUPPORTED_PROTOCOL_VERSION', protocolMessages.modernUnsupported(requested), {
    requestId: message.id,
    data: { supported: LEGACY_REVISIONS, requested: requested ?? null },
  });
}

/** The id that an error about the whole POST is reported under. */
export function loneRequestId({ batch, messages }: IncomingBody): string | number | null {
  const [message] = messages;
  return !batch && message && isRequest(message) ? message.id : null;
}
