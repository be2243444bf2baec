import assert from 'node:assert/strict';
import { Subject, Subscription } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../testing/index.js';
import {
  EventStoreFault,
  FaultyEventStore,
  randomFaults,
  type EventStoreCall,
  type EventStoreFaults,
} from '../../../test/support/faulty-event-store.js';
import { share, seededRandom } from '../../../test/support/share.js';
import { EventsEvictedError, McpEventStoreError } from './event-store.errors.js';
import type { McpAppendResult, McpEventStore, McpSharedEventStore, McpStoredEvent } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { McpStream } from './mcp-stream.js';
import { NO_DATA, StreamReader } from './stream-reader.js';
import type { StreamEntry } from './stream-writer.js';

/**
 * # The scheme of the streams, under random schedules
 *
 * Each seed is a world: one stream over one log, slow and failing or in memory, written and read by one or two nodes, whose
 * signals get lost, doubled, late and out of order; readers come, go, pause, and interfere from within; the log evicts, fails for
 * good, or is dropped. Then everything is let come to rest, and what must hold is checked (see `Verdict` below).
 *
 * A failure names its seed: `FUZZ_SEED=<seed> FUZZ_RUNS=1 npx vitest run src/core/log/stream-scheme.fuzz.spec.ts`
 */
const SEED = Number(process.env['FUZZ_SEED'] ?? 1);
const RUNS = share(3_000, process.env['FUZZ_RUNS']);

const SESSION = 's';
const BOOKKEEPING: ReadonlySet<string> = new Set(['claim', 'release']);
const RETRY = { firstDelayMs: 5, maxDelayMs: 40, giveUpAfterMs: 400 };
/** Longer than all delays and retries of a schedule together. */
const A_LONG_TIME = 100_000;
const LONGEST_WAY_MS = 300;

/** One node's view of the stream; replaced when it has failed, as a session would. */
interface Node {
  readonly name: string;
  stream: McpStream;
  failed: boolean;
  closed: boolean;
}

interface Written {
  /** Which object wrote it: order is per writer. */
  readonly writer: McpStream;
  readonly data: string | undefined;
  /** Its writer was not told whether it was logged. */
  readonly eager: boolean;
  outcome: 'pending' | 'logged' | 'rejected';
  error?: unknown;
}

interface Reading {
  readonly node: Node;
  readonly order: number;
  readonly after: number;
  readonly got: McpStoredEvent[];
  /** So far the newer reader has come, it was told at its end. */
  told: number | undefined;
  readonly flow: { paused: boolean; resumed$: Subject<void> };
  readonly subscription: Subscription;
  /** Something other than the end of the stream ended it: it may lack events. */
  dismissed: boolean;
  end: 'open' | 'complete' | 'left' | 'failed';
  error?: unknown;
}

class World {
  readonly trace: string[] = [];
  readonly clock = new ManualClock();
  readonly nodes: Node[] = [];
  readonly readings: Reading[] = [];
  readonly written: Written[] = [];
  /** Everything that was ever logged, by index from 1. */
  readonly truth: string[] = [];
  readonly isPost: boolean;
  readonly streamId: string;
  /** The log is always told of who comes and goes, though perhaps late. */
  readonly bookkept: boolean;
  readonly log: InMemoryEventStore;
  /** Of claims that were refused. */
  readonly refused: unknown[] = [];
  /** As many at once. */
  readonly burst: number;
  ended = false;
  dropped = false;
  /** A passing fault may be final: the log was away for long, or nobody waits for it any more. */
  faulty = false;
  /** Events that the log took by `appendNow`. */
  atOnce = 0;
  /** What was found wrong on the way. */
  contradiction: string | undefined;
  readonly #random: () => number;
  readonly #faulty: FaultyEventStore;
  readonly #store: McpEventStore;
  /** Also those that were replaced. */
  readonly #streams: McpStream[] = [];
  readonly #tampering: number;
  readonly #maxQueuedBytes: number;
  /** What is left of the schedule comes to rest: nobody interferes any more. */
  #calm = false;
  #outage = false;
  #labels = 0;
  /** Writes that subscribers may still do: an echo of echoes would not end. */
  #echoes = 6;

