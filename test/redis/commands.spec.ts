import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { McpHealthIndicator } from 'nestjs-mcp-streamable';
import { RedisConnection } from 'nestjs-mcp-streamable/redis';
import { TestApp } from '../support/app.js';
import { log } from '../support/messages.js';
import { at } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

/** No beats, and no command that is given up, while a test counts. */
const RESTING = { heartbeatMs: 600_000, deadAfterMs: 2_000_000, commandTimeoutMs: 30_000 };
const OPEN_CALLS = 900;
/** Turns of the event loop without a further command, after which all commands under way are answered. */
const QUIET_TURNS = 25;

/**
 * How many answers of Redis have to be waited for, one after the other: those of commands that are under way are withheld, and come
 * together as soon as nothing more is asked meanwhile.
 */
class Rounds {
  readonly operations: string[] = [];
  count = 0;
  readonly #withheld: (() => void)[] = [];
  #asked = 0;
  #running = 0;

  constructor(private readonly redis: { ping(): Promise<unknown> }) {
    const { command } = RedisConnection.prototype;
    const ask = async (connection: RedisConnection, ...asked: Parameters<typeof command>): Promise<unknown> => {
      this.#asked++;
      this.operations.push(asked[0]);
      this.#running++;
      const result: unknown = await command.apply(connection, asked).finally(() => this.#running--);
      await new Promise<void>((answered) => this.#withheld.push(answered));
      return result;
    };
    vi.spyOn(RedisConnection.prototype, 'command').mockImplementation(function (this: RedisConnection, ...asked) {
      return ask(this, ...asked);
    });
  }

  /** @returns what comes of it, when it has come */
  async until<T>(outcome: Promise<T>): Promise<T> {
    const over = Symbol('over');
    for (;;) {
      const first = await Promise.race([outcome, this.#quiet().then(() => over)]);
      if (first !== over) return first as T;
      if (this.#withheld.length === 0) continue;
      this.count++;
      for (const answered of this.#withheld.splice(0)) answered();
    }
  }

  /** Answers commands until no further one comes: requests that are answered may still have some under way. */
  async rest(): Promise<void> {
    do {
      for (const answered of this.#withheld.splice(0)) answered();
      await this.#quiet();
    } while (this.#withheld.length > 0);
  }

  /** Answers everything at once from now on. */
  end(): void {
    vi.restoreAllMocks();
    for (const answered of this.#withheld.splice(0)) answered();
  }

  async #quiet(): Promise<void> {
    for (let [turns, asked] = [0, this.#asked]; turns < QUIET_TURNS; turns++) {
      // Redis answers it after it has delivered the messages that it got before.
      await this.redis.ping();
      await nextTurn();
      if (this.#running === 0 && this.#asked === asked) continue;
      asked = this.#asked;
      turns = 0;
    }
  }
}

describeRedis('what a request costs in Redis', () => {
  let room: RedisRoom;
  let nodes: TestApp[];
  let client: RawClient;
  let there: RawClient;
  let rounds: Rounds | undefined;

  beforeEach(async () => {
    room = await RedisRoom.open();
    const start = () =>
      TestApp.start({
        adapter: 'fastify',
        backend: room.node(RESTING),
        keepAliveMs: 600_000,
        tools: { quick: () => 'quick' },
      });
    nodes = [await start(), await start()];
    client = await nodes[0]!.client().initialize();
    there = at(nodes[1]!, client);
  });
  afterEach(async () => {
    rounds?.end();
    await Promise.all(nodes.map(({ app }) => app.close()));
    await room.close();
  });

  const publishes = (): number => rounds!.operations.filter((operation) => operation === 'publish').length;

  it('nodes: a GET on another node waits for four commands at most until its first event, and publishes once', async () => {
    const reader = await client.listen();
    for (const word of ['one', 'two', 'three']) await nodes[0]!.service.notify(client.sessionId!, log(word));
    await reader.count(3);
    const cursor = reader.events[0]!.id!;
    rounds = new Rounds(room.redis.admin);
    const resumed = await rounds.until(there.get(cursor).then((response) => response.sse().count(1)));
    expect(resumed.events[0]!.id).toBe('0_2');
    expect(rounds.count).toBeLessThanOrEqual(4);
    expect(publishes()).toBe(1);
    rounds.end();
    for (const stream of [reader, resumed]) stream.destroy();
  });

  it('nodes: a health check sends four commands beside a ping, and waits for them at the same time', async () => {
    rounds = new Rounds(room.redis.admin);
    const { mcp } = await rounds.until(nodes[0]!.app.get(McpHealthIndicator).check());
    expect(mcp.status).toBe('up');
    // The activity of `initialize` may still be noted.
    const asked = rounds.operations.filter((operation) => operation !== 'touch');
    expect(asked.toSorted()).toEqual(['check', 'check', 'count', 'notes']);
    expect(rounds.count).toBe(1);
  });

  describeCalls(0);
  describeCalls(OPEN_CALLS);

  function describeCalls(open: number): void {
    it(`nodes: a call that is answered as JSON waits for three commands at most, with ${open} calls open`, async () => {
      await openCalls(open);
      for (const caller of [client, there, there]) {
        const before = await carriedOut();
        rounds = new Rounds(room.redis.admin);
        const response = await rounds.until(caller.call('quick'));
        expect(response.header('content-type')).toContain('application/json');
        await response.text();
        expect(rounds.count).toBeLessThanOrEqual(3);
        expect(publishes()).toBe(0);
        // What nothing waits for keeps Redis busy all the same.
        await rounds.rest();
        rounds.end();
        const carried = (await carriedOut()) - before;
        expect(carried).toBeLessThanOrEqual(30);
      }
    });
  }

  /** Other calls of the session, that have begun their streams. */
  async function openCalls(count: number): Promise<void> {
    const { eventStore, messageBus } = room.node(RESTING);
    await eventStore.open(client.sessionId!);
    for (let n = 0; n < count; n++) {
      const opens = { node: messageBus.nodeId, requests: [`open ${n}`] };
      await eventStore.append(client.sessionId!, `call-${n}`, [`{"n":${n}}`], { writer: `w${n}`, seq: 1, opens });
    }
  }

  /** Commands that Redis has carried out, those of scripts among them. */
  async function carriedOut(): Promise<number> {
    const info = await room.redis.admin.info('commandstats');
    const calls = [...info.matchAll(/^cmdstat_(?!info|ping)\S+:calls=(\d+)/gm)];
    return calls.reduce((sum, [, count]) => sum + Number(count), 0);
  }
});
