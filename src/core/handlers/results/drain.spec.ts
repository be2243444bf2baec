import { concat, interval, NEVER, Observable, of, Subject, takeWhile } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { deferred } from '../../common/promises.js';
import type { McpContext } from '../../calls/mcp-context.js';
import { Drain, comesInParts } from './drain.js';
import { HandlerCancelled } from '../../calls/handler-signals.js';
import { toolLog, toolProgress } from './tool-event.js';

/** A client that takes each report when the test lets it. */
class SlowClient {
  readonly sent: unknown[] = [];
  readonly aborting = new AbortController();
  /** Reports that were handed over and are not taken. */
  pending = 0;
  readonly #taken = deferred();
  #slow = false;

  readonly context = {
    signal: this.aborting.signal,
    progress: (progress: number) => this.#take(progress),
    log: (_level: string, data: unknown) => this.#take(data),
  } as unknown as McpContext;

  stall(): this {
    this.#slow = true;
    return this;
  }
  go(): void {
    this.#slow = false;
    this.#taken.resolve();
  }
  fail(error: Error): void {
    this.#taken.reject(error);
  }

  async #take(report: unknown): Promise<void> {
    this.sent.push(report);
    if (!this.#slow) return;
    this.pending++;
    await this.#taken.promise;
    this.pending--;
  }
}

const origin = 'Tools.export';

describe('an Observable', () => {
  it('an Observable sends what a source emits in one go, one at a time', async () => {
    const client = new SlowClient().stall();
    const { result } = new Drain(of(...numbers(200).map((n) => toolProgress(n)), 'done'), client.context, origin);
    await ticks();
    expect([client.sent, client.pending]).toEqual([[1], 1]);
    client.go();
    expect(await result).toBe('done');
    expect(client.sent).toEqual(numbers(200));
  });

  it('an Observable merges progress while a client is slow, and drops no log', async () => {
    const client = new SlowClient().stall();
    const source = new Subject<unknown>();
    const { result } = new Drain(source, client.context, origin);
    for (const n of numbers(100_000)) source.next(toolProgress(n));
    for (const n of numbers(1000)) source.next(toolLog('debug', `log ${n}`));
    for (const n of numbers(1000)) source.next(toolProgress(100_000 + n));
    source.next('done');
    source.complete();
    client.go();
    expect(await result).toBe('done');
    const logs = client.sent.filter((sent) => typeof sent === 'string');
    const progress = client.sent.filter((sent) => typeof sent === 'number');
    expect(logs).toEqual(numbers(1000).map((n) => `log ${n}`));
    expect(progress.length).toBeLessThan(600);
    expect(progress.slice(-2)).toEqual([100_000, 101_000]);
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
  });

  it('an Observable does not grow in memory with the reports of progress', async () => {
    const client = new SlowClient().stall();
    const source = new Subject<unknown>();
    const { result } = new Drain(source, client.context, origin);
    const before = usedBytes();
    for (let n = 0; n < 500_000; n++) source.next(toolProgress(n, undefined, `row ${n}`));
    expect(usedBytes() - before).toBeLessThan(2_000_000);
    source.complete();
    client.go();
    await result;
  });

  it('an Observable fails, and is left, when a report cannot be sent', async () => {
    const client = new SlowClient().stall();
    const { source, state } = watched(concat(of(toolProgress(1), toolProgress(2)), NEVER));
    const { result } = new Drain(source, client.context, origin);
    client.fail(new Error('session over'));
    await expect(result).rejects.toThrow('session over');
    expect(client.sent).toEqual([1]);
    expect(state.left).toBe(1);
  });

  it('an Observable leaves no listener on the signal', async () => {
    const client = new SlowClient();
    const { added, removed } = countListeners(client.aborting.signal);
    await new Drain(of(1), client.context, origin).result;
    await new Drain(of(1, 2), client.context, origin).result.catch(() => {});
    await new Drain(generate(1), client.context, origin).result;
    expect([added(), removed()]).toEqual([3, 3]);
  });
});

describe('an async iterable', () => {
  it('an async iterable is ended when a report cannot be sent, and after a second value', async () => {
    const client = new SlowClient().stall();
    const first = stuck(toolProgress(1));
    const { result } = new Drain(first.iterable, client.context, origin);
    await ticks();
    client.fail(new Error('session over'));
    await expect(result).rejects.toThrow('session over');
    const second = stuck('a', 'b');
    await expect(new Drain(second.iterable, client.context, origin).result).rejects.toThrow('more than one');
    expect([first.state.returned, second.state.returned]).toEqual([1, 1]);
  });

  it('an async iterable sends nothing of what comes after that', async () => {
    const client = new SlowClient();
    const next = deferred();
    async function* late() {
      await next.promise;
      yield toolProgress(1);
    }
    const running = new Drain(late(), client.context, origin);
    running.stop();
    next.resolve();
    await expect(running.result).rejects.toBeInstanceOf(HandlerCancelled);
    await ticks();
    expect(client.sent).toEqual([]);
  });

  it('an async iterable may fail while it is being ended', async () => {
    const client = new SlowClient();
    const next = () => new Promise<never>(() => {});
    for (const fails of [() => Promise.reject(new Error('late')), () => assertNever()]) {
      const iterable = { [Symbol.asyncIterator]: () => ({ next, return: fails }) } as AsyncIterable<unknown>;
      const running = new Drain(iterable, client.context, origin);
      running.stop();
      await expect(running.result).rejects.toBeInstanceOf(HandlerCancelled);
    }
  });
});

describe('what comes in parts', () => {
  it('what comes in parts is an Observable or an async iterable, nothing else', () => {
    expect([interval(1).pipe(takeWhile(() => false)), generate()].every(comesInParts)).toBe(true);
    expect([undefined, null, 'text', [1], new Map(), Promise.resolve(), { subscribe: 1 }].some(comesInParts)).toBe(
      false,
    );
  });
});

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

async function ticks(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function usedBytes(): number {
  gc!();
  return process.memoryUsage().heapUsed;
}

function assertNever(): never {
  throw new Error('at once');
}

function watched<T>(inner: Observable<T>) {
  const state = { subscribed: 0, left: 0 };
  const source = new Observable<T>((subscriber) => {
    state.subscribed++;
    const subscription = inner.subscribe(subscriber);
    return () => {
      state.left++;
      subscription.unsubscribe();
    };
  });
  return { source, state };
}

async function* generate(yielded?: unknown, returned?: unknown) {
  if (yielded !== undefined) yield yielded;
  return returned;
}

/** Yields what is given, then nothing for ever. */
function stuck(...values: unknown[]) {
  const state = { returned: 0 };
  const iterator = {
    next: () =>
      values.length > 0 ? Promise.resolve({ done: false, value: values.shift() }) : new Promise<never>(() => {}),
    return: () => {
      state.returned++;
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  return { iterable: { [Symbol.asyncIterator]: () => iterator } as AsyncIterable<unknown>, state };
}

function countListeners(signal: AbortSignal) {
  let [added, removed] = [0, 0];
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    added++;
    addEventListener.apply(signal, args);
  };
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    removed++;
    removeEventListener.apply(signal, args);
  };
  return { added: () => added, removed: () => removed };
}