  constructor(readonly seed: number) {
    this.#random = seededRandom(seed);
    this.isPost = this.chance(0.5);
    this.streamId = this.isPost ? 'stream-of-a-post' : '0';
    this.bookkept = this.chance(0.5);
    this.#tampering = this.pick(0, 0, 0.1, 0.4);
    this.#maxQueuedBytes = this.pick(60, 1_000_000, 1_000_000);
    const names = this.pick(['a'], ['a', 'b']);
    const evicts = this.chance(0.5);
    this.burst = evicts ? 80 : 6;
    // The log's own time stands still: what it forgets later is another matter.
    const scope = names.length > 1 ? 'shared' : 'node';
    this.log = new InMemoryEventStore({ maxEvents: evicts ? 100 : 1_000 }, new ManualClock(), scope);
    const recorded = this.#recorded();
    this.#faulty = new FaultyEventStore(recorded, this.clock, this.#faults());
    // In memory an append answers at once.
    this.#store = this.chance(0.2) ? recorded : this.#faulty;
    for (const name of names) this.nodes.push(this.#node(name));
  }

  int(below: number): number {
    return Math.floor(this.#random() * below);
  }
  chance(likelihood: number): boolean {
    return this.#random() < likelihood;
  }
  pick<T>(...from: readonly T[]): T {
    return from[this.int(from.length)]!;
  }

  async run(): Promise<void> {
    await this.log.open(SESSION);
    const [first] = this.nodes as [Node];
    if (this.isPost) {
      this.write(first, {});
      if (this.chance(0.7)) this.attach(first, first.stream, 0);
    }
    const steps = this.#someSteps();
    for (let count = 5 + this.int(30); count > 0; count--) {
      const [name, step] = this.pick(...steps);
      this.trace.push(name);
      step(this, this.pick(...this.nodes));
      if (this.chance(0.6)) await this.clock.advance(this.pick(0, 1, 5, 30));
    }
    if (this.isPost && this.chance(0.8)) this.write(first, { end: true });
    if (this.chance(0.2)) await this.#closeInTheMiddle();
    else await this.#comeToRest();
  }

  write(node: Node, entry: StreamEntry): void {
    // A POST's stream is written by the node that runs its requests.
    const { stream } = this.isPost ? this.nodes[0]! : node;
    const eager = entry.data !== undefined && entry.settles === undefined && !entry.end && this.chance(0.3);
    const written: Written = { writer: stream, data: entry.data, eager, outcome: 'pending' };
    this.written.push(written);
    stream.write({ ...entry, eager }).then(
      () => (written.outcome = 'logged'),
      (error: unknown) => Object.assign(written, { outcome: 'rejected', error }),
    );
  }

  message(): string {
    return `"${++this.#labels}"`;
  }

  /** As a GET does. Not waited for: meanwhile things happen. @param after absent: from what was not handed out yet */
  get(node: Node, after?: number): void {
    const { stream } = node;
    stream.head().then(
      ({ delivered, last }) => this.attach(node, stream, Math.min(after ?? delivered, last), last),
      (error: unknown) => this.refused.push(error),
    );
  }

  attach(node: Node, stream: McpStream, after: number, last?: number): void {
    const reading: Reading = {
      node,
      order: this.readings.length,
      after,
      got: [],
      told: undefined,
      dismissed: node.closed,
      end: 'open',
      flow: { paused: !this.#calm && this.chance(0.1), resumed$: new Subject() },
      subscription: new Subscription(),
    };
    this.readings.push(reading);
    const quirk = this.chance(0.4) ? this.pick(...QUIRKS) : undefined;
    const events = stream.subscribe(
      {
        next: (event) => {
          if (event.data === NO_DATA) return void (reading.told = event.index);
          if (!this.isNewest(reading)) this.contradiction = `event ${event.index} went to an older reader`;
          reading.got.push(event);
          if (quirk && !this.#calm && this.chance(0.4)) quirk(this, reading);
        },
        error: (error: unknown) => Object.assign(reading, { end: 'failed', error }),
        complete: () => (reading.end = 'complete'),
      },
      after,
      reading.flow,
      last,
    );
    reading.subscription.add(events);
  }

  leave(reading: Reading): void {
    if (reading.end === 'open') reading.end = 'left';
    reading.subscription.unsubscribe();
  }

  echo(node: Node): void {
    if (this.#echoes-- > 0) this.write(node, { data: this.message() });
  }

  open(): Reading[] {
    return this.readings.filter(({ end }) => end === 'open');
  }

  /** Where a reader may begin: anywhere up to the last event, often near to it. */
  cursor(): number {
    const last = this.truth.length;
    return this.pick(last, Math.max(0, last - this.int(4)), this.int(last + 1));
  }

  disconnect(node: Node): void {
    this.#dismiss(node);
    node.stream.disconnectReaders();
  }

  close(node: Node): void {
    this.#dismiss(node);
    node.closed = true;
    this.faulty = true;
    node.stream.end();
  }

  drop(): void {
    this.dropped = true;
    this.ended = true;
    void this.log.drop(SESSION);
  }

  outage(): void {
    this.#outage = !this.#outage;
    this.faulty = true;
  }

  /** What becomes of a signal on its way to a reader. */
  tamper(deliver: () => void): void {
    const fate = this.#calm ? 1 : this.#random() / this.#tampering;
    if (fate > 1) return deliver();
    if (fate < 0.3) return;
    if (fate < 0.6) deliver();
    this.clock.setTimeout(deliver, this.int(40));
  }

  replace(node: Node): void {
    if (!node.failed || node.closed || this.#openOn(node).length > 0) return;
    node.failed = false;
    node.stream = this.#stream(node);
  }

  isNewest({ node, order }: Reading): boolean {
    return !this.#openOn(node).some((other) => other.order > order);
  }

  #openOn(node: Node): Reading[] {
    return this.open().filter((reading) => reading.node === node);
  }

  /** Not everything in every world: much would hide what little shows. */
  #someSteps(): (readonly [name: string, step: Step])[] {
    return Object.entries(STEPS)
      .filter(([name]) => name === 'write' || name === 'get' || this.chance(0.5))
      .flatMap(([name, [likelihood, step]]) => Array.from({ length: likelihood }, () => [name, step] as const));
  }

  /** Its readers are about to end, whatever they have got. */
  #dismiss(node: Node): void {
    for (const reading of this.#openOn(node)) reading.dismissed = true;
  }

  #node(name: string): Node {
    const node = { name, failed: false, closed: false } as unknown as Node;
    node.stream = this.#stream(node);
    return node;
  }

  #stream(node: Node): McpStream {
    const ignore = (): void => {};
    const failed = (): void => {
      node.failed = true;
      this.faulty = true;
    };
    const observer = {
      attached: ignore,
      detached: ignore,
      replacedHere: ignore,
      evicted: ignore,
      idle: ignore,
      fault: ignore,
      failed,
    };
    const of = (name: string) => this.nodes.find((other) => other.name === name)!.stream;
    const nodes = {
      appended: (_: string, __: string, to: { node: string }) => this.tamper(() => of(to.node).look()),
      replaced: (_: string, __: string, to: { node: string; reader: string }, upTo?: number) =>
        this.tamper(() => of(to.node).replaced(to.reader, upTo)),
    };
    const environment = {
      store: this.#store,
      clock: this.clock,
      nodeId: node.name,
      nodes,
      retry: RETRY,
      maxQueuedBytes: this.#maxQueuedBytes,
      comeBackMs: 10_000,
    };
    const begins = this.isPost && this.nodes.length === 0;
    const stream = new McpStream(this.streamId, SESSION, environment, observer, begins ? [1] : undefined);
    this.#streams.push(stream);
    return stream;
  }

  /** @returns the log, which notes what it is given; a repeated append must be the same append */
  #recorded(): McpSharedEventStore {
    const { log } = this;
    const note = (first: number, events: readonly string[]): void => {
      for (const [position, data] of events.entries()) {
        const at = first + position - 1;
        const known = (this.truth[at] ??= data);
        if (known !== data) this.contradiction = `${data} was acknowledged as event ${at + 1}, which is ${known}`;
      }
    };
    return {
      scope: log.scope as 'shared',
      open: (session) => log.open(session),
      append: (session, stream, events, options) => {
        const result = log.append(session, stream, events, options) as McpAppendResult;
        this.ended ||= options.end ?? false;
        note(result.first, events);
        return result;
      },
      appendNow: (session, stream, event, writer, seq, newest) => {
        const index = log.appendNow(session, stream, event, writer, seq, newest);
        if (index > 0) note(index, [event]);
        this.atOnce += Math.sign(index);
        return index;
      },
      read: (...args) => log.read(...args),
      claim: (...args) => log.claim(...args),
      release: (...args) => log.release(...args),
      unfinished: (node) => log.unfinished(node),
      drop: (...args) => log.drop(...args),
    };
  }

  #faults(): EventStoreFaults {
    const chances = { failBefore: this.pick(0, 0, 0.3), failAfter: this.pick(0, 0, 0.3) };
    const maxDelayMs = this.pick(0, 0, 3, 30);
    const { delay, ...random } = randomFaults({ seed: this.seed, maxDelayMs, ...chances, succeedFromAttempt: 5 });
    const spared = ({ method }: EventStoreCall) => this.bookkept && BOOKKEEPING.has(method);
    const failBefore = (call: EventStoreCall) => !spared(call) && (this.#outage || random.failBefore!(call));
    const failAfter = (call: EventStoreCall) => !spared(call) && random.failAfter!(call);
    return { delay: delay!, delayAnswer: delay!, failBefore, failAfter };
  }

  /** As a session ends: whatever is under way, and whether or not the log works. */
  async #closeInTheMiddle(): Promise<void> {
    this.#calm = true;
    this.faulty = true;
    for (const node of this.nodes) this.close(node);
    for (const stream of this.#streams) stream.end();
    // What the log and the network still have on their way; nobody tries anything again.
    await this.clock.advance(LONGEST_WAY_MS);
  }

  async #comeToRest(): Promise<void> {
    this.#calm = true;
    this.#outage = false;
    this.#faulty.faults = {};
    for (const { flow } of this.open()) {
      flow.paused = false;
      flow.resumed$.next();
    }
    await this.clock.advance(A_LONG_TIME);
    for (const { stream } of this.nodes) stream.look();
    // Keep-alive ticks: signals were lost, and silent readers end.
    for (let tick = 0; tick < 3; tick++) {
      for (const { stream } of this.nodes) stream.refresh();
      await this.clock.advance(A_LONG_TIME);
    }
  }
}

