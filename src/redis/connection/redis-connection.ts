import { createHash } from 'node:crypto';
import { Logger } from '@nestjs/common';
import { systemClock, type McpClock } from '../../core/common/clock.js';
import { McpOptionError } from '../../core/common/options.js';
import { within } from '../../core/common/promises.js';
import { printable } from '../../core/protocol/errors.js';
import { RedisClosedError, RedisUnavailableError } from '../redis.errors.js';
import { RedisKeys } from '../redis-keys.js';
import { resolveRedisOptions, type RedisBackendOptions, type ResolvedRedisOptions } from '../redis.options.js';
import {
  addressOf,
  databaseOf,
  isCluster,
  keyPrefixOf,
  ownClient,
  ownSubscriber,
  type ClientLimits,
  type RedisClient,
} from './redis-clients.js';

/** The longest pause between two attempts to connect, in milliseconds. */
const LONGEST_RETRY_MS = 1_000;
/** An unstable connection counts as one outage for this many milliseconds, with one line in the log. */
const QUIET_MS = 10_000;
/** So many commands are under way at a time: enough to keep the connection busy, few enough not to fill it. */
const BATCH = 64;

/**
 * # The connection to Redis, shared by the stores and the bus
 *
 *     idle ──first command──▶ connecting ──connected, or not within `commandTimeoutMs`──▶ open ──close()──▶ closed
 *
 * It connects at its first use, so that importing the module does not keep the process alive. The first commands wait
 * for the first connection; from then on a command fails at once while there is none, and in time when there is no
 * answer. The client reconnects by itself, without end. A connection whose database Redis refuses is given up before a
 * command uses it: ioredis would go on in database 0.
 *
 * @publicApi
 */
export class RedisConnection {
  /** @internal */
  readonly options: ResolvedRedisOptions;
  /** @internal */
  readonly keys: RedisKeys;
  /** @internal */
  readonly outages: OutageLog;
  /** @internal */
  readonly clock: McpClock;
  /** Is called when the connection is closed. @internal */
  onClosed = (): void => {};
  readonly #client: RedisClient;
  readonly #limits: ClientLimits;
  readonly #time: string;
  readonly #scripts = new Map<RedisScript, LoadedScript>();
  #state: ConnectionState = { is: 'idle' };
  /** Redis has refused the database; absent once it has taken it. */
  #refused: McpOptionError | undefined;
  /** Whether it has refused it on the connection of now: ioredis 5 says "ready" all the same. */
  #refusedNow = false;

