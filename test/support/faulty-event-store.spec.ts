import { describe, expect, it } from 'vitest';
import {
  McpEventLogFullError,
  McpSessionGoneError,
  type McpAppendOptions,
  type McpSharedEventStore,
} from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import {
  type EventStoreCall,
  EventStoreFault,
  type EventStoreFaults,
  FaultyEventStore,
  randomFaults,
} from './faulty-event-store.js';
import { seededRandom } from './share.js';

/** As much of a store as these tests need: one session `s`, one writer a stream, one event an append. */
class SmallStore implements Pick<McpSharedEventStore, 'append' | 'read' | 'unfinished' | 'stats'> {
  readonly logs = new Map<string, string[]>();

  async append(_session: string, stream: string, [event]: readonly string[], { seq }: McpAppendOptions) {
    const log = this.logs.get(stream) ?? [];
    log[seq - 1] = event!;
    this.logs.set(stream, log);
    return { first: seq };
  }

  async read(session: string): Promise<never> {
    throw new McpSessionGoneError(session);
  }

  async unfinished() {
    return [];
  }

  async stats() {
    return { sessions: 1, streams: this.logs.size, events: 0, bytes: 0 };
  }
}

function setup(faults: EventStoreFaults) {
  const clock = new ManualClock();
  const inner = new SmallStore();
  const store = new FaultyEventStore(inner as unknown as McpSharedEventStore, clock, faults);
  const append = (seq: number, stream = '0') => store.append('s', stream, [`${seq}`], { writer: 'w', seq });
  const logged = () => inner.logs.get('0') ?? [];
  return { clock, store, append, logged };
}

describe('FaultyEventStore', () => {
  it('FaultyEventStore fails before the effect, for so many attempts of one call', async () => {
    const { append, logged } = setup({ failBefore: ({ attempt }) => attempt < 3 });
    await expect(append(1)).rejects.toMatchObject({ code: 'EVENT_STORE_FAULT', effect: 'not carried out' });
    await expect(append(1)).rejects.toThrow(EventStoreFault);
    expect(logged()).toEqual([]);
    expect(await append(1)).toEqual({ first: 1 });
    await expect(append(2)).rejects.toThrow(EventStoreFault);
    expect(logged()).toEqual(['1']);
  });

  it('FaultyEventStore fails after the effect: the outcome is unknown, and a repeat is safe', async () => {
    const { append, logged } = setup({ failAfter: ({ attempt }) => attempt === 1 });
    await expect(append(1)).rejects.toMatchObject({ effect: 'carried out' });
    expect(logged()).toEqual(['1']);
    expect(await append(1)).toEqual({ first: 1 });
    expect(logged()).toEqual(['1']);
  });

  it('FaultyEventStore delays before the effect, and before the answer', async () => {
    const { clock, append, logged } = setup({ delay: () => 10, delayAnswer: () => 20 });
    let answered = false;
    const appending = append(1).then(() => (answered = true));
    await clock.advance(9);
    expect(logged()).toEqual([]);
    await clock.advance(1);
    expect([logged(), answered]).toEqual([['1'], false]);
    await clock.advance(20);
    expect(answered).toBe(true);
    await appending;
    expect(clock.pending).toBe(0);
  });

  it('FaultyEventStore refuses for good, on the streams that are chosen, and lets go when it is told to', async () => {
    const refuse = ({ stream }: EventStoreCall) =>
      stream === 'bad' ? new McpEventLogFullError('bad', 'eventLog.maxEvents') : undefined;
    const { store, append } = setup({ refuse });
    await expect(append(1, 'bad')).rejects.toThrow(McpEventLogFullError);
    await expect(append(1, 'good')).resolves.toEqual({ first: 1 });
    store.faults = {};
    await expect(append(1, 'bad')).resolves.toEqual({ first: 1 });
  });

  it('FaultyEventStore passes on what the other store refuses, and tells each call by its kind', async () => {
    const calls: EventStoreCall[] = [];
    const { store } = setup({ failBefore: (call) => calls.push(call) < 0 });
    await expect(store.read('unknown', '0', 0, 1)).rejects.toThrow(McpSessionGoneError);
    await expect(store.read('unknown', '0', 0, 1)).rejects.toThrow(McpSessionGoneError);
    await store.unfinished('n');
    await store.stats();
    expect(calls).toEqual([
      { method: 'read', session: 'unknown', stream: '0', attempt: 1 },
      { method: 'read', session: 'unknown', stream: '0', attempt: 1 },
      { method: 'unfinished', attempt: 1 },
      { method: 'stats', attempt: 1 },
    ]);
  });

  it('a random schedule is the same for the same seed, and comes to an end', async () => {
    const outcomes = async (seed: number) => {
      const { store } = setup({ ...randomFaults({ seed, failBefore: 0.5, failAfter: 0.5 }) });
      const seen: string[] = [];
      for (let seq = 1; seq <= 50; seq++) {
        for (let done = false; !done;) {
          const append = store.append('s', '0', ['1'], { writer: 'w', seq });
          done = await append.then(
            ({ first }) => seen.push(String(first)) > 0,
            (fault: EventStoreFault) => seen.push(fault.effect) < 0,
          );
        }
      }
      return seen;
    };
    const [one, again, other] = [await outcomes(1), await outcomes(1), await outcomes(2)];
    expect(again).toEqual(one);
    expect(other).not.toEqual(one);
    expect(one.filter((outcome) => /^\d+$/.test(outcome))).toEqual(Array.from({ length: 50 }, (_, n) => `${n + 1}`));
  });
});

describe('seededRandom', () => {
  it('seededRandom is even, and the same for the same seed', () => {
    const [one, again] = [seededRandom(3), seededRandom(3)];
    const numbers = Array.from({ length: 10_000 }, one);
    expect(Array.from({ length: 10_000 }, again)).toEqual(numbers);
    expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...numbers)).toBeLessThan(1);
    expect(numbers.reduce((sum, number) => sum + number, 0) / 10_000).toBeCloseTo(0.5, 1);
  });
});