type Step = (world: World, node: Node) => unknown;

/** What may happen next, and how likely each is. */
const STEPS: Readonly<Record<string, readonly [likelihood: number, step: Step]>> = {
  write: [5, (world, node) => world.write(node, { data: world.message() })],
  burst: [
    2,
    (world, node) => {
      for (let n = world.int(world.burst); n >= 0; n--) world.write(node, { data: world.message() });
    },
  ],
  answer: [1, (world, node) => world.write(node, { data: world.message(), settles: world.int(3) })],
  get: [4, (world, node) => world.get(node, world.cursor())],
  getWithoutCursor: [1, (world, node) => world.get(node)],
  leave: [2, (world) => world.open().length > 0 && world.leave(world.pick(...world.open()))],
  pauseOrResume: [
    3,
    (world) => {
      for (const { flow } of world.open().slice(world.int(3))) {
        flow.paused = !flow.paused;
        if (!flow.paused) flow.resumed$.next();
      }
    },
  ],
  poke: [3, (_, { stream }) => stream.look()],
  tick: [2, (_, { stream }) => stream.refresh()],
  disconnect: [1, (world, node) => world.disconnect(node)],
  replaceFailed: [1, (world, node) => world.replace(node)],
  outage: [1, (world) => world.outage()],
  end: [
    1,
    (world, node) => world.isPost && world.chance(0.3) && world.write(node, { data: world.message(), end: true }),
  ],
  drop: [1, (world) => world.chance(0.1) && world.drop()],
  close: [1, (world, node) => world.chance(0.1) && world.close(node)],
};

