import { type Observer, Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { Retry } from '../common/retry.js';
import { ManualClock } from '../../testing/index.js';
import { EventStoreFault, FaultyEventStore, type EventStoreFaults } from '../../../test/support/faulty-event-store.js';
import {
  EventsEvictedError,
  McpEventStoreError,
  McpSessionGoneError,
  McpStreamNotFoundError,
} from './event-store.errors.js';
import type { McpStoredEvent } from './event-store.js';
import { InMemoryEventStore } from './in-memory-event-store.js';
import { NO_DATA, type ReadableLog, StreamReader } from './stream-reader.js';
import type { StreamSignal } from './stream-writer.js';

const POLICY = { firstDelayMs: 10, maxDelayMs: 40, giveUpAfterMs: 100 };
const POKE: StreamSignal = { first: 0, events: [], ended: false };

interface Listening {
  reader: StreamReader;
  /** Indices of what was handed out. */
  got: number[];
  events: McpStoredEvent[];
  end: unknown;
  leave(): void;
}

async function setup(faults: EventStoreFaults = {}, maxEvents = 1_000, id = 'stream') {
  const clock = new ManualClock();
  const log = new InMemoryEventStore({ maxEvents }, new ManualClock());
  await log.open('s');
  const store = new FaultyEventStore(log, clock, faults);
  const reads = vi.spyOn(log, 'read');
  const retry = new Retry(POLICY, clock, (error) => error instanceof McpEventStoreError);
  const resumed$ = new Subject<void>();
  const flow = { paused: false, resumed$ };
  const evicted: number[][] = [];
  let seq = 0;
  let last = 0;

  /** Logs so many events. @returns the signal of it, for the reader to hear or not */
  const write = async (count = 1, end = false): Promise<StreamSignal> => {
    const events = Array.from({ length: count }, () => `${++last}`);
    const { first } = await log.append('s', id, events, { writer: 'w', seq: ++seq, end });
    return { first, events, ended: end };
  };

  /** A reader, with what its subscriber does at each event. */
  const listen = (after = 0, onEvent: (event: McpStoredEvent, at: Listening) => void = () => {}): Listening => {
    const listening = { got: [], events: [], end: undefined } as unknown as Listening;
    const target: ReadableLog = {
      id,
      retry,
      evicted: (...of) => evicted.push(of),
      left: () => {},
      caughtUp: () => {},
      read: (cursor, limit) => store.read('s', id, cursor, limit, cursor),
    };
    const observer: Observer<McpStoredEvent> = {
      next: (event) => {
        listening.events.push(event);
        if (event.data === NO_DATA) return;
        expect(event.data).toBe(`${event.index}`);
        listening.got.push(event.index);
        onEvent(event, listening);
      },
      error: (error: unknown) => (listening.end = error),
      complete: () => (listening.end = 'complete'),
    };
    const reader = (listening.reader = new StreamReader(target, flow, observer, { after }));
    listening.leave = () => reader.unsubscribe();
    return listening;
  };
  /** Has caught up with the log, and reads it no more. */
  const caughtUp = async (after = 0, onEvent?: Parameters<typeof listen>[1]): Promise<Listening> => {
    const listening = listen(after, onEvent);
    listening.reader.wake();
    await clock.advance(1_000);
    reads.mockClear();
    return listening;
  };
  const resume = (): void => {
    flow.paused = false;
    resumed$.next();
  };
  return { clock, log, store, reads, retry, flow, resumed$, write, listen, caughtUp, resume, evicted };
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, n) => first + n);

describe('a reader that has caught up', () => {
  it('a reader that has caught up delivers the next event from its signal, without a read of the log', async () => {
    const { write, caughtUp, reads } = await setup();
    await write();
    const { reader, got } = await caughtUp();
    reader.next(await write(1));
    reader.next(await write(3));
    expect(got).toEqual([1, 2, 3, 4, 5]);
    expect(reader.cursor).toBe(5);
    expect(reads).not.toHaveBeenCalled();
  });

  it('a reader that has caught up completes at the signal of the end', async () => {
    const { write, caughtUp, reads } = await setup();
    await write();
    const listening = await caughtUp();
    listening.reader.next(await write(1, true));
    expect([listening.got, listening.end]).toEqual([[1, 2], 'complete']);
    expect(reads).not.toHaveBeenCalled();
  });

  it('a reader that has caught up completes at an end that brings no event', async () => {
    const { write, caughtUp } = await setup();
    await write();
    const listening = await caughtUp();
    listening.reader.next(await write(0, true));
    expect([listening.got, listening.end]).toEqual([[1], 'complete']);
  });
});

