import {
  count,
  group,
  McpOptionError,
  type OptionTable,
  type Resolved,
  resolveGroup,
  text,
  timer,
} from '../core/common/options.js';
import { MCP_MIN_EVENTS } from '../core/log/event-store.js';

/** Options of `redisBackend()`. @publicApi */
export interface RedisBackendOptions {
  /**
   * Begins the names of all keys and channels. Each endpoint and each deployment on one Redis needs its own prefix:
   * with the same one they share their sessions.
   *
   * @default 'mcp'
   */
  prefix?: string;
  /**
   * Limits the milliseconds that a command may take. Then it fails, although Redis may still carry it out. With a lower
   * value a busy Redis counts as unavailable. With a higher value requests wait longer before they get 503.
   *
   * @default 2000
   */
  commandTimeoutMs?: number;
  /**
   * Sets the milliseconds between two heartbeats of this node. A lower value costs more commands. With a higher value
   * `deadAfterMs` must be higher, too.
   *
   * @default 2000
   */
  heartbeatMs?: number;
  /**
   * Sets the milliseconds without a heartbeat after which a node counts as dead: the others end its open calls with an
   * error. It must be at least three times `heartbeatMs`. With a lower value clients of a dead node get an error
   * sooner, but a node that only paused loses its calls.
   *
   * @default 10000
   */
  deadAfterMs?: number;
  /**
   * Sets the milliseconds after which an unused session expires in Redis, even if no node is left to end it. It has no
   * effect below three times `idleTimeoutMs`: the store then uses that.
   *
   * @default 86400000 (a day)
   */
  expireAfterMs?: number;
  /**
   * Spreads the index of all sessions over this many hash slots. A Redis Cluster with very many sessions needs it, since
   * one slot is on one master. Each slot takes its part of `maxSessions`, and the sessions of one principal are in one of
   * them: with a higher value, a full slot may refuse a session although others have room, and each sweep of a node costs
   * more commands. All nodes need the same value: with another one, they do not find the sessions that are there.
   *
   * @default 1
   * @see https://nestjs-mcp-streamable.github.io/nestjs-mcp-streamable/several-nodes#many-sessions
   */
  sessionSlots?: number;
  /** Bounds the event log in Redis. */
  eventLog?: RedisEventLogOptions;
}

/** Bounds of the event log in Redis; only `maxmemory` of Redis bounds the sum of all sessions. @publicApi */
export interface RedisEventLogOptions {
  /**
   * Limits the number of events that a stream keeps; the value is at least 100. The oldest events are evicted first.
   * With a higher value clients may be disconnected for longer, and Redis needs more memory.
   *
   * @default 1000
   */
  maxEvents?: number;
  /**
   * Limits the bytes of events that a session keeps, counted as UTF-16 code units times two; Redis stores them as
   * UTF-8, which usually needs half of that. Above the limit, the oldest events are evicted: first those of finished
   * streams, then those of open streams. The newest event of an open stream stays.
   *
   * @default 8388608 (8 MiB)
   */
  maxBytes?: number;
  /**
   * Sets the milliseconds for which a finished stream can still be resumed. With a higher value clients on bad
   * connections have more time, and Redis needs more memory.
   *
   * @default 300000 (5 minutes)
   */
  finishedStreamMs?: number;
}

const EVENT_LOG_TABLE = {
  maxEvents: count(1_000, { min: MCP_MIN_EVENTS }),
  maxBytes: count(8 * 1024 ** 2),
  finishedStreamMs: count(300_000),
} satisfies OptionTable<RedisEventLogOptions>;

const REDIS_TABLE = {
  prefix: text('mcp'),
  commandTimeoutMs: timer(2_000),
  heartbeatMs: timer(2_000),
  deadAfterMs: timer(10_000),
  expireAfterMs: count(86_400_000, { min: 60_000 }),
  sessionSlots: count(1),
  eventLog: group({}, EVENT_LOG_TABLE),
} satisfies OptionTable<RedisBackendOptions>;

export type ResolvedRedisOptions = Resolved<typeof REDIS_TABLE>;

/** @throws McpOptionError */
export function resolveRedisOptions(options: RedisBackendOptions = {}): ResolvedRedisOptions {
  const resolved = resolveGroup(REDIS_TABLE, options);
  const { deadAfterMs, heartbeatMs } = resolved;
  if (deadAfterMs >= 3 * heartbeatMs) return resolved;
  const reason = `The option "deadAfterMs" (${deadAfterMs}) must be at least three times "heartbeatMs" (${heartbeatMs}), or one lost heartbeat ends the calls of a running node.`;
  throw new McpOptionError('deadAfterMs', reason);
}
