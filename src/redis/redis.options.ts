import { check, McpOptionError, namesOf } from '../common/option-checks.js';
import { MIN_EVENTS } from '../stream/event-store.js';

/** Options of `redisBackend()`. @publicApi */
export interface RedisBackendOptions {
  /**
   * The beginning of all keys and channels. Endpoints, and deployments, that share one Redis need one each: with the same
   * prefix they share their sessions.
   *
   * @default 'mcp'
   */
  prefix?: string;
  /**
   * Milliseconds that a command may take; then it fails, though Redis may still carry it out. Lower: a busy Redis counts as
   * away. Higher: requests hang for longer before they are answered with 503.
   *
   * @default 2000
   */
  commandTimeoutMs?: number;
  /**
   * Milliseconds between two heartbeats of this node. Lower: more commands. Higher: `deadAfterMs` has to be higher, too.
   *
   * @default 2000
   */
  heartbeatMs?: number;
  /**
   * Milliseconds without a heartbeat after which a node counts as dead: the others end its open calls with an error. At
   * least three times `heartbeatMs`. Lower: clients learn sooner of a dead node, but a node that merely paused loses its calls.
   *
   * @default 10000
   */
  deadAfterMs?: number;
  /**
   * Milliseconds after which an unused session expires in Redis, also when no node is left that could end it. Must be several
   * times `sessions.idleTimeoutMs`; the store raises it to three times the idle timeout by itself.
   *
   * @default 86400000 (a day)
   */
  expireAfterMs?: number;
  /** Bounds of the event log. */
  eventLog?: RedisEventLogOptions;
}

/** Bounds of the event log in Redis; the sum of all sessions is bounded by `maxmemory` of Redis alone. @publicApi */
export interface RedisEventLogOptions {
  /**
   * Events that a stream keeps, at least 100. The oldest go first. More of them let a client be away for longer, and cost
   * memory of Redis.
   *
   * @default 1000
   */
  maxEvents?: number;
  /**
   * Bytes of events that a session keeps, counted as UTF-16 code units times two; Redis holds them as UTF-8, mostly half of it.
   * Beyond it its streams lose their oldest events, finished streams before open ones; the newest event of an open stream stays.
   *
   * @default 8388608 (8 MiB)
   */
  maxBytes?: number;
  /**
   * Milliseconds for which a finished stream can still be resumed.
   *
   * @default 300000 (5 minutes)
   */
  finishedStreamMs?: number;
}

export type ResolvedRedisOptions = Required<Omit<RedisBackendOptions, 'eventLog'>> & {
  readonly eventLog: Required<RedisEventLogOptions>;
};

const NAMES = namesOf<RedisBackendOptions>({
  ...{ prefix: true, commandTimeoutMs: true, heartbeatMs: true, deadAfterMs: true, expireAfterMs: true },
  eventLog: true,
});
const EVENT_LOG_NAMES = namesOf<RedisEventLogOptions>({ maxEvents: true, maxBytes: true, finishedStreamMs: true });

/** @throws McpOptionError */
export function resolveRedisOptions(options: RedisBackendOptions = {}): ResolvedRedisOptions {
  check.names('', check.group('options', options), NAMES);
  const { prefix = 'mcp', commandTimeoutMs = 2_000, heartbeatMs = 2_000, deadAfterMs = 10_000 } = options;
  const { expireAfterMs = 86_400_000 } = options;
  const {
    maxEvents = 1_000,
    maxBytes = 8 * 1024 ** 2,
    finishedStreamMs = 300_000,
  } = check.group('eventLog', options.eventLog, EVENT_LOG_NAMES) ?? {};
  if (check.timer('deadAfterMs', deadAfterMs) < 3 * check.timer('heartbeatMs', heartbeatMs)) {
    throw new McpOptionError(
      'deadAfterMs',
      `The option "deadAfterMs" (${deadAfterMs}) must be at least three times "heartbeatMs" (${heartbeatMs}), or one lost heartbeat ends the calls of a running node.`,
    );
  }
  return {
    prefix: check.text('prefix', prefix),
    commandTimeoutMs: check.timer('commandTimeoutMs', commandTimeoutMs),
    heartbeatMs,
    deadAfterMs,
    expireAfterMs: check.count('expireAfterMs', expireAfterMs, { min: 60_000 }),
    eventLog: {
      maxEvents: check.count('eventLog.maxEvents', maxEvents, { min: MIN_EVENTS }),
      maxBytes: check.count('eventLog.maxBytes', maxBytes),
      finishedStreamMs: check.count('eventLog.finishedStreamMs', finishedStreamMs),
    },
  };
}
