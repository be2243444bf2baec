import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Socket } from 'node:net';
import { toolLog, toolProgress, type ToolEvent } from 'nestjs-mcp-streamable';
import { InMemoryEventStore, type McpEventStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { concat, finalize, map, Observable, of, range } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { double } from '../support/doubles.js';
import { eventually, testApps } from '../support/test-apps.js';
import { gists } from '../support/messages.js';
import { MEBIBYTE, memoryAtRest, memoryInUse } from '../support/memory.js';
import { rawSocket, requestText } from '../support/raw-socket.js';
import { fourOf } from './four.js';

const LOG = 8 * MEBIBYTE;
const MAX_BUFFERED = MEBIBYTE;
/** What else may be held: what is being written, code that was compiled meanwhile. */
const SLACK = 16 * MEBIBYTE;
const EVENT = 100 * 1024;
const EVENTS = 1_000;
/** Reports of a source that does not wait for anything. */
const FLOOD = 200_000;

/** The most that was held, garbage apart, while a source was emitting. */
let peak: number;
let emitted: number;
let left: number;

function emits(event: ToolEvent, every = 100): ToolEvent {
  if (++emitted % every === 0) {
    globalThis.gc!();
    peak = Math.max(peak, memoryInUse());
  }
  return event;
}

const big = (n: number): string => `${n} `.padEnd(EVENT, 'x');
const reports = {
  progress: (n: number) => toolProgress(n, EVENTS, big(n)),
  log: (n: number) => toolLog('info', big(n)),
};

/** Emits when it likes: an event in each turn, whoever reads. */
function fast$(report: (n: number) => ToolEvent): Observable<ToolEvent> {
  return new Observable<ToolEvent>((subscriber) => {
    let n = 0;
    let turn: NodeJS.Immediate;
    const tick = (): void => {
      if (n === EVENTS) {
        subscriber.next('done');
        return subscriber.complete();
      }
      subscriber.next(emits(report(++n)));
      turn = setImmediate(tick);
    };
    tick();
    return () => clearImmediate(turn);
  }).pipe(finalize(() => left++));
}

/** Yields as soon as it is asked. */
async function* greedy(report: (n: number) => ToolEvent): AsyncGenerator<ToolEvent> {
  try {
    for (let n = 1; n <= EVENTS; n++) yield emits(report(n));
    yield 'done';
  } finally {
    left++;
  }
}

const providers = [
  ...Object.entries(reports).flatMap(([name, report]) => [
    fourOf(`observable-${name}`, { run: () => fast$(report) }),
    fourOf(`iterable-${name}`, { run: () => greedy(report) }),
  ]),
  // All of it before anybody else has a turn: 200 MB, were it held.
  fourOf('flood', {
    run: () =>
      concat(
        range(1, FLOOD).pipe(map((n) => emits(toolProgress(n, FLOOD, `${n} `.padEnd(1024, 'x')), 50_000))),
        of('done'),
      ),
  }),
];

describe.each(ONE_ADAPTER)('a source that is faster than its client, on %s', (adapter) => {
  const start = testApps(adapter, {
    port: true,
    providers,
    maxBufferedBytes: MAX_BUFFERED,
    eventLog: { maxBytes: LOG },
  });
  let sockets: Socket[];
  beforeEach(() => {
    [peak, emitted, left, sockets] = [0, 0, 0, []];
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
  });

  const callOf = (tool: string) => (app: TestApp) => {
    const client = app.client();
    return { client, message: () => client.toolCall(tool, {}, { id: 'call', progressToken: 'token' }) };
  };

  it.each(['observable-progress', 'observable-log', 'iterable-progress', 'iterable-log'])(
    'a source that is faster than its client does not grow when the client never reads (%s)',
    async (tool) => {
      const app = await start({ clock: new ManualClock() });
      const { client, message } = callOf(tool)(app);
      await client.initialize();
      const atRest = await memoryAtRest();
      const socket = (await rawSocket(client)).pause();
      sockets.push(socket);
      socket.write(requestText(client, 'POST', { body: message() }));
      await eventually(() => expect([emitted, left]).toEqual([EVENTS, 1]));
      await app.settled({ inFlight: 0 });
      expect(peak - atRest).toBeLessThan(LOG + MAX_BUFFERED + SLACK);
      expect((await app.service.counts()).bytes).toBeLessThanOrEqual(LOG + 2 * EVENT);
      // Others notice nothing.
      const other = await app.client().initialize();
      expect((await other.call('nothing')).status).toBe(200);
    },
  );

  it('a source that is faster than its client has its progress merged, and its last progress and its result delivered', async () => {
    const app = await start({ clock: new ManualClock() });
    const { client, message } = callOf('flood')(app);
    await client.initialize();
    const atRest = await memoryAtRest();
    const stream = (await client.post(message())).sse();
    expect(await stream.end()).toBe('end');
    expect(emitted).toBe(FLOOD);
    expect(peak - atRest).toBeLessThan(LOG + SLACK);
    const told = stream.messages.slice(0, -1).map(({ params }) => params.progress as number);
    expect(told.slice(0, 3)).toEqual([1, 2, 3]);
    expect(told.at(-1)).toBe(FLOOD);
    expect(told.length).toBeLessThan(1_000);
    expect(told).toEqual(told.toSorted((a, b) => a - b));
    expect(gists(stream.messages.slice(-1))).toEqual(['done']);
  });

  describe('when the log is slow', () => {
    /** A log that takes nothing on, as long as the test wants. */
    const slowStore = (hold: Promise<void>): McpEventStore => {
      const store = new InMemoryEventStore({}, new ManualClock());
      return double<McpEventStore>(store, {
        append: async (...args) => {
          await hold;
          return store.append(...args);
        },
      });
    };

    it('a call with a slow log asks an iterable for one more report only', async () => {
      const hold = gate();
      const app = await start({ clock: new ManualClock(), eventStore: slowStore(hold.promise) });
      const { client, message } = callOf('iterable-progress')(app);
      await client.initialize();
      const posted = client.post(message());
      await eventually(() => expect(emitted).toBe(1));
      for (let turn = 0; turn < 50; turn++) await nextTurn();
      expect(emitted).toBe(1);
      hold.open();
      (await posted).destroy();
      await eventually(() => expect([emitted, left]).toEqual([EVENTS, 1]));
    });

    it('a call with a slow log holds no more than a few reports of an Observable', async () => {
      const hold = gate();
      const app = await start({ clock: new ManualClock(), eventStore: slowStore(hold.promise) });
      const { client, message } = callOf('flood')(app);
      await client.initialize();
      const atRest = await memoryAtRest();
      const posted = client.post(message());
      await eventually(() => expect(emitted).toBe(FLOOD));
      expect((await memoryAtRest()) - atRest).toBeLessThan(SLACK);
      hold.open();
      const stream = (await posted).sse();
      expect(await stream.end()).toBe('end');
      expect(stream.messages.length).toBeLessThan(1_000);
      expect(stream.messages.at(-2).params.progress).toBe(FLOOD);
      expect(gists(stream.messages.slice(-1))).toEqual(['done']);
    });
  });
});