describe('a reader that is behind', () => {
  it('a reader that is behind reads the log page by page, up to the end', async () => {
    const { write, caughtUp } = await setup();
    await write(300, true);
    const listening = await caughtUp(100);
    expect([listening.got, listening.end]).toEqual([upTo(300, 101), 'complete']);
  });

  it.each([
    ['a gap', (signals: StreamSignal[]) => [signals[1]!]],
    ['an empty signal', () => [POKE]],
    ['signals in the wrong order', (signals: StreamSignal[]) => signals.toReversed()],
    ['signals that come twice', (signals: StreamSignal[]) => [...signals, ...signals]],
    ['a late one only', ([first]: StreamSignal[]) => [POKE, first!]],
  ])('a reader that is behind reads the log after %s', async (_, heard) => {
    const { clock, write, caughtUp } = await setup();
    await write(2);
    const { reader, got } = await caughtUp();
    for (const signal of heard([await write(2), await write(3)])) reader.next(signal);
    await clock.advance(1_000);
    expect(got).toEqual(upTo(7));
  });

  it('a reader that is behind loses no event that is signalled while it reads, and reads again only when it must', async () => {
    const { clock, write, caughtUp, reads } = await setup({
      delayAnswer: ({ method }) => (method === 'read' ? 10 : 0),
    });
    await write();
    const { reader, got } = await caughtUp();
    reader.next(POKE);
    await clock.advance(5);
    reader.next(await write());
    reader.next(await write());
    await clock.advance(1_000);
    expect(got).toEqual([1, 2, 3]);
    expect(reads).toHaveBeenCalledTimes(2);
  });

  it('a reader that is behind does not complete for an end that it read before it had everything', async () => {
    const { clock, write, caughtUp } = await setup({ delay: ({ method }) => (method === 'read' ? 10 : 0) });
    await write();
    const listening = await caughtUp();
    listening.reader.next(POKE);
    await clock.advance(1);
    listening.reader.next(await write(100, true));
    await clock.advance(1_000);
    expect([listening.got, listening.end]).toEqual([upTo(101), 'complete']);
  });

  it('a reader that is behind retries a failing read, and goes on', async () => {
    const { clock, write, listen } = await setup({ failBefore: ({ attempt }) => attempt < 3 });
    await write(3, true);
    const listening = listen();
    listening.reader.wake();
    await clock.advance(1_000);
    expect([listening.got, listening.end]).toEqual([[1, 2, 3], 'complete']);
    expect(clock.pending).toBe(0);
  });

  it('a reader that is behind fails when the log fails for too long', async () => {
    const { clock, write, listen } = await setup({ failBefore: () => true });
    await write(3, true);
    const listening = listen();
    listening.reader.wake();
    await clock.advance(1_000);
    expect([listening.got, listening.end]).toEqual([[], expect.any(EventStoreFault)]);
    expect(clock.pending).toBe(0);
  });

  it('a reader that is behind fails with the refusal of the log, after the events that it could deliver', async () => {
    const { clock, log, write, caughtUp, listen } = await setup();
    await expect(caughtUp()).resolves.toMatchObject({ end: expect.any(McpStreamNotFoundError) as unknown });
    await write(50);
    const listening = await caughtUp(40);
    await log.drop('s');
    listening.reader.next(POKE);
    await clock.advance(0);
    expect([listening.got, listening.end]).toEqual([upTo(50, 41), expect.any(McpSessionGoneError)]);
    expect(listen().end).toBeUndefined();
  });

  it('G6: a reader that is behind begins with the oldest event that is kept, and says what it passes over', async () => {
    const { write, caughtUp, evicted } = await setup({}, 100);
    await write(150);
    const listening = await caughtUp(10);
    expect([listening.got, listening.end]).toEqual([upTo(150, 51), undefined]);
    expect(evicted).toEqual([[10, 51]]);
  });

  it('P13: a reader that is behind fails when it was so slow that its next event was evicted', async () => {
    const { clock, write, caughtUp, flow, resume, evicted } = await setup({}, 100);
    await write(5);
    const listening = await caughtUp();
    flow.paused = true;
    listening.reader.next(await write(150));
    resume();
    await clock.advance(0);
    expect([listening.got, listening.end]).toEqual([upTo(5), expect.any(EventsEvictedError)]);
    expect(evicted).toEqual([]);
  });

  it('a reader that is behind acknowledges what it has handed out with each further read', async () => {
    const { clock, log, write, caughtUp } = await setup();
    await write(100);
    const { reader } = await caughtUp();
    expect((await log.read('s', 'stream', 0, 0)).delivered).toBe(64);
    reader.next(POKE);
    await clock.advance(0);
    expect((await log.read('s', 'stream', 0, 0)).delivered).toBe(100);
  });
});