  /**
   * @param target a URL, or an instance of ioredis, which is copied
   * @throws RedisSetupError a URL, and `ioredis` is not installed
   * @throws McpOptionError
   */
  constructor(target: RedisClient | string, options: RedisBackendOptions = {}, internals: ConnectionInternals = {}) {
    this.options = resolveRedisOptions(options);
    const { commandTimeoutMs, deadAfterMs, prefix } = this.options;
    this.clock = internals.clock ?? systemClock;
    this.#time = internals.time ?? REDIS_TIME;
    this.outages = new OutageLog(this.clock);
    this.#limits = { commandTimeoutMs, retryMs: Math.min(LONGEST_RETRY_MS, Math.ceil(deadAfterMs / 4)) };
    this.#client = ownClient(target, this.#limits);
    this.keys = new RedisKeys(`${keyPrefixOf(target)}${prefix}`, databaseOf(this.#client));
    this.#client.on('error', (error: unknown) => this.outages.failed('commands', this.#refusalIn(error) ?? error));
    this.#client.on('connect', () => (this.#refusedNow = false));
    this.#client.on('ready', () => {
      if (this.#refusedNow) return;
      this.#refused = undefined;
      this.outages.works('commands');
    });
  }

  /** @internal */
  get isCluster(): boolean {
    return isCluster(this.#client);
  }

  /** Connections with the same keys in the same Redis have the same place. @internal */
  get place(): string {
    return `${addressOf(this.#client)}/${databaseOf(this.#client)} ${this.keys.prefix}`;
  }

  /**
   * Runs a script, in one step.
   *
   * @param key the first key that it touches; the others have the same tag
   * @throws RedisUnavailableError, RedisClosedError; McpOptionError while Redis refuses the database
   * @internal
   */
  run(script: RedisScript, key: string, ...args: (string | number)[]): Promise<unknown> {
    const { sha, text } = this.#loaded(script);
    return this.command(script.name, async (client) => {
      try {
        return await client.evalsha(sha, 1, key, ...args);
      } catch (error) {
        // Redis was restarted, or failed over to a replica that has not seen the script.
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
        return client.eval(text, 1, key, ...args);
      }
    });
  }

  /**
   * @param operation for messages
   * @throws RedisUnavailableError, RedisClosedError; McpOptionError while Redis refuses the database
   * @internal
   */
  async command<T>(operation: string, command: (client: RedisClient) => Promise<T>): Promise<T> {
    if (this.#state.is !== 'open') await this.#opened(operation);
    try {
      const result = await this.#inTime(command(this.#client));
      this.outages.works('commands');
      return result;
    } catch (error) {
      if (this.#isClosed) throw new RedisClosedError(operation);
      if (this.#refused) throw this.#refused;
      this.outages.failed('commands', error);
      throw new RedisUnavailableError(operation, error);
    }
  }

  /** Makes a connection for a subscription; `undefined` while no node is known. @internal */
  async subscriber(): Promise<ReturnType<typeof ownSubscriber>> {
    if (this.#state.is !== 'open') await this.#opened('subscribe');
    return ownSubscriber(this.#client, this.#limits);
  }

  /** Disconnects; commands under way fail. Idempotent. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    const wasIdle = this.#state.is === 'idle';
    this.#state = { is: 'closed' };
    this.onClosed();
    if (wasIdle) return;
    this.#client.disconnect();
  }

  get #isClosed(): boolean {
    return this.#state.is === 'closed';
  }

  /** Gives up a connection whose database Redis refuses; the next attempt asks again. */
  #refusalIn(error: unknown): McpOptionError | undefined {
    const { command, message } = error as { command?: { name?: string }; message?: string };
    if (command?.name !== 'select') return undefined;
    const db = databaseOf(this.#client);
    const text = `Redis has no database ${db} for this app: ${message}. Choose one that exists and that the user of Redis may select, such as redis://localhost:6379/0. To share a database, give each deployment a "prefix".`;
    this.#refused = new McpOptionError('backend', text);
    this.#refusedNow = true;
    this.#client.disconnect(true);
    return this.#refused;
  }

  #loaded(script: RedisScript): LoadedScript {
    let loaded = this.#scripts.get(script);
    if (!loaded) this.#scripts.set(script, (loaded = script.with(this.#time)));
    return loaded;
  }

  async #opened(operation: string): Promise<void> {
    if (this.#state.is === 'idle') this.#state = { is: 'connecting', first: this.#connect() };
    if (this.#state.is === 'connecting') await this.#state.first;
    if (this.#isClosed) throw new RedisClosedError(operation);
  }

  async #connect(): Promise<void> {
    const connected = this.#client.connect().catch(() => {});
    await within(connected, this.#limits.commandTimeoutMs, this.clock);
    if (this.#state.is === 'connecting') this.#state = { is: 'open' };
  }

  /** Limits the time of a command in a cluster, where redirections and retries take time of their own. */
  #inTime<T>(answer: Promise<T>): Promise<T> {
    if (!isCluster(this.#client)) return answer;
    const { commandTimeoutMs } = this.#limits;
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`no answer within ${commandTimeoutMs} ms`));
      const timer = this.clock.setTimeout(late, commandTimeoutMs);
      answer.then(resolve, reject).finally(() => this.clock.clear(timer));
    });
  }
}

type ConnectionState = { is: 'idle' } | { is: 'connecting'; first: Promise<void> } | { is: 'open' } | { is: 'closed' };

/** `now()` of our scripts: milliseconds by the clock of Redis, so that the clocks of the nodes need not agree. */
const REDIS_TIME = `
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`;

/** `int` formats integers as strings: Lua would write 1e+15. */
const HELPERS = `
local call = redis.call
local function int(n) return string.format('%.0f', n) end

-- The process of Redis that runs this script; '' if this user may not ask.
local function server()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end
`;

/** A Lua script: Redis runs it in one step. */
export class RedisScript {
  constructor(
    /** The name of the script in error texts. */
    readonly name: string,
    private readonly body: string,
  ) {}

  /** @param time defines `now()` */
  with(time: string): LoadedScript {
    const text = `${time}${HELPERS}${this.body}`;
    return { name: this.name, text, sha: createHash('sha1').update(text).digest('hex') };
  }
}

export interface LoadedScript {
  readonly name: string;
  readonly text: string;
  /** The hash for `EVALSHA`, once Redis has seen the script. */
  readonly sha: string;
}

/** Parts that tests replace. @internal */
export interface ConnectionInternals {
  readonly clock?: McpClock;
  /** The Lua text that defines `now()`. */
  readonly time?: string;
}

/**
 * Logs once that Redis is unavailable, and once that it is available again, for all connections and commands.
 *
 *     fine ──a part fails──▶ away (logged, unless an outage was logged just now) ──every part works──▶ fine (logged, if that was)
 */
class OutageLog {
  readonly #failing = new Set<string>();
  readonly #logger = new Logger('McpStreamable');
  #loggedAt = Number.NEGATIVE_INFINITY;
  #logged = false;

  constructor(private readonly clock: McpClock) {}

  failed(part: string, cause: unknown): void {
    if (this.#failing.size === 0 && this.clock.now() - this.#loggedAt >= QUIET_MS) {
      this.#logged = true;
      this.#loggedAt = this.clock.now();
      this.#logger.error(
        `Redis is unavailable: ${printable(describe(cause)).replace(/\.$/, '')}. Requests in sessions are answered with 503, and open streams stay open, until Redis is available again.`,
      );
    }
    this.#failing.add(part);
  }

  works(part: string): void {
    if (!this.#failing.delete(part) || this.#failing.size > 0 || !this.#logged) return;
    this.#logged = false;
    this.#logger.log('Redis is available again.');
  }

  warn(message: string): void {
    this.#logger.warn(message);
  }

  debug(message: string): void {
    this.#logger.debug(message);
  }
}

/** Describes an error; Node's own error for several failed addresses has no message. */
function describe(cause: unknown): string {
  if (cause instanceof AggregateError && cause.message === '') return cause.errors.map(describe).join(', ');
  return cause instanceof Error ? cause.message : String(cause);
}

/** Runs a command for each item, many at a time. @returns the results, in order */
export async function inBatches<T, R>(items: readonly T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += BATCH) {
    results.push(...(await Promise.all(items.slice(at, at + BATCH).map(each))));
  }
  return results;
}
