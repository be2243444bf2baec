import { Subject } from 'rxjs';
import type { ClockTimer } from '../../core/common/clock.js';
import { FORMATS } from '../../core/common/formats.js';
import type { McpLostNode } from '../../core/nodes/message-bus.js';
import type { RedisClient } from '../connection/redis-clients.js';
import { type RedisConnection, RedisScript } from '../connection/redis-connection.js';
import { RedisUnavailableError } from '../redis.errors.js';

/** One beat claims at most this many dead nodes; later beats, or other nodes, claim the rest. */
const CLAIMED_AT_ONCE = 4;

/**
 * # The heartbeat of this node
 *
 *     resting ──start()──▶ beating, every `heartbeatMs`, one beat at a time ──stop()──▶ stopped (no longer among the nodes)
 *
 * Only the clock of Redis counts. A failed beat is skipped: the next one is soon enough, and no node counts as dead
 * because Redis was unavailable. A node whose beat finds that it was not registered had counted as dead: it continues,
 * but other nodes may have ended its calls and removed its readers.
 */
export class Heartbeat {
  /** Emits the dead nodes that this node has claimed; it claims none while this has no subscriber. */
  readonly lost$ = new Subject<McpLostNode>();
  #timer: ClockTimer | undefined;
  #beating: Promise<void> | undefined;
  #registered = false;
  #stopped = false;
  /** The time of the last beat that succeeded, in milliseconds since the epoch. */
  #beatenAt = Number.NEGATIVE_INFINITY;
  /** The error of the last beat that failed. */
  #failure: unknown;

  /** @param beaten runs after each beat; `forgotten`: this node had counted as dead */
  constructor(
    private readonly connection: RedisConnection,
    private readonly node: string,
    private readonly beaten: (forgotten: boolean) => void,
  ) {}

