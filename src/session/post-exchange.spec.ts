import { map, NEVER, of, startWith, type Observable } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { McpReply } from '../context/mcp-exchange.js';
import { InMemoryEventStore } from '../stream/in-memory-event-store.js';
import { NO_STREAM_PEERS } from '../stream/stream.options.js';
import { McpStream, type StreamObserver } from '../stream/mcp-stream.js';
import { ManualClock } from '../testing/index.js';
import type { RequestId } from '../wire/json-rpc.js';
import { PostExchange, type ExchangeForm, type ExchangeHost } from './post-exchange.js';

const ignore = (): void => {};
const UNOBSERVED: StreamObserver = {
  ...{ attached: ignore, detached: ignore, evicted: ignore, idle: ignore, failed: ignore, fault: ignore },
};
const FLOWING = { paused: false, resumed$: NEVER };

async function setup(form: Partial<ExchangeForm> = {}, requests: RequestId[] = [1], clientsComeBack = true) {
  const clock = new ManualClock();
  const store = new InMemoryEventStore({}, new ManualClock());
  await store.open('s');
  const append = vi.spyOn(store, 'append');
  const retry = { firstDelayMs: 1, maxDelayMs: 1, giveUpAfterMs: 1 };
  const environment = { store, clock, nodeId: 'n', retry, maxQueuedBytes: 1_000, peers: NO_STREAM_PEERS };
  const host: ExchangeHost = {
    ...{ clock, clientsComeBack },
    streams: {
      begin: (ids) => new McpStream('stream', 's', environment, UNOBSERVED, ids),
      frames$: (stream, after, { flow, headOnly }) =>
        headOnly
          ? of('head')
          : stream.events$(after, flow).pipe(
              map(({ data }) => data),
              startWith('head'),
            ),
    },
  };
  const exchange = new PostExchange(host, requests, { mode: 'auto', sseAfterMs: 500, batch: false, ...form });
  return { clock, store, append, exchange };
}

/** What has been replied so far. */
async function replyOf({ reply }: PostExchange): Promise<McpReply | undefined> {
  let given: McpReply | undefined;
  void reply.then((value) => (given = value));
  await new Promise(setImmediate);
  return given;
}

/** Reads the reply as a response would. */
async function framesOf(exchange: PostExchange): Promise<{ frames: string[]; ended: () => boolean }> {
  const reply = await exchange.reply;
  if (reply.kind !== 'stream') throw new Error(`The reply is ${reply.kind}.`);
  const frames: string[] = [];
  let ended = false;
  const frames$: Observable<string> = reply.open(FLOWING);
  frames$.subscribe({ next: (frame) => frames.push(frame), complete: () => (ended = true) });
  await new Promise(setImmediate);
  return { frames, ended: () => ended };
}

describe('a POST that is answered at once', () => {
  it('is JSON, and never touches the log', async () => {
    const { clock, append, exchange } = await setup();
    expect(exchange.carries).toBe('messages');
    await exchange.answer(1, '"answer"');
    expect(await exchange.reply).toEqual({ kind: 'json', body: '"answer"' });
    expect([exchange.carries, exchange.stream, clock.pending]).toEqual(['nothing', undefined, 0]);
    expect(append).not.toHaveBeenCalled();
  });

  it('of a batch is an array, once all are answered, also if there is one', async () => {
    const { exchange } = await setup({ batch: true }, [1, 2]);
    await exchange.answer(2, '"b"');
    expect(await replyOf(exchange)).toBeUndefined();
    await exchange.answer(1, '"a"');
    expect(await exchange.reply).toEqual({ kind: 'json', body: '["b","a"]' });
    const single = await setup({ batch: true });
    await single.exchange.answer(1, '"a"');
    expect(await single.exchange.reply).toEqual({ kind: 'json', body: '["a"]' });
  });

  it('is refused as HTTP refuses, if it is alone', async () => {
    const refusal = { status: 403, headers: { 'WWW-Authenticate': 'Bearer' } };
    const { exchange } = await setup();
    await exchange.answer(1, '"no"', refusal);
    expect(await exchange.reply).toEqual({ kind: 'json', body: '"no"', ...refusal });
    const batch = await setup({ batch: true });
    await batch.exchange.answer(1, '"no"', refusal);
    expect(await batch.exchange.reply).toEqual({ kind: 'json', body: '["no"]' });
  });
});

