import { Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { McpStreamReply, StreamFlow } from '../../context/mcp-exchange.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { type ExchangeEnd, ModernExchange } from './modern-exchange.js';

const MAX = 100;

/** A response that takes as much as the test says. */
class Reader implements StreamFlow {
  paused = false;
  readonly resumed$ = new Subject<void>();
  readonly read: string[] = [];
  ended: 'complete' | 'error' | undefined;
  #close = (): void => {};

  attach(reply: McpStreamReply): this {
    const subscription = reply.open(this).subscribe({
      next: (frame) => this.read.push(frame.replace(/^event: message\ndata: (.*)\n\n$/, '$1')),
      complete: () => (this.ended = 'complete'),
      error: () => (this.ended = 'error'),
    });
    this.#close = () => subscription.unsubscribe();
    return this;
  }
  resume(): void {
    this.paused = false;
    this.resumed$.next();
  }
  close(): void {
    this.#close();
  }
}

function exchanged(mode: 'auto' | 'sse' | 'json' = 'auto') {
  const clock = new ManualClock();
  const ends: ExchangeEnd[] = [];
  const onOver = (how: ExchangeEnd): number => ends.push(how);
  const exchange = new ModernExchange({ clock, mode, sseAfterMs: 500, maxBufferedBytes: MAX, onOver });
  const opened = async (): Promise<Reader> => new Reader().attach((await exchange.reply) as McpStreamReply);
  return { clock, ends, exchange, opened };
}
/** Whether a promise is settled by now. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => (done = true));
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  return done;
}

describe('ModernExchange', () => {
  it('answers once, with JSON, and leaves no timer', async () => {
    const { exchange, ends, clock } = exchanged();
    exchange.answer('1', { status: 404 });
    exchange.answer('2');
    await exchange.send('3');
    expect(await exchange.reply).toEqual({ kind: 'json', body: '1', status: 404 });
    expect([ends, clock.pending, exchange.over]).toEqual([['answered'], 0, true]);
  });

  it('streams what comes before and after its response is there, in order, to the end', async () => {
    const { exchange, ends, opened } = exchanged();
    const early = exchange.send('1');
    expect(await settled(early)).toBe(false);
    const reader = await opened();
    expect(await settled(early)).toBe(true);
    await exchange.send('2');
    exchange.answer('3');
    expect([reader.read, reader.ended, ends]).toEqual([['1', '2', '3'], 'complete', ['answered']]);
    reader.close();
    expect(ends).toEqual(['answered']);
  });

  it('an answer that overtakes its response ends it too', async () => {
    const { exchange, opened } = exchanged();
    void exchange.send('1');
    exchange.answer('2');
    const reader = await opened();
    expect([reader.read, reader.ended]).toEqual([['1', '2'], 'complete']);
  });

  it('lets its handler wait while the reader does, and keeps the order', async () => {
    const { exchange, opened } = exchanged();
    exchange.stream();
    const reader = await opened();
    reader.paused = true;
    const waiting = exchange.send('1');
    exchange.answer('2');
    expect([await settled(waiting), reader.read]).toEqual([false, []]);
    reader.resume();
    expect([await settled(waiting), reader.read, reader.ended]).toEqual([true, ['1', '2'], 'complete']);
  });

  it('is cut when more waits than may', async () => {
    const { exchange, opened, ends } = exchanged();
    exchange.stream();
    const reader = await opened();
    reader.paused = true;
    const waiting = [1, 2].map(() => exchange.send('x'.repeat(MAX)));
    expect([reader.ended, ends]).toEqual(['error', ['unanswered']]);
    expect(await settled(Promise.all(waiting))).toBe(true);
  });

  it('is cut when more waits than may before there is a response: the response ends as well', async () => {
    const { exchange, opened, ends } = exchanged();
    for (let n = 0; n < 2; n++) void exchange.send('x'.repeat(MAX));
    exchange.answer('never');
    expect(ends).toEqual(['unanswered']);
    const reader = await opened();
    expect([reader.read, reader.ended]).toEqual([[], 'error']);
  });

  it('a client that goes is told of once, wherever it was', async () => {
    const undecided = exchanged();
    undecided.exchange.abandon();
    undecided.exchange.abandon();
    expect([undecided.ends, undecided.clock.pending]).toEqual([['unanswered'], 0]);

    const streaming = exchanged();
    streaming.exchange.stream();
    const reader = await streaming.opened();
    reader.close();
    streaming.exchange.abandon();
    expect(streaming.ends).toEqual(['unanswered']);
  });

  it('nobody waits for room in a response that is never opened', async () => {
    const { exchange, ends } = exchanged();
    const waiting = exchange.send('1');
    exchange.abandon();
    expect([await settled(waiting), ends]).toEqual([true, ['unanswered']]);
    expect(await settled(exchange.send('2'))).toBe(true);
  });

  it('refuses as long as nothing is out', async () => {
    const early = exchanged();
    expect(early.exchange.refuse(new Error('no'))).toBe(true);
    await expect(early.exchange.reply).rejects.toThrow('no');
    const late = exchanged();
    late.exchange.stream();
    expect(late.exchange.refuse(new Error('no'))).toBe(false);
    expect([early.ends, late.ends]).toEqual([['answered'], []]);
  });

  it('in JSON nothing is beside the answer', async () => {
    const { exchange, clock } = exchanged('json');
    await exchange.send('1');
    await clock.advance(10_000);
    exchange.answer('2');
    expect(await exchange.reply).toEqual({ kind: 'json', body: '2' });
  });
});