describe('a reader whose caller waits until it has caught up', () => {
  it('a reader whose caller waits until it has caught up rests once it has delivered the events that it was behind with', async () => {
    const { clock, write, listen } = await setup({ delay: ({ method }) => (method === 'read' ? 10 : 0) });
    const listening = listen();
    await listening.reader.rested();
    await write(100, true);
    listening.reader.wake();
    const rested = listening.reader.rested().then(() => [...listening.got]);
    await clock.advance(1_000);
    expect(await rested).toEqual(upTo(100));
  });

  it.each([
    ['a log that fails', { failBefore: () => true }, false],
    ['a response that is full', {}, true],
  ])('a reader whose caller waits until it has caught up is not waited for after %s', async (_, faults, full) => {
    const { clock, write, listen, flow } = await setup(faults);
    await write(2);
    const { reader } = listen(0, () => (flow.paused = full));
    reader.wake();
    const rested = reader.rested();
    await clock.advance(1);
    await rested;
    await reader.rested();
    await clock.advance(1_000);
  });

  it('a reader whose caller waits until it has caught up rests after a signal that asked it to, too', async () => {
    const { write, caughtUp } = await setup();
    await write();
    const rested: Promise<void>[] = [];
    const { reader } = await caughtUp(0, (_, at) => void rested.push(at.reader.rested()));
    reader.next(await write(2, true));
    await Promise.all(rested);
    expect(rested).toHaveLength(3);
  });
});

describe('a full response', () => {
  it('a full response is given nothing, and nothing is read for it, until it flows again', async () => {
    const { clock, write, caughtUp, flow, reads, resume } = await setup();
    await write();
    const { reader, got } = await caughtUp();
    flow.paused = true;
    reader.next(await write(2));
    reader.next(POKE);
    await clock.advance(1_000);
    expect(got).toEqual([1]);
    expect(reads).not.toHaveBeenCalled();
    resume();
    await clock.advance(0);
    expect(got).toEqual([1, 2, 3]);
  });

  it('a full response has one drain listener from when it is full until its reader leaves', async () => {
    const { write, caughtUp, flow, resumed$ } = await setup();
    await write();
    const { reader, leave } = await caughtUp();
    expect(resumed$.observed).toBe(false);
    flow.paused = true;
    reader.next(await write());
    reader.next(await write());
    expect(resumed$.observers).toHaveLength(1);
    leave();
    expect(resumed$.observed).toBe(false);
  });

  it('a full response stops in the middle of a signal, and goes on there', async () => {
    const { clock, write, caughtUp, flow, resume } = await setup();
    await write();
    const { reader, got } = await caughtUp(0, ({ index }) => (flow.paused = index === 3));
    reader.next(await write(4));
    expect(got).toEqual([1, 2, 3]);
    resume();
    await clock.advance(0);
    expect(got).toEqual([1, 2, 3, 4, 5]);
  });

  it('a full response stops in the middle of a page, and goes on there', async () => {
    const { clock, write, listen, flow, resume } = await setup();
    await write(70, true);
    const listening = listen(0, ({ index }) => (flow.paused = index % 30 === 0));
    listening.reader.wake();
    for (const stop of [30, 60]) {
      await clock.advance(0);
      expect(listening.got).toEqual(upTo(stop));
      resume();
    }
    await clock.advance(0);
    expect([listening.got, listening.end]).toEqual([upTo(70), 'complete']);
  });

  it('a full response completes although it is full, if that was the last event', async () => {
    const { write, caughtUp, flow } = await setup();
    await write();
    const listening = await caughtUp(0, ({ index }) => (flow.paused = index === 2));
    listening.reader.next(await write(1, true));
    expect([listening.got, listening.end]).toEqual([[1, 2], 'complete']);
  });
});

