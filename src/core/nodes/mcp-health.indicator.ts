import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { BusNodes } from './bus-nodes.js';
import { logger } from '../calls/operator-log.js';
import { MCP_BACKEND } from '../calls/replaceable-part.js';
import { McpClock } from '../common/clock.js';
import { McpOptionError, timer } from '../common/options.js';
import { within } from '../common/promises.js';
import { isShared, McpEventStore } from '../log/event-store.js';
import { McpSessionService, type McpNodeCounts } from '../sessions/mcp-session.service.js';
import { McpSessionStore } from '../sessions/store/session-store.js';

/** The check at start has so many milliseconds: a backend that is away does not keep the app from starting. */
const START_LIMIT_MS = 5_000;

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
  /**
   * Says whether the option `backend` takes what nodes write, and allows all that they do; it is absent without a backend
   * that can be checked.
   */
  readonly backend?: 'up' | 'down';
  /** Holds remarks about the backend, such as that Redis evicts keys; it is absent if there are none. */
  readonly warnings?: readonly string[];
  /** Counts the sessions that have a record; it is absent while the session store is down. */
  readonly sessions?: number;
}

/**
 * Checks whether an endpoint can serve requests, for readiness checks with or without Terminus.
 *
 * Down while a store or the bus does not answer in time, or the backend takes no writes, and from the beginning of a
 * shutdown, so that the load balancer sends no more requests before the node refuses them (`shutdownDelayMs`).
 *
 * ```diff
 * +@Get('ready')
 * +@HealthCheck()
 *  ready() { return this.health.check([() => this.mcp.check('mcp')]); }
 * ```
 *
 * An app with several endpoints injects by name: `@InjectMcp(McpHealthIndicator, name)`.
 *
 * @publicApi
 */
@Injectable()
export class McpHealthIndicator implements OnModuleInit {
  /** The remarks of the backend that the log has. */
  readonly #logged = new Set<string>();

  /** @internal */
  constructor(
    @Inject(McpSessionService) private readonly service: McpSessionService,
    @Inject(McpSessionStore) private readonly sessionStore: McpSessionStore,
    @Inject(McpEventStore) private readonly eventStore: McpEventStore,
    @Inject(BusNodes) private readonly nodes: BusNodes,
    @Inject(McpClock) private readonly clock: McpClock,
    @Inject(MCP_BACKEND) private readonly backend: CheckedBackend | undefined,
  ) {}

  /** @throws (rejects) McpOptionError when the backend can never work @internal */
  async onModuleInit(): Promise<void> {
    if (!this.backend?.check) return;
    let refusal: unknown;
    const checked = this.#remarks().catch((error: unknown) => (refusal = error));
    await within(checked, START_LIMIT_MS, this.clock);
    // Any other failure may pass, and the backend has logged it.
    if (refusal instanceof McpOptionError) throw refusal;
  }

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
    let warnings: readonly string[] = [];
    const remarked = async () => {
      warnings = await this.#remarks();
    };
    const [sessionStore, eventStore, messageBus, backend] = await Promise.all([
      this.#answers(counted, timeoutMs),
      // A store in the memory of this process is always available.
      this.#answers(async () => isShared(this.eventStore) && this.eventStore.unfinished(NO_NODE), timeoutMs),
      this.#answers(() => this.nodes.ping(), timeoutMs),
      this.backend?.check && this.#answers(remarked, timeoutMs),
    ]);
    const draining = !this.service.accepting;
    const reasons = [
      ...(draining ? ['The app is shutting down.'] : []),
      ...(sessionStore === 'down' ? ['The session store does not answer.'] : []),
      ...(eventStore === 'down' ? ['The event store does not answer.'] : []),
      ...(messageBus === 'down' ? ['The message bus is not connected.'] : []),
      ...(backend === 'down' ? ['The backend does not take what this node writes.'] : []),
    ];
    const health: McpHealth = {
      status: reasons.length === 0 ? 'up' : 'down',
      ...(reasons.length > 0 && { message: reasons.join(' ') }),
      draining,
      sessionStore,
      eventStore,
      messageBus,
      ...(backend && { backend }),
      ...(warnings.length > 0 && { warnings }),
      ...(sessionStore === 'up' && { sessions: sessions! }),
      ...this.service.nodeCounts(),
    };
    return { [key]: health } as Record<Key, McpHealth>;
  }

  /** Checks the backend, and logs what it remarks for the first time. @throws (rejects) what the backend throws */
  async #remarks(): Promise<readonly string[]> {
    const remarks = await this.backend!.check!();
    for (const remark of remarks) {
      if (!this.#logged.has(remark)) logger.warn(remark);
      this.#logged.add(remark);
    }
    return remarks;
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

interface CheckedBackend {
  check?(): Promise<readonly string[]>;
}