describe('a POST becomes a stream', () => {
  it('with the first other message, which goes before the answer', async () => {
    const { clock, store, exchange } = await setup();
    await exchange.deliver('"progress"');
    expect(clock.pending).toBe(0);
    const { frames, ended } = await framesOf(exchange);
    expect(exchange.stream?.id).toBe('stream');
    await exchange.answer(1, '"answer"');
    expect(frames).toEqual(['head', '"progress"', '"answer"']);
    expect([ended(), exchange.carries, exchange.stream]).toEqual([true, 'nothing', undefined]);
    expect(await store.describe('s', 'stream')).toMatchObject({ last: 2, ended: true });
  });

  it('after sseAfterMs, with its head at once', async () => {
    const { clock, store, exchange } = await setup();
    await clock.advance(499);
    expect(await replyOf(exchange)).toBeUndefined();
    await clock.advance(1);
    const { frames } = await framesOf(exchange);
    expect(frames).toEqual(['head']);
    expect(await store.openRequests({ node: 'n' })).toMatchObject([{ stream: 'stream', id: 1 }]);
  });

  it('at once in the mode "sse", and never in the mode "json"', async () => {
    const sse = await setup({ mode: 'sse' });
    expect(await sse.exchange.reply).toMatchObject({ kind: 'stream' });
    const json = await setup({ mode: 'json' });
    expect(json.exchange.carries).toBe('answers');
    expect(json.exchange.closeStream()).toBe(false);
    await json.clock.advance(60_000);
    expect(await replyOf(json.exchange)).toBeUndefined();
    await json.exchange.answer(1, '"answer"');
    expect(await json.exchange.reply).toEqual({ kind: 'json', body: '"answer"' });
    expect([sse.clock.pending, json.clock.pending]).toEqual([0, 0]);
  });

  it('with the answers that were there before, settled in the log', async () => {
    const { clock, store, exchange } = await setup({ batch: true }, [1, 2, 3]);
    await exchange.answer(2, '"b"');
    exchange.dismiss(3);
    await clock.advance(500);
    const { frames, ended } = await framesOf(exchange);
    expect(frames).toEqual(['head', '"b"']);
    expect((await store.openRequests({ node: 'n' })).map(({ id }) => id)).toEqual([1]);
    await exchange.answer(1, '"a"');
    expect([frames, ended()]).toEqual([['head', '"b"', '"a"'], true]);
    expect(await store.openRequests({ node: 'n' })).toEqual([]);
  });

  it('once: its reply is given once, however often it is asked for', async () => {
    const { clock, exchange } = await setup({}, [1, 2]);
    const [first, second] = [exchange.deliver('1'), exchange.deliver('2')];
    exchange.closeStream();
    await clock.advance(1_000);
    await Promise.all([first, second]);
    expect(await exchange.reply).toBe(await exchange.reply);
  });

  it('whose end is logged with the last answer, in one append', async () => {
    const { append, exchange } = await setup({}, [1, 2]);
    await exchange.deliver('"x"');
    await exchange.answer(1, '"a"');
    await exchange.answer(2, '"b"');
    const last = append.mock.calls.at(-1)!;
    expect(last[2]).toEqual(['"b"']);
    expect(last[3]).toMatchObject({ end: true, settles: [{ id: 2, answer: 0 }] });
  });
});

