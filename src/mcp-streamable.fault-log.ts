import { Logger } from '@nestjs/common';
import type { Clock } from './common/clock.js';
import type { McpSessionEvent } from './session/session-events.js';
import { EventStoreError } from './stream/event-store.errors.js';

/** Faults that are further apart are two outages. */
const QUIET_MS = 60_000;

/**
 * What operators read of what goes wrong in sessions. A store that is away fails everybody who asks: it is an error once per
 * outage, and from then on detail for whoever debugs.
 */
export class FaultLog {
  readonly #logger = new Logger('McpStreamable');
  #faultAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly clock: Clock) {}

  note(event: McpSessionEvent): void {
    if (event.type === 'protocol-error') {
      this.#logger.debug(`Session "${event.sessionId.slice(0, 6)}…": ${String(event.error)}`);
    } else if (event.type === 'store-fault') {
      this.#storeFault(event);
    }
  }

  #storeFault({ streamId, error }: Extract<McpSessionEvent, { type: 'store-fault' }>): void {
    if (error instanceof EventStoreError) {
      // The client's own doing: it sends too much and reads too little, or has gone. Not news to the operator.
      return this.#logger.debug(`Stream "${streamId}" was refused by the event store: ${String(error)}`);
    }
    const now = this.clock.now();
    const text = `A store failed${streamId && ` (stream "${streamId}")`}: ${String(error)}`;
    if (now - this.#faultAt >= QUIET_MS) this.#logger.error(text);
    else this.#logger.debug(text);
    this.#faultAt = now;
  }
}
