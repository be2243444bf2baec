import { Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { StreamFlow } from './reply.js';
import type { McpEvent } from '../protocol/events.js';
import { ResponseSink } from './response-sink.js';

const MAX = 100;
const LARGE = 'x'.repeat(MAX + 1);

/** A response that takes as much as the test says. */
class Reader implements StreamFlow {
  paused = false;
  readonly resumed$ = new Subject<void>();
  readonly events: McpEvent[] = [];
  end: 'complete' | 'error' | undefined;
  /** Pauses after so many events. */
  takes = Infinity;
  #close = (): void => {};

  open(sink: ResponseSink): this {
    const subscription = sink.events$(this).subscribe({
      next: (event) => {
        this.events.push(event);
        if (--this.takes === 0) this.paused = true;
      },
      complete: () => (this.end = 'complete'),
      error: () => (this.end = 'error'),
    });
    this.#close = () => subscription.unsubscribe();
    return this;
  }
  get read(): string[] {
    return this.events.map(({ data }) => data!);
  }
  resume(): void {
    this.paused = false;
    this.resumed$.next();
  }
  close(): void {
    this.#close();
  }
}

function setup() {
  const cut = vi.fn();
  const sink = new ResponseSink(MAX, cut);
  const write = (data: string) => sink.write({ data });
  return { cut, sink, write, opened: () => new Reader().open(sink) };
}

/** Returns whether a promise is settled by now. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => (done = true));
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  return done;
}

describe('ResponseSink', () => {
  it('a ResponseSink writes messages as events without an id', async () => {
    const { write, opened } = setup();
    const reader = opened();
    await write('{"a":1}');
    expect(reader.events).toEqual([{ data: '{"a":1}' }]);
  });

  it('streams what comes before and after its response is there, in order, to the end', async () => {
    const { cut, sink, write, opened } = setup();
    const early = write('1');
    expect(await settled(early)).toBe(false);
    const reader = opened();
    expect(await settled(early)).toBe(true);
    expect(await settled(write('2'))).toBe(true);
    await sink.write({ data: '3', settles: 1, end: true });
    expect([reader.read, reader.end]).toEqual([['1', '2', '3'], 'complete']);
    reader.close();
    expect(cut).not.toHaveBeenCalled();
    expect(reader.resumed$.observed).toBe(false);
  });

  it('a ResponseSink takes the settlement of a request and an end without a message', async () => {
    const { cut, sink, opened } = setup();
    const reader = opened();
    await sink.write({});
    await sink.write({ settles: 1, end: false });
    expect([reader.read, reader.end]).toEqual([[], undefined]);
    await sink.write({ settles: 2, end: true });
    expect([reader.read, reader.end, cut.mock.calls]).toEqual([[], 'complete', []]);
  });

  it('a ResponseSink that has ended before its response is opened ends the response too', () => {
    const { cut, sink, write, opened } = setup();
    void write('1');
    void sink.write({ data: '2', end: true });
    const reader = opened();
    expect([reader.read, reader.end, cut.mock.calls]).toEqual([['1', '2'], 'complete', []]);
  });

  it('a ResponseSink drops messages after its end', async () => {
    const { sink, write, opened } = setup();
    const reader = opened();
    reader.paused = true;
    void sink.write({ data: '1', end: true });
    expect(await settled(write('2'))).toBe(true);
    reader.resume();
    expect([reader.read, reader.end]).toEqual([['1'], 'complete']);
  });

  it('a ResponseSink lets its writer wait while the reader does, and keeps the order', async () => {
    const { sink, write, opened } = setup();
    const reader = opened();
    reader.paused = true;
    const waiting = write('1');
    void sink.write({ data: '2', end: true });
    expect([await settled(waiting), reader.read]).toEqual([false, []]);
    reader.resume();
    expect([await settled(waiting), reader.read, reader.end]).toEqual([true, ['1', '2'], 'complete']);
  });

  it('a ResponseSink makes its writer wait when an event has filled the reader, and stops again in the middle', async () => {
    const { write, opened } = setup();
    const reader = opened();
    reader.takes = 1;
    const waiting = [write('1'), write('2'), write('3')];
    expect([reader.read, await settled(waiting[0]!)]).toEqual([['1'], false]);
    reader.takes = 1;
    reader.resume();
    expect([reader.read, await settled(Promise.race(waiting))]).toEqual([['1', '2'], false]);
    reader.resume();
    expect([reader.read, await settled(Promise.all(waiting))]).toEqual([['1', '2', '3'], true]);
  });

  it('P13: a ResponseSink cuts the connection when more bytes wait than the limit', async () => {
    const { cut, write, opened } = setup();
    const reader = opened();
    reader.paused = true;
    const waiting = [write(LARGE), write(LARGE)];
    expect([reader.end, cut.mock.calls]).toEqual(['error', [[]]]);
    expect(await settled(Promise.all([...waiting, write('late')]))).toBe(true);
    expect([reader.read, reader.resumed$.observed]).toEqual([[], false]);
  });

  it('a ResponseSink counts the bytes that wait, not those that were read', async () => {
    const { cut, write, opened } = setup();
    const reader = opened();
    for (let n = 0; n < 10; n++) {
      reader.paused = true;
      const waiting = write(LARGE);
      reader.resume();
      await waiting;
    }
    expect([reader.read.length, reader.end, cut.mock.calls]).toEqual([10, undefined, []]);
  });

  it('a ResponseSink is cut when more bytes wait than the limit before its response is opened, which ends as well', () => {
    const { cut, sink, write, opened } = setup();
    for (let n = 0; n < 2; n++) void write(LARGE);
    void sink.write({ data: 'never', end: true });
    expect(cut).toHaveBeenCalledOnce();
    const reader = opened();
    expect([reader.read, reader.end, cut.mock.calls]).toEqual([[], 'error', [[]]]);
  });

  it('a ResponseSink reports once that its client has gone, and drops later messages', async () => {
    const { cut, sink, write, opened } = setup();
    const reader = opened();
    reader.paused = true;
    const waiting = write('1');
    reader.close();
    sink.end();
    expect(await settled(Promise.all([waiting, write('2')]))).toBe(true);
    reader.resume();
    expect([reader.read, cut.mock.calls, reader.resumed$.observed]).toEqual([[], [[]], false]);
  });

  it('a ResponseSink is not cut when its client goes while the last messages wait', () => {
    const { cut, sink, opened } = setup();
    const reader = opened();
    reader.paused = true;
    void sink.write({ data: '1', end: true });
    reader.close();
    expect([reader.read, cut.mock.calls]).toEqual([[], []]);
  });

  it('a ResponseSink that is abandoned keeps no writer waiting, and ends a late response', async () => {
    const { sink, write, opened } = setup();
    const waiting = write('1');
    sink.end();
    expect(await settled(waiting)).toBe(true);
    expect(opened().end).toBe('error');
  });

  it('a ResponseSink closes no connection for a handler: the client could not resume', async () => {
    const { sink, write, opened } = setup();
    const reader = opened();
    expect(sink.disconnect()).toBe(false);
    await write('1');
    expect([reader.read, reader.end]).toEqual([['1'], undefined]);
  });
});