  /** Beats at once, and from then on periodically; once started, it beats once more. */
  start(): Promise<void> {
    if (!this.#stopped)
      this.#timer ??= this.connection.clock.setInterval(() => void this.#next(), this.connection.options.heartbeatMs);
    return this.#next();
  }

  /**
   * Resolves when this node has sent a beat. It is awaited before this node opens calls that another node may have to
   * end: only a node that has sent a beat can count as dead.
   *
   * @throws (rejects) RedisUnavailableError
   */
  async known(): Promise<void> {
    const { clock, options } = this.connection;
    const isKnown = () => this.#stopped || clock.now() - this.#beatenAt < options.deadAfterMs / 2;
    // One may be under way that began before.
    for (let attempts = 0; attempts < 2 && !isKnown(); attempts++) await this.#next();
    if (!isKnown()) throw new RedisUnavailableError('beat', this.#failure);
  }

  /**
   * Takes this node off the list, so that it never counts as dead; unless it leaves open calls or tasks behind, which
   * another node then has to end. Never rejects.
   */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.connection.clock.clear(this.#timer);
    await this.#beating;
    if (!this.#registered) return;
    const { keys } = this.connection;
    const left = (client: RedisClient): Promise<number[]> =>
      Promise.all([keys.calls(this.node), keys.tasksOf(this.node)].map((key) => client.scard(key)));
    try {
      const counts = await this.connection.command('leave', left);
      if (counts.every((count) => count === 0)) await this.connection.run(leave, keys.bus, this.node, FORMATS.sessions);
    } catch {
      // It counts as dead later, which harms nothing.
    }
  }

  /** Returns the nodes of all formats that have beaten and do not count as dead. @throws (rejects) RedisUnavailableError */
  async nodes(): Promise<string[]> {
    return (await this.connection.run(alive, this.connection.keys.bus)) as string[];
  }

  #next(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return (this.#beating ??= this.#beat().finally(() => (this.#beating = undefined)));
  }

  async #beat(): Promise<void> {
    const { keys, options } = this.connection;
    const { deadAfterMs, expireAfterMs } = options;
    const most = this.lost$.observed ? CLAIMED_AT_ONCE : 0;
    const args = [this.node, FORMATS.sessions, deadAfterMs, expireAfterMs, most];
    const at = this.connection.clock.now();
    try {
      const [known, ...lost] = (await this.connection.run(beat, keys.bus, ...args)) as [number, ...string[]];
      const forgotten = this.#registered && known === 0;
      this.#registered = true;
      this.#beatenAt = at;
      this.beaten(forgotten);
      for (let n = 0; n < lost.length; n += 2) {
        const [list, node] = [lost[n]!, lost[n + 1]!];
        this.lost$.next({ node, done: () => this.#done(list, node) });
      }
    } catch (error) {
      // Redis is unavailable, which the connection has logged.
      this.#failure = error;
    }
  }

  /** Removes a dead node. If that fails, a node claims it again after the lease, and finds nothing left to do. */
  async #done(list: string, node: string): Promise<void> {
    await this.connection.command('done', (client) => client.zrem(list, node)).catch(() => {});
  }
}

/**
 * # Which nodes are alive
 *
 *     :formats         set   the formats that have one of these lists, but for 1
 *     :nodes:<format>  zset  the nodes of one format; score: the last beat
 *     :lost:<format>   zset  nodes that have died; score: the end of the lease of the node that ends their calls
 *
 * The names of format 1 are `:nodes` and `:lost`. The lists of all formats look the same, so that tasks of dead nodes end after an upgrade.
 */
const NODES = `
local base = KEYS[1]
local FORMATS = base..'formats'
local function list(name, format)
  return base..name..(format == '1' and '' or ':'..format)
end

local function formats()
  local all = call('SMEMBERS', FORMATS)
  table.insert(all, '1')
  return all
end

local function forgetIfEmpty(format)
  if call('EXISTS', list('nodes', format), list('lost', format)) == 0 then call('SREM', FORMATS, format) end
end
`;

/**
 * When no node has sent a beat for half of the time after which a node is dead, Redis was unavailable: that time does
 * not count for any node, so that running nodes can send a beat in time, and dead ones are still found.
 *
 * Only nodes of the same format can end the calls of a dead node. Another one claims it if none of them is alive, for its tasks.
 *
 * The node that claims a dead one has the same time to end its calls before others try, in case it has died, or has not
 * received the claim.
 *
 * ARGV: node, its format, milliseconds without a beat after which a node is dead, life, how many nodes to claim. Returns whether this
 * node was known, and the dead nodes that it has claimed, each behind the key of its list.
 */
const beat = new RedisScript(
  'beat',
  `${NODES}
local node, mine, dead, life, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local at = now()

local function latest(format)
  local newest = call('ZRANGE', list('nodes', format), -1, -1, 'WITHSCORES')[2]
  return tonumber(newest or 0)
end

call('SADD', FORMATS, mine)
call('PEXPIRE', FORMATS, life)
local all, newest = formats(), 0
for _, format in ipairs(all) do newest = math.max(newest, latest(format)) end
local away = newest > 0 and at - newest or 0
if away > dead / 2 then
  for _, format in ipairs(all) do
    local NODES = list('nodes', format)
    for _, other in ipairs(call('ZRANGE', NODES, 0, -1)) do call('ZINCRBY', NODES, int(away), other) end
  end
end

local known = 1 - call('ZADD', list('nodes', mine), int(at), node)
call('ZREM', list('lost', mine), node)

local claimed = {known}
for _, format in ipairs(all) do
  if format == mine or latest(format) <= at - dead then
    local NODES, LOST = list('nodes', format), list('lost', format)
    for _, silent in ipairs(call('ZRANGEBYSCORE', NODES, '-inf', int(at - dead))) do
      call('ZREM', NODES, silent)
      call('ZADD', LOST, int(at), silent)
    end
    for _, lost in ipairs(call('ZRANGEBYSCORE', LOST, '-inf', int(at), 'LIMIT', 0, most)) do
      call('ZADD', LOST, int(at + dead), lost)
      table.insert(claimed, LOST)
      table.insert(claimed, lost)
    end
    for _, key in ipairs({NODES, LOST}) do call('PEXPIRE', key, life) end
    forgetIfEmpty(format)
  end
end
return claimed
`,
);

/** ARGV: node, its format. */
const leave = new RedisScript(
  'leave',
  `${NODES}
call('ZREM', list('nodes', ARGV[2]), ARGV[1])
forgetIfEmpty(ARGV[2])
`,
);

/** Returns the nodes of all formats. */
const alive = new RedisScript(
  'nodes',
  `${NODES}
local nodes = {}
for _, format in ipairs(formats()) do
  for _, node in ipairs(call('ZRANGE', list('nodes', format), 0, -1)) do table.insert(nodes, node) end
end
return nodes
`,
);
