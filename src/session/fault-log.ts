import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { logger } from '../context/operator-log.js';
import { EventStoreError } from '../stream/event-store.errors.js';
import type { McpSessionEvent } from './session-events.js';
import { SessionRuntime } from './session-runtime.js';

/** Faults that are further apart are two outages. */
const QUIET_MS = 60_000;

/**
 * What operators read of what goes wrong in sessions. A store that is away fails everybody who asks: it is an error once per
 * outage, and from then on detail for whoever debugs.
 */
@Injectable()
export class FaultLog {
  #faultAt = Number.NEGATIVE_INFINITY;

  constructor(
    @Inject(Clock) private readonly clock: Clock,
    @Inject(SessionRuntime) runtime: Pick<SessionRuntime, 'events$'>,
  ) {
    runtime.events$.subscribe((event) => this.#note(event));
  }

  #note(event: McpSessionEvent): void {
    if (event.type === 'protocol-error') {
      logger.debug(`Session "${event.sessionId.slice(0, 6)}…": ${String(event.error)}`);
    } else if (event.type === 'store-fault') {
      this.#storeFault(event);
    }
  }

  #storeFault({ streamId, error }: Extract<McpSessionEvent, { type: 'store-fault' }>): void {
    if (error instanceof EventStoreError) {
      // The client's own doing: it sends too much and reads too little, or has gone. Not news to the operator.
      return logger.debug(`Stream "${streamId}" was refused by the event store: ${String(error)}`);
    }
    const now = this.clock.now();
    const text = `A store failed${streamId && ` (stream "${streamId}")`}: ${String(error)}`;
    if (now - this.#faultAt >= QUIET_MS) logger.error(text);
    else logger.debug(text);
    this.#faultAt = now;
  }
}
