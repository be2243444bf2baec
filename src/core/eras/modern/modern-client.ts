import { Inject, Injectable } from '@nestjs/common';
import type { CallingClient, ClientIdentity, McpCall, OutboundMessage } from '../../calls/mcp-call.js';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { SessionRuntime } from '../../sessions/session-runtime.js';
import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY } from '../../protocol/era.js';
import { reachesLevel } from '../../protocol/log-levels.js';
import { jsonOf } from '../../protocol/notification-json.js';
import { MODERN_REVISIONS } from '../../protocol/revisions.js';

/** Stands for a name that a modern client omits. */
const UNNAMED = { name: 'unknown', version: '' };

/** The client of a modern request, with what the request declares: one object serves all of them. */
@Injectable()
export class ModernClient implements CallingClient {
  constructor(@Inject(SessionRuntime) private readonly runtime: Pick<SessionRuntime, 'event'>) {}

  /** Returns what was checked before the request was dispatched (M2). */
  identity(call: McpCall): ClientIdentity {
    const { [CLIENT_INFO_META_KEY]: clientInfo = UNNAMED, [CLIENT_CAPABILITIES_META_KEY]: capabilities = {} } =
      envelopeOf(call) as {
        [CLIENT_INFO_META_KEY]?: ClientIdentity['clientInfo'];
        [CLIENT_CAPABILITIES_META_KEY]?: ClientIdentity['capabilities'];
      };
    return { protocolVersion: MODERN_REVISIONS[0], capabilities, clientInfo };
  }

  /**
   * Returns whether the request asks for log messages of this level: a client gets them only with such requests (M9).
   */
  wantsLog(level: string, call: McpCall): boolean {
    const wanted = envelopeOf(call)[LOG_LEVEL_META_KEY];
    return typeof wanted === 'string' && reachesLevel(level, wanted);
  }

  /**
   * Sends a message with the answer of a call. A JSON response carries no other message (P3): then the exchange drops
   * it.
   */
  notify(notification: OutboundMessage, call: McpCall): Promise<void> {
    return sendOrDrop(notification, call, this.runtime);
  }

  /** Rejects: questions are sent in results, and the server cannot send a request while a request is open. */
  request({ method }: OutboundMessage): Promise<never> {
    const text = `"${method}" cannot be sent: revision 2026-07-28 has no requests from server to client. Use ctx.elicit(), ctx.sample() or ctx.roots().`;
    return Promise.reject(new McpServerRequestError('NO_STREAM', text));
  }
}

function envelopeOf({ message }: McpCall): Readonly<Record<string, unknown>> {
  return message.params?._meta ?? {};
}

/** Sends a notification with the answer of its call. A notification after the answer is dropped, with an event (P8). */
export function sendOrDrop(
  notification: OutboundMessage,
  { exchange }: McpCall,
  runtime: Pick<SessionRuntime, 'event'>,
): Promise<void> {
  if (exchange && exchange.carries !== 'nothing') {
    return exchange.send(jsonOf(notification));
  }
  const { method } = notification;
  runtime.event({ type: 'late-message', sessionId: '', method, requestId: undefined, disposition: 'dropped' });
  return Promise.resolve();
}
