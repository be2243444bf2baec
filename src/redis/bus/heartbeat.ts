import { Subject } from 'rxjs';
import type { ClockTimer } from '../../common/clock.js';
import type { LostNode } from '../../bus/message-bus.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { RedisScript } from '../connection/redis-script.js';

/** Dead nodes that one beat claims; the next beats, or other nodes, claim the rest. */
const CLAIMED_AT_ONCE = 4;
/** Multiple of `deadAfterMs` for which a claimed dead node is left to its claimant, before other nodes try. */
const LEASES = 3;

/**
 * # The heartbeat of this node
 *
 *     resting ──start()──▶ beating, every `heartbeatMs`, one beat at a time ──stop()──▶ stopped (no longer among the nodes)
 *
 * Only the clock of Redis counts. A beat that fails is left out: the next one comes soon enough, and no node counts as dead
 * because Redis was away. A node that learns from its beat that it was no longer known had counted as dead: it goes on, but
 * its calls may have been ended, and its readers forgotten.
 */
export class Heartbeat {
  /** The dead nodes that this node has claimed; it claims none while this has no subscriber. */
  readonly lost$ = new Subject<LostNode>();
  #timer: ClockTimer | undefined;
  #beating: Promise<void> | undefined;
  #registered = false;
  #stopped = false;

  /** @param beaten runs after each beat; `forgotten`: this node had counted as dead */
  constructor(
    private readonly connection: RedisConnection,
    private readonly node: string,
    private readonly life: NodeLife,
    private readonly beaten: (forgotten: boolean) => void,
  ) {}

  /** Beats at once, and from then on periodically; once started, it beats once more. */
  start(): Promise<void> {
    if (!this.#stopped)
      this.#timer ??= this.connection.clock.setInterval(() => void this.#next(), this.connection.options.heartbeatMs);
    return this.#next();
  }

  /**
   * Takes this node off the list, so that it never counts as dead; unless it leaves open calls behind, which another node
   * then has to end. Never rejects.
   */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.connection.clock.clear(this.#timer);
    await this.#beating;
    if (!(await this.life.leaves()) || !this.#registered) return;
    const { bus } = this.connection.keys;
    await this.connection.command('leave', (client) => client.zrem(`${bus}nodes`, this.node)).catch(() => {});
  }

  #next(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    return (this.#beating ??= this.#beat().finally(() => (this.#beating = undefined)));
  }

  async #beat(): Promise<void> {
    const { keys, options } = this.connection;
    const { deadAfterMs, expireAfterMs } = options;
    const most = this.lost$.observed ? CLAIMED_AT_ONCE : 0;
    const args = [this.node, deadAfterMs, deadAfterMs * LEASES, expireAfterMs, most];
    try {
      const [known, ...lost] = (await this.connection.run(beat, keys.bus, ...args)) as [number, ...string[]];
      const forgotten = this.#registered && known === 0;
      this.#registered = true;
      this.beaten(forgotten);
      for (const node of lost) this.lost$.next({ node, done: () => this.#done(node) });
      void this.life.beaten();
    } catch {
      // Redis is away, which the connection has logged.
    }
  }

  /** If it fails, a node claims the dead one again after the lease, and finds nothing left to do. */
  async #done(node: string): Promise<void> {
    const { bus } = this.connection.keys;
    await this.connection.command('done', (client) => client.zrem(`${bus}lost`, node)).catch(() => {});
  }
}

/** The part of the event log that lives and dies with this node. Nothing here rejects. @internal */
export interface NodeLife {
  /** After each beat. */
  beaten(): Promise<void>;
  /** Before this node leaves. @returns whether it leaves no open call behind */
  leaves(): Promise<boolean>;
}

/**
 * # Which nodes are alive
 *
 *     :nodes  zset    score: the last beat
 *     :lost   zset    nodes that have died; score: the end of the lease of the node that ends their calls
 *     :quiet  string  no node counts as dead for as long as it exists
 *
 * No beat of any node for half of `deadAfterMs` means that Redis was away: then no node counts as dead until all have had
 * their full time to beat again.
 *
 * ARGV: node, milliseconds without a beat after which a node is dead, milliseconds of the lease, life, how many nodes to claim.
 * Returns whether this node was known, and the dead nodes that it has claimed.
 */
const beat = new RedisScript(
  'beat',
  `
local base, node = KEYS[1], ARGV[1]
local NODES, LOST, QUIET = base..'nodes', base..'lost', base..'quiet'
local dead, lease, life, most = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local at = now()

local latest = call('ZRANGE', NODES, -1, -1, 'WITHSCORES')
if latest[2] and at - tonumber(latest[2]) > dead / 2 then call('SET', QUIET, 1, 'PX', int(dead)) end

local known = 1 - call('ZADD', NODES, int(at), node)
if call('EXISTS', QUIET) == 0 then
  for _, silent in ipairs(call('ZRANGEBYSCORE', NODES, '-inf', int(at - dead))) do
    call('ZREM', NODES, silent)
    call('ZADD', LOST, int(at), silent)
  end
end

-- It lives, and no other node has claimed it.
local own = call('ZSCORE', LOST, node)
if own and tonumber(own) <= at then call('ZREM', LOST, node) end

local claimed = {known}
for _, lost in ipairs(call('ZRANGEBYSCORE', LOST, '-inf', int(at), 'LIMIT', 0, most)) do
  call('ZADD', LOST, int(at + lease), lost)
  table.insert(claimed, lost)
end
call('PEXPIRE', NODES, life)
call('PEXPIRE', LOST, life)
return claimed
`,
);
