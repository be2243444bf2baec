import type { ReplayReason } from './client.options.js';
import { ClientTransportError, type HttpStatusError, SessionLostError } from './client.errors.js';
import { clientMessages } from './client.messages.js';

/**
 * An attempt failed, and another one may help.
 *
 * - `not-run`: the server certainly did not carry the message out
 * - `no-answer`, `stream-lost`: it may have
 * - `session-lost`: the session is gone; `ran` says whether the message was taken before
 */
export class Setback extends Error {
  override readonly name = 'Setback';

  constructor(
    readonly kind: 'not-run' | ReplayReason,
    /** What the caller gets if there is no other attempt. */
    readonly failure: Error,
    /** Milliseconds that the server asks to wait. */
    readonly askedMs?: number,
    readonly ran = true,
  ) {
    super(failure.message, { cause: failure });
  }
}

/** @param ran whether the message was taken before the session was lost */
export function sessionSetback(sessionId: string, ran: boolean): Setback {
  return new Setback('session-lost', new SessionLostError(sessionId, ran), undefined, ran);
}

/** What an HTTP error means for another attempt (behaviour.md C6). @returns `undefined` if another one will not help */
export function setbackOf(error: HttpStatusError): Setback | undefined {
  switch (error.status) {
    case 408:
    case 425:
    case 429:
    case 503:
      return new Setback('not-run', error, error.retryAfterMs);
    case 502:
    case 504:
      return new Setback('no-answer', error, error.retryAfterMs);
    default:
      return undefined;
  }
}

/** No connection was made: nothing can have arrived. */
const NOT_CONNECTED = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'],
]);

/**
 * Whether an error of `fetch` is one of the network; others are somebody's who wrapped `fetch`, and final.
 *
 * @param place who did not answer
 * @returns what it means for another attempt
 */
export function networkSetbackOf(error: unknown, place: string): Setback | undefined {
  if (!(error instanceof Error)) return undefined;
  const codes = codesOf(error);
  const message = clientMessages.noAnswer(place, codes[0] ?? error.message);
  const failure = new ClientTransportError('NO_ANSWER', message, { cause: error });
  if (codes.some((code) => NOT_CONNECTED.has(code))) return new Setback('not-run', failure);
  const ofNetwork = codes.some((code) => /^(?:E[A-Z]+|UND_ERR_\w+|HPE_\w+)$/.test(code)) || error instanceof TypeError;
  return ofNetwork ? new Setback('no-answer', failure) : undefined;
}

/** The codes of an error and of what caused it; several addresses that were tried count as their first. */
function codesOf(error: Error): string[] {
  const codes: string[] = [];
  let each: unknown = error;
  for (let depth = 0; depth < 4 && each instanceof Error; depth++) {
    const { code, errors } = each as { code?: unknown; errors?: unknown };
    if (typeof code === 'string') codes.push(code);
    each = Array.isArray(errors) ? errors[0] : each.cause;
  }
  return codes;
}
