import { NO_OTHER_NODES } from '../../../test/support/faulty-event-store.js';
import { map, Observable, of, startWith, Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { McpReply, StreamFlow } from './reply.js';
import type { McpStoredEvent } from '../log/event-store.js';
import { InMemoryEventStore } from '../log/in-memory-event-store.js';
import { McpStream } from '../log/mcp-stream.js';
import { ManualClock } from '../../testing/index.js';
import type { RequestId } from '../protocol/json-rpc.js';
import type { McpEvent } from '../protocol/events.js';
import { Exchange, type ExchangeForm, type ExchangeSink, type SinkEntry } from './exchange.js';
import { ResponseSink } from './response-sink.js';

const SINKS = ['a log', 'the response'] as const;
type SinkKind = (typeof SINKS)[number];

const MAX_BUFFERED = 100;
const ignore = (): void => {};
/** A log sends this event first. */
const HEAD: McpEvent = { id: 'head', data: '' };

/** A stream in a log, as the sink of an exchange. */
class StreamSink implements ExchangeSink {
  constructor(readonly stream: McpStream) {}
  write(entry: SinkEntry): Promise<void> {
    return this.stream.write(entry);
  }
  events$(flow: StreamFlow, headOnly: boolean): Observable<McpEvent> {
    const messages$ = new Observable<McpStoredEvent>((observer) => this.stream.subscribe(observer, 0, flow)).pipe(
      map(({ data }) => ({ data })),
      startWith(HEAD),
    );
    return headOnly ? of(HEAD) : messages$;
  }
  disconnect(): boolean {
    return this.stream.disconnectReaders();
  }
  end(): void {
    this.stream.write({ end: true }).catch(ignore);
  }
}

type Form = Partial<Omit<ExchangeForm, 'clock' | 'sink'>> & { requests?: RequestId[] };

/** Creates a POST with one request by default. */
async function setup(kind: SinkKind, { requests = [1], ...form }: Form = {}) {
  const clock = new ManualClock();
  const store = new InMemoryEventStore({}, new ManualClock());
  await store.open('s');
  const retry = { firstDelayMs: 1, maxDelayMs: 1, giveUpAfterMs: 1 };
  const environment = {
    store,
    clock,
    nodeId: 'n',
    retry,
    maxQueuedBytes: 1_000,
    comeBackMs: 10_000,
    nodes: NO_OTHER_NODES,
  };
  const begun: (readonly RequestId[])[] = [];
  const written: SinkEntry[] = [];
  const clientGone = vi.fn();
  const exchange = new Exchange(requests, {
    clock,
    mode: 'auto',
    sseAfterMs: 500,
    batch: false,
    clientsComeBack: () => kind === 'a log',
    clientGone,
    ...form,
    sink: (open, cut) => {
      begun.push(open);
      const stream = (): McpStream => new McpStream('stream', 's', environment, undefined, open);
      const sink = kind === 'a log' ? new StreamSink(stream()) : new ResponseSink(MAX_BUFFERED, cut);
      const write = sink.write.bind(sink);
      sink.write = (entry) => {
        written.push(entry);
        return write(entry);
      };
      return sink;
    },
  });
  /** The requests that the log waits for. */
  const open = async () => (await store.unfinished('n')).flatMap(({ requests }) => requests);
  exchange.streamLater();
  return { clock, store, exchange, begun, written, clientGone, open };
}

const turn = () => new Promise((resolve) => void setImmediate(resolve));

/** Returns what has been replied so far. */
async function replyOf({ reply }: Exchange): Promise<McpReply | undefined> {
  let given: McpReply | undefined;
  Promise.resolve(reply).then((value) => (given = value), ignore);
  await turn();
  return given;
}

/** Reads the reply as a response does. */
class Reader implements StreamFlow {
  paused = false;
  readonly resumed$ = new Subject<void>();
  readonly events: McpEvent[] = [];
  end: 'complete' | 'error' | undefined;
  #leave = ignore;

  static async of(exchange: Exchange): Promise<Reader> {
    const reader = new Reader();
    const reply = await exchange.reply;
    if (reply.kind !== 'events') throw new Error(`The reply is ${reply.kind}.`);
    const subscription = reply.open(reader).subscribe({
      next: (event) => reader.events.push(event),
      complete: () => (reader.end = 'complete'),
      error: () => (reader.end = 'error'),
    });
    reader.#leave = () => subscription.unsubscribe();
    await turn();
    return reader;
  }
  /** Messages, without what precedes them. */
  get messages(): string[] {
    return this.events.filter((event) => event !== HEAD).map(({ data }) => data!);
  }
  leave(): void {
    this.#leave();
  }
}

describe.each(SINKS)('over %s, a POST that is answered at once', (kind) => {
  it('a POST that is answered at once drops messages after its answer', async () => {
    const { exchange, begun, clientGone } = await setup(kind);
    exchange.answer(1, '"first"');
    exchange.answer(1, '"second"');
    exchange.settle(1);
    await exchange.send('"late"');
    expect(exchange.stream()).toBeUndefined();
    exchange.cancel();
    expect(await exchange.reply).toEqual({ kind: 'json', body: '"first"' });
    expect([begun, clientGone.mock.calls]).toEqual([[], []]);
  });

  it('a POST that is answered at once is denied by the HTTP status, if it is the only request', async () => {
    const refusal = { status: 403, headers: { 'WWW-Authenticate': 'Bearer' } };
    const { exchange } = await setup(kind);
    exchange.answer(1, '"no"', refusal);
    expect(await exchange.reply).toEqual({ kind: 'json', body: '"no"', ...refusal });
    const batch = await setup(kind, { batch: true });
    batch.exchange.answer(1, '"no"', refusal);
    expect(await batch.exchange.reply).toEqual({ kind: 'json', body: '["no"]' });
  });
});

describe.each(SINKS)('over %s, a POST becomes a stream', (kind) => {
  it('a POST becomes a stream at the first message that is no answer, which precedes the answer', async () => {
    const { clock, exchange } = await setup(kind);
    const sent = exchange.send('"progress"');
    expect(clock.pending).toBe(0);
    const reader = await Reader.of(exchange);
    await sent;
    expect(exchange.sink).toBeDefined();
    await exchange.send('"more"');
    exchange.answer(1, '"answer"');
    await turn();
    expect(reader.messages).toEqual(['"progress"', '"more"', '"answer"']);
    expect([reader.end, exchange.carries, exchange.sink]).toEqual(['complete', 'nothing', undefined]);
  });

  it('a POST becomes a stream that its last answer ends, also when the answer comes before the response is opened', async () => {
    const { exchange } = await setup(kind);
    void exchange.send('"progress"');
    exchange.answer(1, '"answer"', { status: 403, headers: {} });
    const reader = await Reader.of(exchange);
    expect([reader.messages, reader.end]).toEqual([['"progress"', '"answer"'], 'complete']);
  });

  it('a POST becomes a stream once, and gives its reply once, however often it is asked for', async () => {
    const { clock, exchange, begun } = await setup(kind, { requests: [1, 2] });
    const sent = [exchange.send('1'), exchange.send('2')];
    exchange.closeStream();
    expect(exchange.stream()).toBe(exchange.sink);
    await clock.advance(1_000);
    expect(await exchange.reply).toBe(await exchange.reply);
    const reader = await Reader.of(exchange);
    await Promise.all(sent);
    expect(begun).toHaveLength(1);
    reader.leave();
  });

  it('a POST becomes a stream whose end is written with the last answer, in one step', async () => {
    const { exchange, written } = await setup(kind, { requests: [1, 2] });
    void exchange.send('"x"');
    exchange.answer(1, '"a"');
    exchange.answer(2, '"b"');
    expect(written).toEqual([
      { data: '"x"' },
      { data: '"a"', settles: 1, end: false },
      { data: '"b"', settles: 2, end: true },
    ]);
  });
});

describe('over a log, a POST that has become a stream', () => {
  it('a POST that has become a stream over a log has its requests in the log until they are settled there', async () => {
    const { clock, store, exchange, open } = await setup('a log', { batch: true, requests: [1, 2, 3] });
    exchange.answer(2, '"b"');
    exchange.settle(3);
    await clock.advance(500);
    expect(await store.unfinished('n')).toMatchObject([{ stream: 'stream', requests: [1] }]);
    exchange.answer(1, '"a"');
    await turn();
    expect(await open()).toEqual([]);
    expect(await store.read('s', 'stream', 0, 0)).toMatchObject({ last: 2, ended: true });
  });
});

describe.each(SINKS)('over %s, a POST whose requests are cancelled', (kind) => {
  it('a POST whose requests are cancelled ends its stream without an answer', async () => {
    const { exchange, open, clientGone } = await setup(kind);
    void exchange.send('"progress"');
    const reader = await Reader.of(exchange);
    exchange.settle(1);
    await turn();
    expect([reader.messages, reader.end, exchange.carries]).toEqual([['"progress"'], 'complete', 'nothing']);
    expect([await open(), clientGone.mock.calls]).toEqual([[], []]);
  });

  it('before its response was opened, ends that too', async () => {
    const { clock, exchange } = await setup(kind);
    await clock.advance(500);
    exchange.settle(1);
    const reader = await Reader.of(exchange);
    expect([reader.messages, reader.end]).toEqual([[], 'complete']);
  });
});

describe.each(SINKS)('over %s, a POST is refused', (kind) => {
  it('a POST is refused as long as nothing was sent', async () => {
    const { clock, exchange, begun, clientGone } = await setup(kind);
    expect(exchange.refuse(new Error('no'))).toBe(true);
    await expect(exchange.reply).rejects.toThrow('no');
    expect([exchange.carries, clock.pending, begun, clientGone.mock.calls]).toEqual(['nothing', 0, [], []]);
    expect(exchange.refuse(new Error('again'))).toBe(false);
  });

  it('a POST is not refused when it is a stream, is answered, or has other requests', async () => {
    const streaming = await setup(kind);
    streaming.exchange.stream();
    const answered = await setup(kind);
    answered.exchange.answer(1, '"answer"');
    const batch = await setup(kind, { batch: true, requests: [1, 2] });
    for (const { exchange } of [streaming, answered, batch]) expect(exchange.refuse(new Error('no'))).toBe(false);
    expect([streaming, batch].map(({ exchange }) => exchange.carries)).toEqual(['messages', 'messages']);
  });
});

describe.each(SINKS)('over %s, a POST whose client leaves', (kind) => {
  it('a POST whose client leaves before its form is decided keeps nothing, as its answer cannot be sent', async () => {
    const { clock, exchange, begun, clientGone } = await setup(kind, { requests: [1, 2] });
    exchange.cancel();
    exchange.cancel();
    expect(await exchange.reply).toEqual({ kind: 'accepted' });
    expect([exchange.carries, exchange.closeStream(), clock.pending]).toEqual(['nothing', false, 0]);
    exchange.answer(1, '"a"');
    exchange.settle(2);
    expect([exchange.carries, begun, clientGone.mock.calls]).toEqual(['nothing', [], [[]]]);
  });

  it('before its response was opened, ends the stream, which will never be read', async () => {
    const { clock, exchange, clientGone } = await setup(kind);
    await clock.advance(500);
    exchange.cancel();
    expect([exchange.carries, exchange.sink]).toEqual(['nothing', undefined]);
    expect(clientGone).toHaveBeenCalledOnce();
    exchange.answer(1, '"a"');
    await exchange.send('"late"');
    const late = await Reader.of(exchange);
    expect(late.messages).toEqual([]);
    expect(clientGone).toHaveBeenCalledOnce();
  });
});

describe('over a log, a POST whose client leaves', () => {
  it('before its response was opened, leaves nothing open in the log', async () => {
    const { clock, store, exchange, open } = await setup('a log');
    await clock.advance(500);
    exchange.cancel();
    exchange.answer(1, '"a"');
    await turn();
    expect(await store.read('s', 'stream', 0, 0)).toMatchObject({ last: 0, ended: true });
    expect(await open()).toEqual([]);
  });

  it('after its response was opened, goes on, as the client may resume', async () => {
    const { store, exchange, clientGone } = await setup('a log');
    await exchange.send('"progress"');
    const reader = await Reader.of(exchange);
    exchange.cancel();
    reader.leave();
    expect([exchange.carries, clientGone.mock.calls]).toEqual(['messages', []]);
    exchange.answer(1, '"a"');
    exchange.cancel();
    await turn();
    expect(await store.read('s', 'stream', 0, 0)).toMatchObject({ last: 2, ended: true });
    expect(clientGone).not.toHaveBeenCalled();
  });
});

describe('over the response, a POST whose client leaves', () => {
  it('in the middle of its stream, is over, which is reported once', async () => {
    const { exchange, clientGone } = await setup('the response');
    exchange.stream();
    const reader = await Reader.of(exchange);
    reader.leave();
    exchange.cancel();
    expect([exchange.carries, clientGone.mock.calls]).toEqual(['nothing', [[]]]);
    exchange.answer(1, '"a"');
    expect(reader.events).toEqual([]);
  });

  it('a client that leaves after the last answer is not reported as having left', async () => {
    const { exchange, clientGone } = await setup('the response');
    exchange.stream();
    const reader = await Reader.of(exchange);
    exchange.answer(1, '"a"');
    reader.leave();
    expect([reader.messages, reader.end, clientGone.mock.calls]).toEqual([['"a"'], 'complete', []]);
  });
});

describe('closeStream()', () => {
  it('closeStream() ends the response, not the stream', async () => {
    const { store, exchange } = await setup('a log');
    await exchange.send('"progress"');
    const reader = await Reader.of(exchange);
    expect(exchange.closeStream()).toBe(true);
    expect([reader.events, reader.end]).toEqual([[HEAD, { data: '"progress"' }], 'complete']);
    exchange.answer(1, '"a"');
    await turn();
    expect(await store.read('s', 'stream', 0, 0)).toMatchObject({ last: 2, ended: true });
  });

  it('closeStream() before anything was sent, sends a head, so that the client can come back', async () => {
    const { exchange } = await setup('a log');
    expect(exchange.closeStream()).toBe(true);
    await exchange.send('"progress"');
    const reader = await Reader.of(exchange);
    expect([reader.events, reader.end]).toEqual([[HEAD], 'complete']);
  });

  it.each(SINKS)(
    'closeStream() does nothing over %s for a client that would not come back, nor after the end',
    async (kind) => {
      const old = await setup(kind, { clientsComeBack: () => false });
      expect(old.exchange.closeStream()).toBe(false);
      expect(await replyOf(old.exchange)).toBeUndefined();
      const { exchange } = await setup(kind);
      exchange.answer(1, '"a"');
      expect(exchange.closeStream()).toBe(false);
    },
  );
});
