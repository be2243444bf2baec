import { RedisServer } from '../../support/redis.js';
import { WorldClient, type Ended, type Surroundings } from './client.js';
import { DEAD_AFTER_MS, WorldNode } from './node.js';
import { Pair } from './pair.js';
import { MOST_MS, Waits } from './waits.js';
import { seededRandom } from '../../support/share.js';

const NODES = 3;
const CLIENTS = 3;
/** Calls that each client has open at once. */
const AT_A_TIME = 2;
const FAULTS = 5;
/** After all faults are over; what lasts longer has been found late long before. */
const PATIENCE_MS = MOST_MS + 15_000;

/** Real time: nodes and Redis are processes that are killed, paused and cut off for so long. */
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What a world was like, in numbers. */
export interface WorldReport {
  readonly seed: number;
  readonly wrong: readonly string[];
  readonly trace: readonly string[];
  readonly calls: Readonly<Record<Ended['kind'], number>>;
  readonly longestMs: number;
}

/**
 * # One world
 *
 * Three nodes over a Redis of their own, and clients that call, are asked, hear progress and announcements, and lose their connections.
 * Meanwhile nodes are killed and started again, cut off from clients, from Redis or from both, and Redis is paused and restarted.
 *
 * The seed decides what is tried and in which order, not when the machine does what: a failure may not come again at once.
 */
export class World implements Surroundings {
  readonly waits = new Waits((what, ms) => this.wrong(`${what}: ${Math.round(ms)} ms without a word`));
  skips = false;
  readonly loses: boolean;
  readonly #began = performance.now();
  readonly #trace: string[] = [];
  readonly #wrong: string[] = [];
  readonly #runs = new Map<string, number>();
  readonly #nodes: (WorldNode | undefined)[] = [];
  readonly #clients: WorldClient[] = [];
  /** What every client has to hear on its standalone stream. */
  readonly #announcements = new Map<string, number[]>();
  readonly #calls = { answer: 0, error: 0, refused: 0, broken: 0 };
  readonly #ending: Promise<unknown>[] = [];
  readonly #random: () => number;
  #redis!: RedisServer;
  #pair: Pair | undefined;
  #chaos = true;

  /** @param failover the only fault is that Redis fails over to a replica that lags */
  constructor(
    readonly seed: number,
    failover = false,
  ) {
    this.#random = seededRandom(seed);
    this.loses = failover;
  }

