import { McpError } from '../wire/errors.js';
import type { McpSessionEvent } from './session-events.js';
import { sessionMessages } from './session.messages.js';

/** Seconds after which a request may be repeated that a store which is away has kept from being served. */
const RETRY_AFTER = { 'Retry-After': '5' };

/**
 * Asks a store on behalf of a request. A store that is away is not the fault of the request, nor of this node: the client is
 * asked to come back, and the operator told by an event.
 *
 * @throws McpError UNAVAILABLE (503, `Retry-After`) with what the store threw as its cause
 */
export async function asking<T>(
  host: { event(event: McpSessionEvent): void },
  sessionId: string,
  ask: () => Promise<T>,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof McpError) throw error;
    host.event({ type: 'store-fault', sessionId, streamId: '', fatal: false, error });
    throw new McpError('UNAVAILABLE', sessionMessages.storeAway(), { headers: RETRY_AFTER, cause: error });
  }
}
