import type { TransportSendOptions } from '@modelcontextprotocol/server';
import { isResponse, type JsonRpcNotification, type JsonRpcResponse } from '../wire/json-rpc.js';
import { isModernRevision } from '../wire/revisions.js';
import { delayMs, pause } from './backoff.js';
import { SessionLostError } from './client.errors.js';
import type { ExchangeHost } from './exchange-host.js';
import { LinkedAbort } from './linked-abort.js';
import { claimedRevision, legacyPostHeaders, modernPostHeaders, type SessionHeaders } from './request-headers.js';
import { discard, readText } from './response-body.js';
import { networkSetbackOf, setbackOf, type Setback } from './setback.js';

/** Bytes of an answer to a message that wants none. */
const MAX_BYTES = 64 * 1024;

/**
 * Sends a notification, or the answer to a request of the server. Either may arrive twice without harm, so it is repeated
 * after any passing fault.
 *
 * @param signal ends the sending
 * @returns settles when the server has taken it
 * @throws (rejects) SessionLostError; HttpStatusError; what `fetch` fails with in the end; the reason of the signal
 */
export async function sendOneWay(
  host: ExchangeHost,
  message: JsonRpcNotification | JsonRpcResponse,
  { headers: extra }: TransportSendOptions,
  signal: AbortSignal,
): Promise<void> {
  const { session, options } = host;
  const claim = claimedRevision(message);
  for (let failures = 0; ; failures++) {
    // The server may need an answer before it can finish the initialization that everything else waits for.
    if (isResponse(message)) session.check();
    else if (claim === undefined) await session.ready(signal);
    const sent = session.headers;
    const revision = claim ?? (isModernRevision(sent.protocolVersion) ? sent.protocolVersion : undefined);
    const all =
      revision === undefined ? legacyPostHeaders(message, sent, extra) : modernPostHeaders(message, revision, extra);
    const setback = await post(host, JSON.stringify(message), all, revision === undefined ? sent : {}, signal);
    if (!setback) return;
    if (setback === 'session-lost') {
      const lost = new SessionLostError(sent.sessionId!, false);
      await host.sessionLost(lost, { replayed: true }, signal);
      // An answer belongs to the session that was asked in.
      if (isResponse(message)) throw lost;
      continue;
    }
    if (failures + 1 >= options.reconnect.maxAttempts) throw setback.failure;
    const ms = delayMs(options.reconnect, failures, setback.askedMs, options.random);
    host.reconnecting({ kind: 'retry', failures, delayMs: ms, cause: setback.failure });
    await pause(ms, options.clock, signal);
  }
}

async function post(
  { endpoint, options }: ExchangeHost,
  body: string,
  headers: Record<string, string>,
  { sessionId }: Partial<SessionHeaders>,
  signal: AbortSignal,
): Promise<Setback | 'session-lost' | undefined> {
  const link = new LinkedAbort(signal, options.clock).within(options.openTimeoutMs);
  try {
    const response = await endpoint.send({ method: 'POST', headers, body, signal: link.signal });
    if (response.ok) {
      await readText(response, { clock: options.clock, maxMessageBytes: MAX_BYTES, signal: link.signal }).catch(
        () => {},
      );
      return undefined;
    }
    if (response.status === 404 && sessionId !== undefined) {
      discard(response);
      return 'session-lost';
    }
    const error = await endpoint.errorOf(response, 'POST', link.signal);
    const setback = setbackOf(error);
    if (!setback) throw error;
    return setback;
  } catch (error) {
    signal.throwIfAborted();
    const setback = networkSetbackOf(error, endpoint.place);
    if (!setback) throw error;
    return setback;
  } finally {
    link.release();
  }
}