describe('a reader that a newer one has replaced', () => {
  it('a reader that a newer one has replaced hands out nothing any more, not even of a page that it was reading', async () => {
    const { clock, write, listen } = await setup({ delayAnswer: () => 10 });
    await write(3);
    const older = listen();
    older.reader.wake();
    await clock.advance(5);
    older.reader.silence();
    await clock.advance(1_000);
    older.reader.next(await write());
    older.reader.wake();
    await clock.advance(1_000);
    expect([older.got, older.end]).toEqual([[], undefined]);
  });

  it('a reader that a newer one has replaced delivers nothing when the stream ends, and is given its position at its own end', async () => {
    const { clock, write, caughtUp } = await setup({}, 1_000, '0');
    await write(2);
    const older = await caughtUp();
    older.reader.silence();
    older.reader.next(await write(3, true));
    await clock.advance(1_000);
    expect([older.got, older.end]).toEqual([[1, 2], undefined]);
    older.reader.end(5);
    older.reader.end(6);
    expect([older.got, older.events.at(-1), older.end]).toEqual([[1, 2], { index: 5, data: NO_DATA }, 'complete']);
  });

  it('the reader of a call is given no position after the last event that it has delivered', async () => {
    const { write, caughtUp } = await setup();
    await write(2);
    const older = await caughtUp();
    older.reader.silence();
    await write(3, true);
    older.reader.end(5);
    expect([older.events.at(-1), older.end]).toEqual([{ index: 2, data: NO_DATA }, 'complete']);
  });

  it('a reader that a newer one has replaced is given no position before the last event that it has delivered', async () => {
    const { write, caughtUp } = await setup();
    await write(4);
    const older = await caughtUp();
    older.reader.silence();
    older.reader.end(2);
    expect(older.events.at(-1)).toEqual({ index: 4, data: NO_DATA });
  });
});

describe('a subscriber that interferes', () => {
  it('a subscriber that interferes may leave in the middle of a signal', async () => {
    const { clock, write, caughtUp } = await setup();
    await write();
    const { reader, got } = await caughtUp(0, ({ index }, { leave }) => index === 3 && leave());
    reader.next(await write(4));
    reader.next(await write(1, true));
    await clock.advance(1_000);
    expect(got).toEqual([1, 2, 3]);
  });

  it('a subscriber that interferes may leave in the middle of a page', async () => {
    const { clock, write, listen } = await setup();
    await write(5, true);
    const listening = listen(0, ({ index }, { leave }) => index === 3 && leave());
    listening.reader.wake();
    await clock.advance(1_000);
    expect([listening.got, listening.end]).toEqual([[1, 2, 3], undefined]);
  });

  it('a subscriber that interferes may cause a signal: the event of that signal comes after the current one', async () => {
    const { clock, write, caughtUp } = await setup();
    await write();
    const signals = [await write(3), await write(2)];
    const { reader, got } = await caughtUp(1, ({ index }, { reader: self }) => index === 2 && self.next(signals[1]!));
    reader.next(signals[0]!);
    await clock.advance(1_000);
    expect(got).toEqual(upTo(6, 2));
  });

  it('a subscriber that interferes may have its reader replaced in the middle of a signal', async () => {
    const { clock, write, caughtUp } = await setup();
    await write();
    const { reader, got } = await caughtUp(0, ({ index }, { reader: self }) => index === 2 && self.silence());
    reader.next(await write(3));
    await clock.advance(0);
    expect(got).toEqual([1, 2]);
  });
});

describe('a reader that is done', () => {
  it('a reader that is done delivers, acknowledges and reads nothing afterwards', async () => {
    const { clock, write, caughtUp, reads } = await setup();
    await write();
    const finished = await caughtUp();
    const failed = await caughtUp();
    const left = await caughtUp();
    finished.reader.complete();
    failed.reader.error(new Error('why'));
    left.leave();
    for (const { reader } of [finished, failed, left]) {
      reader.next(await write());
      reader.next(POKE);
      reader.silence();
      reader.end(9);
      reader.complete();
      reader.error(new Error('other'));
    }
    await clock.advance(1_000);
    expect([finished.end, failed.end, left.end]).toEqual(['complete', new Error('why'), undefined]);
    expect([finished.got, failed.got, left.got]).toEqual([[1], [1], [1]]);
    expect(reads).not.toHaveBeenCalled();
  });

  it('a reader that is done drops the events of a read that was under way', async () => {
    const { clock, write, listen } = await setup({ delayAnswer: () => 10 });
    await write(3, true);
    const listening = listen();
    listening.reader.wake();
    await clock.advance(5);
    listening.reader.complete();
    await clock.advance(1_000);
    expect([listening.got, listening.end]).toEqual([[], 'complete']);
  });
});