  async run(): Promise<WorldReport> {
    try {
      await this.#begin();
      const calling = this.#clients.map((client) => this.#work(client));
      const other = [this.#drop(), this.#announce()];
      await (this.#pair ? this.#failOver(this.#pair) : this.#rage());
      this.#chaos = false;
      const calm = Promise.all([...calling, ...other]).then(() => this.#check());
      let patience: NodeJS.Timeout;
      const { counted } = this.waits;
      const lost = new Promise<void>((resolve) => {
        patience = setInterval(() => {
          if (this.waits.counted - counted > PATIENCE_MS) resolve(this.wrong('the world does not come to rest'));
        }, 100);
      });
      await Promise.race([calm, lost]).finally(() => clearInterval(patience));
    } catch (error) {
      this.wrong(`it broke: ${error instanceof Error ? error.stack : String(error)}`);
    } finally {
      await this.#end();
    }
    const { seed, waits } = this;
    return { seed, wrong: this.#wrong, trace: this.#trace, calls: this.#calls, longestMs: waits.longestMs };
  }

  url(): string {
    const living = this.#nodes.filter((node) => node !== undefined);
    return living[this.random(living.length)]!.url;
  }

  random(below: number): number {
    return Math.floor(this.#random() * below);
  }

  wrong(what: string): void {
    this.#wrong.push(what);
    this.note(`WRONG ${what}`);
  }

  note(what: string): void {
    this.#trace.push(`${Math.round(performance.now() - this.#began)} ms: ${what}`);
  }

  async #begin(): Promise<void> {
    // What was acknowledged is in the file when the process is killed.
    const start = () => RedisServer.start('--appendonly', 'yes', '--appendfsync', 'no');
    // Another process may have taken its port.
    if (this.loses) this.#pair = await Pair.start();
    this.#redis = this.#pair?.master ?? (await start().catch(start));
    await Promise.all(Array.from({ length: NODES }, (_, at) => this.#start(at)));
    for (let at = 0; at < CLIENTS; at++) {
      const client = new WorldClient(`client-${at}`, this);
      await client.begin();
      await client.listen();
      this.#clients.push(client);
    }
    await this.#pair?.inStep();
  }

  async #start(at: number): Promise<void> {
    const ran = (key: string): void => {
      const runs = (this.#runs.get(key) ?? 0) + 1;
      this.#runs.set(key, runs);
      if (runs > 1) this.wrong(`${key} ran ${runs} times`);
    };
    this.#nodes[at] = await WorldNode.start(this.#redis.port, { ran });
  }

  async #work(client: WorldClient): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      while (this.#chaos) {
        const steps = this.random(12);
        const call = {
          key: `${client.name}/${next++}`,
          steps,
          askAt: this.random(steps + 3),
          everyMs: 5 + this.random(80),
        };
        const ended = await client.call(call);
        this.#calls[ended.kind]++;
        const name = call.askAt > 0 && call.askAt <= steps ? client.name : 'undefined';
        const right = `${call.key} for ${name}`;
        if (ended.kind === 'answer' && ended.text !== right) this.wrong(`${call.key} has the answer ${ended.text}`);
        if (ended.kind !== 'answer') {
          this.note(`${call.key}: ${ended.kind} ${ended.text}`);
          await pause(20);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
  }

  async #drop(): Promise<void> {
    while (this.#chaos) {
      await pause(50 + this.random(300));
      this.#clients[this.random(CLIENTS)]!.drop();
    }
  }

  /** Each is heard by all once, in the order of its node, if its node says that it was sent. */
  async #announce(): Promise<void> {
    let next = 0;
    const announce = async (client: WorldClient): Promise<boolean> => {
      const living = this.#nodes.filter((node) => node !== undefined);
      const { service } = living[this.random(living.length)]!;
      const data = ++next;
      const message = { method: 'notifications/message', params: { level: 'error', data } };
      const sent = service.notify(client.sessionId!, message);
      return sent.then(
        () => {
          this.#announcements.set(client.name, [...(this.#announcements.get(client.name) ?? []), data]);
          const wait = this.waits.begin(`announcement ${data} to ${client.name}`, 0);
          const look = setInterval(() => {
            if (!this.#heard(client, data) && !this.#over) return;
            clearInterval(look);
            wait.end();
          }, 20);
          return true;
        },
        () => false,
      );
    };
    while (this.#chaos) {
      void announce(this.#clients[this.random(CLIENTS)]!);
      await pause(30 + this.random(150));
    }
    if (!this.loses) return;
    // A client finds that it has missed the newest one by the gap before the next.
    for (const client of this.#clients) while (!(await announce(client))) await pause(50);
  }
  #over = false;

  /** The replica lacks what the master wrote in the last 300 ms. Nodes find it one after the other. */
  async #failOver(pair: Pair): Promise<void> {
    await pause(100 + this.random(300));
    await pair.lag();
    await pause(300);
    this.note('Redis fails over');
    const over = this.waits.fault();
    this.skips = true;
    await pair.failOver();
    for (const node of this.#nodes) {
      await pause(this.random(100));
      node!.back.switchTo(new URL(pair.replica.url));
    }
    over();
    await pause(1_000);
  }

  /** One fault after the other; some outlast the next ones. */
  async #rage(): Promise<void> {
    const lasting: Promise<void>[] = [];
    for (let n = 0; n < FAULTS; n++) {
      await pause(50 + this.random(500));
      const fault = this.#fault();
      lasting.push(fault);
      if (this.random(2) === 0) await fault;
    }
    await Promise.all(lasting);
    await this.#redisLane;
    await pause(100);
  }
  /** Redis is paused or restarted one at a time. */
  #redisLane: Promise<void> = Promise.resolve();

  async #fault(): Promise<void> {
    const dice = this.random(10);
    if (dice < 4) return this.#kill(this.random(NODES), this.random(1_500));
    if (dice < 7) return this.#cutOff(this.random(NODES));
    if (dice < 8) {
      const at = this.random(NODES);
      this.note(`connections of node ${at} to Redis are cut`);
      this.waits.struck();
      this.#nodes[at]?.back.cut();
      return;
    }
    const restart = dice === 8;
    const ms = 50 + this.random(900);
    return (this.#redisLane = this.#redisLane.then(() => this.#away(restart, ms)));
  }

  async #kill(at: number, downMs: number): Promise<void> {
    const node = this.#nodes[at];
    // One lives, so that there is somewhere to go.
    if (!node || this.#nodes.filter((other) => other !== undefined).length === 1) return;
    this.note(`node ${at} is killed`);
    this.#nodes[at] = undefined;
    this.waits.struck();
    this.#ending.push(node.kill());
    await pause(downMs);
    await this.#start(at);
    this.note(`node ${at} is back`);
  }

  /** From clients, from Redis, or from both, as one that is paused or whose network is. */
  async #cutOff(at: number): Promise<void> {
    const node = this.#nodes[at];
    if (!node) return;
    const { front, back } = node;
    const links = [[front], [back], [front, back]][this.random(3)]!;
    const ms = this.random(2) === 0 ? this.random(600) : DEAD_AFTER_MS + this.random(800);
    this.note(
      `node ${at} is cut off from ${links.map((link) => (link === front ? 'clients' : 'Redis')).join(' and ')} for ${ms} ms`,
    );
    const over = this.waits.fault();
    for (const link of links) link.hold();
    await pause(ms);
    for (const link of links) link.release();
    over();
    this.note(`node ${at} is connected again`);
  }

  async #away(restart: boolean, ms: number): Promise<void> {
    this.note(`Redis is ${restart ? 'killed' : 'paused'} for ${ms} ms`);
    const over = this.waits.fault();
    if (restart) await this.#redis.kill();
    else this.#redis.pause();
    await pause(ms);
    if (restart) {
      this.skips = true;
      await this.#redis.start();
    } else this.#redis.resume();
    over();
    this.note('Redis is back');
  }

  #heard(client: WorldClient, data: number): boolean {
    return client.announced.includes(data) || (this.loses && client.missed);
  }

  /** When all calls have ended. */
  async #check(): Promise<void> {
    const heard = (client: WorldClient): boolean =>
      (this.#announcements.get(client.name) ?? []).every((data) => this.#heard(client, data));
    while (!this.#clients.every(heard)) await pause(20);
    for (const { name, announced } of this.#clients) {
      if (new Set(announced).size !== announced.length) this.wrong(`${name} heard twice: ${announced.join()}`);
    }
    for (const client of this.#clients) {
      const status = await client.end();
      if (status !== 204) this.wrong(`${client.name}: DELETE was answered ${status}`);
    }
  }

  async #end(): Promise<void> {
    this.#over = true;
    this.#chaos = false;
    this.waits.close();
    for (const client of this.#clients) client.leave();
    await Promise.all(this.#nodes.flatMap((node) => (node ? [node.close()] : [])));
    await Promise.all(this.#ending);
    await (this.#pair ?? this.#redis)?.stop();
  }
}