describe('a POST whose requests are cancelled', () => {
  it('before anything was sent, is a head and its end, without the log', async () => {
    const { clock, append, exchange } = await setup();
    exchange.dismiss(1);
    const reply = await exchange.reply;
    expect(reply.kind).toBe('stream');
    let ended = false;
    if (reply.kind === 'stream') reply.open(FLOWING).subscribe({ complete: () => (ended = true) });
    expect([ended, exchange.carries, clock.pending]).toEqual([true, 'nothing', 0]);
    expect(append).not.toHaveBeenCalled();
  });

  it('answers what is left of a batch as JSON', async () => {
    const { exchange } = await setup({ batch: true }, [1, 2]);
    await exchange.answer(1, '"a"');
    exchange.dismiss(2);
    expect(await exchange.reply).toEqual({ kind: 'json', body: '["a"]' });
  });

  it('ends its stream without an answer', async () => {
    const { store, exchange } = await setup();
    await exchange.deliver('"progress"');
    const { frames, ended } = await framesOf(exchange);
    exchange.dismiss(1);
    await new Promise(setImmediate);
    expect([frames, ended(), exchange.carries]).toEqual([['head', '"progress"'], true, 'nothing']);
    expect(await store.openRequests({ node: 'n' })).toEqual([]);
  });

  it('before its response was opened, ends that too', async () => {
    const { clock, exchange } = await setup();
    await clock.advance(500);
    exchange.dismiss(1);
    const { frames, ended } = await framesOf(exchange);
    expect([frames, ended()]).toEqual([['head'], true]);
  });
});

describe('a POST whose client leaves', () => {
  it('before the decision, keeps nothing: its answer has nowhere to go', async () => {
    const { clock, append, exchange } = await setup({}, [1, 2]);
    exchange.abandon();
    expect(await exchange.reply).toEqual({ kind: 'accepted' });
    expect([exchange.carries, exchange.closeStream(), clock.pending]).toEqual(['nothing', false, 0]);
    await exchange.answer(1, '"a"');
    exchange.dismiss(2);
    expect(exchange.carries).toBe('nothing');
    expect(append).not.toHaveBeenCalled();
  });

  it('before its response was opened, ends the stream: nobody will ever read it', async () => {
    const { clock, store, exchange } = await setup();
    await clock.advance(500);
    exchange.abandon();
    expect([exchange.carries, exchange.stream]).toEqual(['nothing', undefined]);
    await exchange.answer(1, '"a"');
    expect(await store.describe('s', 'stream')).toMatchObject({ last: 0, ended: true });
    expect(await store.openRequests({ node: 'n' })).toEqual([]);
  });

  it('after that, changes nothing: it may come back', async () => {
    const { store, exchange } = await setup();
    await exchange.deliver('"progress"');
    await framesOf(exchange);
    exchange.abandon();
    expect(exchange.carries).toBe('messages');
    await exchange.answer(1, '"a"');
    exchange.abandon();
    expect(await store.describe('s', 'stream')).toMatchObject({ last: 2, ended: true });
  });
});

describe('closeStream', () => {
  it('ends the response, not the stream', async () => {
    const { store, exchange } = await setup();
    await exchange.deliver('"progress"');
    const { frames, ended } = await framesOf(exchange);
    expect(exchange.closeStream()).toBe(true);
    expect([frames, ended()]).toEqual([['head', '"progress"'], true]);
    await exchange.answer(1, '"a"');
    expect(await store.describe('s', 'stream')).toMatchObject({ last: 2, ended: true });
  });

  it('before anything was sent, sends a head, so that the client can come back', async () => {
    const { exchange } = await setup();
    expect(exchange.closeStream()).toBe(true);
    await exchange.deliver('"progress"');
    const { frames, ended } = await framesOf(exchange);
    expect([frames, ended()]).toEqual([['head'], true]);
  });

  it('does nothing for a client that would not come back, nor after the end', async () => {
    const old = await setup({}, [1], false);
    expect(old.exchange.closeStream()).toBe(false);
    expect(await replyOf(old.exchange)).toBeUndefined();
    const { exchange } = await setup();
    await exchange.answer(1, '"a"');
    expect(exchange.closeStream()).toBe(false);
  });
});