/** What a subscriber may do in the middle of being handed an event. */
const QUIRKS: readonly ((world: World, reading: Reading) => void)[] = [
  (world, { node }) => world.echo(node),
  (world, reading) => world.leave(reading),
  (_, { flow }) => void (flow.paused = true),
  (_, { flow }) => void (flow.paused = true),
  (_, { node }) => node.stream.look(),
  (world, { node, got }) => world.get(node, got.at(-1)!.index),
  (world, { node }) => world.disconnect(node),
];

/** What must hold when everything has come to rest. */
class Verdict {
  constructor(private readonly world: World) {}

  async give(): Promise<void> {
    const { world } = this;
    assert.equal(world.contradiction, undefined);
    this.#nothingHangs();
    this.#logIsWhatWasAcknowledged();
    for (const reading of world.readings) await this.#readerGotItsEvents(reading);
    await this.#logKnowsWhoReads();
    await this.#closesCleanly();
  }

  #nothingHangs(): void {
    assert.equal(this.world.clock.pending, 0, 'timers are left');
    for (const { outcome, error, data } of this.world.written) {
      assert.notEqual(outcome, 'pending', `${data} hangs`);
      if (outcome === 'rejected') this.#assertTyped(error);
    }
  }

  /** What was acknowledged is logged, once, in the order of writing; so is of the rest what is logged at all. */
  #logIsWhatWasAcknowledged(): void {
    const { truth, written } = this.world;
    const indexOf = new Map(truth.map((data, position) => [data, position + 1]));
    assert.equal(indexOf.size, truth.length, 'something is logged twice');
    const latest = new Map<McpStream, number>();
    for (const { writer, data, eager, outcome } of written) {
      if (data === undefined) continue;
      const index = indexOf.get(data);
      if (index === undefined) {
        assert.ok(eager || outcome !== 'logged', `${data} was acknowledged and is not logged`);
        continue;
      }
      assert.ok(index > (latest.get(writer) ?? 0), `${data} was logged before what was written before it`);
      latest.set(writer, index);
    }
  }

  /** One after the other from its cursor, but for what was evicted before the first. */
  async #readerGotItsEvents(reading: Reading): Promise<void> {
    const { after, got, told, end, node, dismissed, order } = reading;
    const { truth, ended, dropped, log, isPost } = this.world;
    const label = `reader ${order} on ${node.name}, from ${after}, ${end}`;
    let cursor = after;
    for (const { index, data } of got) {
      assert.ok(
        index === cursor + 1 || (cursor === after && index > cursor),
        `${label}: event ${index} after ${cursor}`,
      );
      assert.equal(data, truth[index - 1], label);
      cursor = index;
    }
    if (got.length > 0 && got[0]!.index > after + 1) assert.ok(truth.length > 100, `${label}: lost its first event`);
    if (end === 'failed') return this.#failedForAReason(reading, cursor);
    if (end === 'left' || (end === 'complete' && dismissed)) return;
    // Replaced: by another, by a claim whose answer was lost, or by a node that ends all.
    if (told !== undefined) {
      const furthest = isPost ? cursor : truth.length;
      assert.ok(told >= cursor && told <= furthest, `${label}: was told ${told}, and had ${cursor}`);
      return;
    }
    assert.equal(end, ended ? 'complete' : 'open', label);
    if (dropped && log.scope === 'node') return;
    assert.equal(cursor, truth.length, `${label}: lacks events`);
  }

  async #failedForAReason({ error }: Reading, cursor: number): Promise<void> {
    this.#assertTyped(error);
    if (error instanceof EventsEvictedError) {
      assert.ok(
        error.after === cursor && error.oldest > cursor + 1,
        `failed at ${error.after}, but had come to ${cursor}`,
      );
    }
  }

  #assertTyped(error: unknown): void {
    const fault = faultOf(error);
    if (fault instanceof EventStoreFault) assert.ok(this.world.faulty, 'a passing fault is final');
    else assert.ok(fault instanceof McpEventStoreError, String(error));
  }

  /** One response is open at most, of all nodes, and no reader that has gone is the newest for ever. */
  async #logKnowsWhoReads(): Promise<void> {
    const { log, streamId, bookkept, dropped } = this.world;
    const open = this.world.open();
    assert.ok(open.length <= 1, `${open.length} readers are open`);
    if (!bookkept || dropped) return;
    const look = async () => log.read(SESSION, streamId, 0, 0);
    const { reader } = await look().catch(() => ({ reader: undefined }));
    // A log of one node is asked when it is written to next.
    if (!reader && log.scope === 'node') return;
    assert.deepEqual(reader?.node, open[0]?.node.name, 'the log believes in another reader');
  }

  async #closesCleanly(): Promise<void> {
    for (const { stream } of this.world.nodes) stream.end();
    // What nodes tell each other then is on its way.
    await this.world.clock.advance(LONGEST_WAY_MS);
    assert.deepEqual(this.world.open(), [], 'readers of closed streams');
    assert.equal(this.world.clock.pending, 0, 'timers of closed streams');
  }
}

