import { Inject, Injectable } from '@nestjs/common';
import { BusNodes } from './bus-nodes.js';
import { McpClock } from '../common/clock.js';
import { timer } from '../common/options.js';
import { within } from '../common/promises.js';
import { isShared, McpEventStore } from '../log/event-store.js';
import { McpSessionService, type McpNodeCounts } from '../sessions/mcp-session.service.js';
import { McpSessionStore } from '../sessions/store/session-store.js';

/** No node has this id, so the answer of the store is empty. */
const NO_NODE = 'health';

/** A check has this result, in the format of Terminus. @publicApi */
export interface McpHealth extends McpNodeCounts {
  readonly status: 'up' | 'down';
  /** Names the parts that are down; it is absent if there are none. */
  readonly message?: string;
  /** Says whether the app is shutting down: new calls are taken for `shutdownDelayMs` at most, running ones may end. */
  readonly draining: boolean;
  readonly sessionStore: 'up' | 'down';
  readonly eventStore: 'up' | 'down';
  readonly messageBus: 'up' | 'down';
  /** Counts the sessions that have a record; it is absent while the session store is down. */
  readonly sessions?: number;
}

/**
 * Checks whether an endpoint can serve requests, for readiness checks with or without Terminus.
 *
 * Down while a store or the bus does not answer in time, and from the beginning of a shutdown, so that the load
 * balancer sends no more requests before the node refuses them (`shutdownDelayMs`).
 *
 * ```ts
 * @Get('ready') @HealthCheck()
 * ready() { return this.health.check([() => this.mcp.check('mcp')]); }
 * ```
 *
 * An app with several endpoints injects by name: `@InjectMcp(McpHealthIndicator, name)`.
 *
 * @publicApi
 */
@Injectable()
export class McpHealthIndicator {
  /** @internal */
  constructor(
    @Inject(McpSessionService) private readonly service: McpSessionService,
    @Inject(McpSessionStore) private readonly sessionStore: McpSessionStore,
    @Inject(McpEventStore) private readonly eventStore: McpEventStore,
    @Inject(BusNodes) private readonly nodes: BusNodes,
    @Inject(McpClock) private readonly clock: McpClock,
  ) {}

  /**
   * Checks the endpoint. Does not reject when a part is down.
   *
   * @param key of the result, which Terminus shows
   * @param options `timeoutMs`: milliseconds that stores and bus have to answer, 1000 by default
   */
  async check<Key extends string = 'mcp'>(
    key = 'mcp' as Key,
    options: { timeoutMs?: number } = {},
  ): Promise<Record<Key, McpHealth>> {
    const timeoutMs = timer(1_000)(options.timeoutMs, 'timeoutMs');
    let sessions: number | undefined;
    const counted = async () => {
      sessions = await this.sessionStore.count();
    };
    const [sessionStore, eventStore, messageBus] = await Promise.all([
      this.#answers(counted, timeoutMs),
      // A store in the memory of this process is always available.
      this.#answers(async () => isShared(this.eventStore) && this.eventStore.unfinished(NO_NODE), timeoutMs),
      this.#answers(() => this.nodes.ping(), timeoutMs),
    ]);
    const draining = !this.service.accepting;
    const reasons = [
      ...(draining ? ['The app is shutting down.'] : []),
      ...(sessionStore === 'down' ? ['The session store does not answer.'] : []),
      ...(eventStore === 'down' ? ['The event store does not answer.'] : []),
      ...(messageBus === 'down' ? ['The message bus is not connected.'] : []),
    ];
    const health: McpHealth = {
      status: reasons.length === 0 ? 'up' : 'down',
      ...(reasons.length > 0 && { message: reasons.join(' ') }),
      draining,
      sessionStore,
      eventStore,
      messageBus,
      ...(sessionStore === 'up' && { sessions: sessions! }),
      ...this.service.nodeCounts(),
    };
    return { [key]: health } as Record<Key, McpHealth>;
  }

  async #answers(ask: () => Promise<unknown>, limitMs: number): Promise<'up' | 'down'> {
    try {
      return (await within(ask(), limitMs, this.clock)) ? 'up' : 'down';
    } catch {
      // Operators find the failure in the log; a health check may be public.
      return 'down';
    }
  }
}
