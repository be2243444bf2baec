import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Socket } from 'node:net';
import { toolLog, toolProgress, type McpHandlerFunction, type ToolEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { concat, finalize, map, Observable, of, range } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { gists } from '../support/messages.js';
import { MEBIBYTE, memoryAtRest, memoryInUse } from '../support/memory.js';
import { eventually, testApps } from '../support/test-apps.js';
import type { ModernClient } from '../support/modern-client.js';
import { rawSocket, requestText, senderOf } from '../support/raw-socket.js';

type Tool = McpHandlerFunction<Record<string, unknown>>;

const MAX_BUFFERED = MEBIBYTE;
/** What else may be held: what is being written, code that was compiled meanwhile. */
const SLACK = 16 * MEBIBYTE;
const EVENT = 100 * 1024;
/** More than all the buffers between here and there take: those of the kernel hold some megabytes. */
const EVENTS = 400;
const FLOOD = 200_000;
const heard = { progressToken: 'p', logLevel: 'info' };
const big = (n: number): string => `${n} `.padEnd(EVENT, 'x');
const numberOf = (text: unknown): number => parseInt(String(text), 10);

describe.each(ONE_ADAPTER)('a modern client that reads slowly, on %s', (adapter) => {
  const start = testApps(adapter, {
    port: true,
    sseAfterMs: 60_000,
    maxBufferedBytes: MAX_BUFFERED,
    keepAliveMs: 15_000,
  });
  let emitted: number;
  let left: string[];
  let sockets: Socket[];
  beforeEach(() => {
    [emitted, left, sockets] = [0, [], []];
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
  });

  const iterable: Tool = async function* () {
    try {
      for (; emitted < EVENTS; emitted++) yield toolLog('info', big(emitted));
      yield 'done';
    } finally {
      left.push('iterable');
    }
  };
  /** Waits for each of its messages. */
  const awaiting: Tool = async (_, ctx) => {
    try {
      for (; emitted < EVENTS && !ctx.signal.aborted; emitted++) await ctx.log('info', big(emitted));
      return 'done';
    } finally {
      left.push('awaiting');
    }
  };
  /** Waits for nothing. */
  const heedless: Tool = async (_, ctx) => {
    for (; emitted < EVENTS && !ctx.signal.aborted; emitted++) {
      void ctx.log('info', big(emitted));
      await nextTurn();
    }
    left.push(ctx.signal.aborted ? 'cancelled' : 'heedless');
    return 'done';
  };
  /** Emits when it likes: a report in each turn, whoever reads. */
  const fast: Tool = () =>
    new Observable<ToolEvent>((subscriber) => {
      let turn: NodeJS.Immediate;
      const tick = (): void => {
        if (emitted++ === EVENTS) {
          subscriber.next('done');
          return subscriber.complete();
        }
        subscriber.next(toolProgress(emitted, EVENTS, big(emitted)));
        turn = setImmediate(tick);
      };
      tick();
      return () => clearImmediate(turn);
    }).pipe(finalize(() => left.push('fast')));
  /** All of it before anybody else has a turn: 200 MB, were it held. */
  const flood: Tool = () =>
    concat(range(1, FLOOD).pipe(map((n) => toolProgress(n, FLOOD, `${n} `.padEnd(1024, 'x')))), of('done')).pipe(
      finalize(() => left.push('flood')),
    );
  const quick: Tool = () => 'quick';
  const handlers = { iterable, awaiting, heedless, fast, flood, quick };

  /** Calls a tool and reads nothing of the answer. */
  const ignoring = async (client: ModernClient, name: string): Promise<Socket> => {
    const message = client.message('tools/call', { name, arguments: {} }, heard);
    const sender = senderOf(client, message);
    const socket = (await rawSocket(sender)).pause();
    sockets.push(socket);
    socket.write(requestText(sender, 'POST', { body: message }));
    return socket;
  };
  /** Until nothing is emitted any more. */
  const stalled = async (app: TestApp): Promise<void> => {
    await eventually(() => expect(app.pausedResponses).toBe(1));
    for (let before = -1; before !== emitted;) {
      before = emitted;
      for (let turn = 0; turn < 20; turn++) await nextTurn();
    }
  };

  it.each(['iterable', 'awaiting'])('P13: %s pauses with its reader, and goes on without loss', async (name) => {
    const app = await start({ clock: new ManualClock(), tools: handlers });
    const client = app.modern();
    const response = await client.call(name, {}, heard);
    await stalled(app);
    expect(emitted).toBeLessThan(EVENTS);
    await app.settled({ inFlight: 1, openResponses: 1 });
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    const told = gists(stream.messages);
    expect(told.pop()).toBe('done');
    expect(told.map(numberOf)).toEqual(Array.from({ length: EVENTS }, (_, n) => n));
    expect(left).toEqual([name]);
    expect(app.pausedResponses).toBe(0);
  });

  it.each(['iterable', 'awaiting', 'fast'])(
    'P13: %s holds no more than its share while nobody reads, and others notice nothing',
    async (name) => {
      const app = await start({ clock: new ManualClock(), tools: handlers });
      const client = app.modern();
      const atRest = await memoryAtRest();
      const socket = await ignoring(client, name);
      await eventually(() => expect(app.pausedResponses).toBe(1));
      if (name === 'fast') await eventually(() => expect(emitted).toBe(EVENTS + 1));
      else await stalled(app);
      await eventually(() => {
        globalThis.gc!();
        // Progress is merged from a few hundred reports on.
        expect(memoryInUse() - atRest).toBeLessThan(2 * MAX_BUFFERED + (name === 'fast' ? 256 * EVENT : 0) + SLACK);
      });
      const answers = await Promise.all(Array.from({ length: 20 }, () => client.call('quick', {}, { id: 1 })));
      for (const answer of answers) expect(gists([await answer.json()])).toEqual(['quick']);
      // It leaves: so does the handler.
      socket.destroy();
      await eventually(() => expect(left).toEqual([name]));
      await app.settled({ inFlight: 0, openResponses: 0, timers: 0 });
    },
  );

  it('P13: the progress of an Observable that emits synchronously is merged, not buffered', async () => {
    const client = (await start({ tools: handlers })).modern();
    const stream = (await client.call('flood', {}, heard)).sse();
    expect(await stream.end()).toBe('end');
    const told = gists(stream.messages);
    expect(told.slice(-2)).toEqual([`progress ${FLOOD}`, 'done']);
    expect(told.length).toBeLessThan(1_000);
    expect(left).toEqual(['flood']);
  });

  it('P13: an Observable whose client reads again completes', async () => {
    const app = await start({ clock: new ManualClock(), tools: handlers });
    const client = app.modern();
    const response = await client.call('fast', {}, heard);
    await eventually(() => expect([app.pausedResponses, emitted]).toEqual([1, EVENTS + 1]));
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    const told = gists(stream.messages);
    expect(told.pop()).toBe('done');
    const reports = told.map((text) => Number(String(text).replace('progress ', '')));
    expect(reports).toEqual(reports.toSorted((a, b) => a - b));
    expect(new Set(reports).size).toBe(reports.length);
    expect(reports.at(-1)).toBe(EVENTS);
  });

  it('P13: a handler that awaits none of its messages is cancelled when its buffer is full', async () => {
    const app = await start({ clock: new ManualClock(), tools: handlers });
    const client = app.modern();
    const socket = await ignoring(client, 'heedless');
    await eventually(() => expect(left).toEqual(['cancelled']));
    expect(emitted).toBeLessThan(EVENTS);
    await app.settled({ inFlight: 0, openResponses: 0, timers: 0 });
    socket.destroy();
  });

  it('P13: a reader that reads nothing for two keep-alive periods is cut, which cancels its call', async () => {
    const clock = new ManualClock();
    const app = await start({ clock, tools: handlers });
    const client = app.modern();
    await ignoring(client, 'awaiting');
    await stalled(app);
    await clock.advance(15_000);
    await app.settled({ inFlight: 1, openResponses: 1 });
    await clock.advance(15_000);
    await clock.advance(15_000);
    await eventually(() => expect(left).toEqual(['awaiting']));
    await app.settled({ inFlight: 0, openResponses: 0, timers: 0 });
  });

  it('P13: an answer that is larger than the buffer is sent completely', async () => {
    const answer = 'y'.repeat(8 * MEBIBYTE);
    const client = (
      await start({
        tools: {
          huge: () => answer,
          late: async (_, ctx) => {
            await ctx.log('info', 'first');
            return answer;
          },
        },
      })
    ).modern();
    expect((await (await client.call('huge')).json()).result.content[0].text).toBe(answer);
    const stream = (await client.call('late', {}, heard)).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['first', answer]);
  });
});