/** Writers and streams that are given up name the fault of the store as the cause. */
function faultOf(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? faultOf(error.cause) : error;
}

describe('the stream scheme', () => {
  const { next } = StreamReader.prototype;
  let world: World;

  beforeEach(() => {
    StreamReader.prototype.next = function (this: StreamReader, signal) {
      world.tamper(() => next.call(this, signal));
    };
  });
  afterEach(() => {
    StreamReader.prototype.next = next;
  });

  it(
    `the stream scheme keeps its promises under ${RUNS} random schedules`,
    { timeout: 120_000 + RUNS * 200 },
    async () => {
      const ends = new Set<string>();
      let atOnce = 0;
      for (let seed = SEED; seed < SEED + RUNS; seed++) {
        world = new World(seed);
        try {
          await world.run();
          await new Verdict(world).give();
        } catch (cause) {
          const message = `FUZZ_SEED=${seed} FUZZ_RUNS=1: ${(cause as Error).message}\n${world.trace.join(' ')}`;
          throw new Error(message, { cause });
        }
        atOnce += world.atOnce;
        for (const { end, error } of world.readings) ends.add(error instanceof Error ? error.name : end);
        for (const error of world.refused) ends.add((error as Error).name);
        for (const { outcome, error } of world.written) ends.add(error instanceof Error ? error.name : outcome);
      }
      // That nothing went wrong says something only if everything was tried.
      if (RUNS < 1_000) return;
      expect(atOnce).toBeGreaterThan(RUNS / 2);
      const tried = ['left', 'complete', 'logged', 'EventStoreFault', 'McpSessionGoneError', 'McpStreamOverflowError'];
      const more = ['EventsEvictedError', 'McpStreamEndedError', 'McpStreamNotFoundError'];
      const givenUp = ['McpServerRequestError', 'StreamGivenUpError'];
      expect([...ends].toSorted()).toEqual([...tried, ...more, ...givenUp].toSorted());
    },
  );
});
