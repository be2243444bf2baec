import { toolLog, toolProgress, type McpHandlerFunction, type ToolEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { concat, of, type Observable } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate } from '../support/app.js';
import { recordedEvents, testApps } from '../support/test-apps.js';
import type { RawResponse } from '../support/http.js';
import { gists } from '../support/messages.js';
import { expectRefusal } from '../support/refusal.js';
import { MODERN, modernMeta } from '../support/modern-client.js';

type Tool = McpHandlerFunction<Record<string, unknown>>;

const formOf = (response: RawResponse): string | undefined => response.header('content-type')?.split(';')[0];
const quick: Tool = () => 'quick';
const talks: Tool = async (_, ctx) => {
  await ctx.progress(1);
  await ctx.log('info', 'a word');
  return 'said';
};
const steps: Tool = (): Observable<ToolEvent> =>
  concat(of(toolProgress(1), toolLog('info', 'a word'), toolProgress(2)), of('done'));
const fails: Tool = async (_, ctx) => {
  await ctx.progress(1);
  throw new Error('secret');
};

/** A tool that waits until the test lets it go, and the moment at which it was called. */
function waiting(): { waits: Tool; called: Promise<void>; release: (text: string) => void } {
  const entered = gate();
  const hold = gate<string>();
  const waits: Tool = () => {
    entered.open();
    return hold.promise;
  };
  return { waits, called: entered.promise, release: hold.open };
}
const heard = { progressToken: 'p', logLevel: 'debug' };

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('the form of a modern answer, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, sseAfterMs: 500, keepAliveMs: 15_000 });

  it.each([['notifications/cancelled'], ['notifications/progress'], ['notifications/anything']])(
    'P1: the notification %s is taken: 202, no body, no content type',
    async (method) => {
      const client = (await start()).modern();
      for (const params of [{ _meta: modernMeta(), requestId: 1 }, { requestId: 1 }]) {
        const headers = { 'mcp-protocol-version': MODERN, 'mcp-method': method };
        const both = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
        const response = await client.post({ jsonrpc: '2.0', method, params }, both);
        expect(response.status).toBe(202);
        expect(response.header('content-type')).toBeUndefined();
        expect(await response.text()).toBe('');
      }
    },
  );

  it('E5: an endpoint that answers with JSON only needs SSE to be accepted for subscriptions alone', async () => {
    const client = (await start({ responseMode: 'json', tools: { quick } })).modern({ accept: 'application/json' });
    expect(await client.ask('tools/call', { name: 'quick' })).toMatchObject({
      result: { content: [{ text: 'quick' }] },
    });
    const refused = await client.request('subscriptions/listen', { notifications: {} });
    await expectRefusal(refused, { status: 406, code: -32000, id: 2, says: ['"text/event-stream"'] });
    client.headers = {};
    const stream = await client.listen({});
    expect(stream.messages[0]).toMatchObject({ method: 'notifications/subscriptions/acknowledged' });
    stream.destroy();
  });

  // #region call
  it('P3: in auto mode a call whose answer comes first is JSON, and leaves nothing behind', async () => {
    const app = await start({ clock, tools: { quick } });
    const client = app.modern();
    const response = await client.call('quick', {}, heard);
    expect([response.status, formOf(response)]).toEqual([200, 'application/json']);
    expect(gists([await response.json()])).toEqual(['quick']);
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0, openResponses: 0, timers: 0 });
  });
  // #endregion

  it('P3: in auto mode the first message that is no answer begins a stream at once', async () => {
    const { waits, called, release } = waiting();
    const both: Tool = async (args, ctx) => {
      await ctx.log('info', 'a word');
      return waits(args, ctx);
    };
    const app = await start({ clock, tools: { both } });
    const client = app.modern();
    const response = await client.call('both', {}, heard);
    expect([response.status, formOf(response)]).toEqual([200, 'text/event-stream']);
    const stream = await response.sse().count(1);
    await called;
    await app.settled({ inFlight: 1, openResponses: 1, streams: 0, loggedStreams: 0 });
    release('done');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['a word', 'done']);
    await app.settled({ inFlight: 0, openResponses: 0, timers: 0 });
  });

  it('P3: with sseAfterMs 0 a call that is not answered synchronously is a stream', async () => {
    const { waits, called, release } = waiting();
    const client = (await start({ sseAfterMs: 0, tools: { waits } })).modern();
    const response = await client.call('waits');
    await called;
    expect(formOf(response)).toBe('text/event-stream');
    release('done');
    expect(gists((await readAll(response)).messages)).toEqual(['done']);
  });

  it('P3: in sse mode every call is a stream whose head precedes the answer, and refusals have their HTTP status', async () => {
    const { waits, called, release } = waiting();
    const client = (await start({ responseMode: 'sse', clock, tools: { quick, waits } })).modern();
    const response = await client.call('waits');
    await called;
    expect([response.status, formOf(response)]).toEqual([200, 'text/event-stream']);
    release('done');
    expect(gists((await readAll(response)).messages)).toEqual(['done']);
    expect(gists((await readAll(await client.call('quick'))).messages)).toEqual(['quick']);
    const refused = await client.request('no/such');
    expect([refused.status, formOf(refused)]).toEqual([404, 'application/json']);
    await refused.text();
  });

  it('P3: in json mode every call is JSON, however long it takes, and other messages are dropped', async () => {
    const { waits, called, release } = waiting();
    const both: Tool = async (args, ctx) => {
      await talks(args, ctx);
      return waits(args, ctx);
    };
    const app = await start({ responseMode: 'json', clock, tools: { both, steps } });
    const client = app.modern();
    const posted = client.call('both', {}, heard);
    await called;
    await clock.advance(60_000);
    release('done');
    const response = await posted;
    expect([response.status, formOf(response)]).toEqual([200, 'application/json']);
    expect(gists([await response.json()])).toEqual(['done']);
    expect(gists([await (await client.call('steps', {}, heard)).json()])).toEqual(['done']);
    await app.settled({ inFlight: 0, loggedStreams: 0, events: 0 });
  });

  it('P6: the messages of a handler are on the response of its call in order, the answer last', async () => {
    const client = (await start({ tools: { steps, talks, fails }, errorDetails: false })).modern();
    const streams = await Promise.all(
      ['steps', 'talks', 'fails'].map(async (name) => readAll(await client.call(name, {}, { ...heard, id: 1 }))),
    );
    expect(streams.map(({ messages }) => gists(messages).map(String))).toEqual([
      ['progress 1', 'a word', 'progress 2', 'done'],
      ['progress 1', 'a word', 'said'],
      ['progress 1', expect.not.stringContaining('secret')],
    ]);
  });

  it.each([
    [undefined, []],
    ['debug', ['debug', 'info', 'notice', 'error']],
    ['notice', ['notice', 'error']],
    ['emergency', []],
  ])('M9: a request with the logLevel %s gets the messages of that level', async (logLevel, told) => {
    const logs: Tool = async (_, ctx) => {
      for (const level of ['debug', 'info', 'notice', 'error'] as const) await ctx.log(level, level, 'of the test');
      return 'logged';
    };
    const client = (await start({ tools: { logs } })).modern();
    const response = await client.call('logs', {}, logLevel === undefined ? {} : { logLevel });
    // Nothing to say beside the answer: JSON.
    if (told.length === 0) return expect(gists([await response.json()])).toEqual(['logged']);
    const { messages } = await readAll(response);
    expect(gists(messages)).toEqual([...told, 'logged']);
    expect(messages[0].params).toEqual({ level: told[0], data: told[0], logger: 'of the test' });
  });

  it('M9 D4: an unknown log level is refused', async () => {
    const client = (await start({ tools: { talks } })).modern();
    const response = await client.call('talks', {}, { logLevel: 'loud' });
    expect(response.status).toBe(400);
    expect((await response.json()).error.code).toBe(-32602);
  });

  it('P8: messages after the answer are dropped, without an error', async () => {
    const later = gate();
    const said = gate<unknown[]>();
    const late: Tool = (_, ctx) => {
      void later.promise.then(async () => {
        const outcomes = await Promise.allSettled([
          ctx.progress(2),
          ctx.log('info', 'late'),
          ctx.notify('notifications/x'),
        ]);
        said.open(outcomes.map(({ status }) => status));
      });
      return 'early';
    };
    const app = await start({ tools: { late, talks } });
    const client = app.modern();
    const events = recordedEvents(app);
    expect(gists([await (await client.call('late', {}, heard)).json()])).toEqual(['early']);
    // In the middle of somebody else's call, with the same id and the same token.
    later.open();
    const { messages } = await readAll(await client.call('talks', {}, heard));
    expect(gists(messages)).toEqual(['progress 1', 'a word', 'said']);
    expect(await said.promise).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    const dropped = events.flatMap((event) => (event.type === 'late-message' ? [event] : []));
    expect(dropped.map(({ method, disposition }) => `${method} ${disposition}`)).toEqual([
      'notifications/progress dropped',
      'notifications/message dropped',
      'notifications/x dropped',
    ]);
    await app.settled({ inFlight: 0, streams: 0, events: 0 });
  });

  it('P10: the head of a stream keeps proxies from buffering it, and has the headers of the app', async () => {
    const client = (
      await start({
        tools: { talks },
        configure: (app) => app.enableCors({ origin: 'http://x.test' }),
      })
    ).modern();
    const response = await client.call('talks', {}, heard);
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'access-control-allow-origin': 'http://x.test',
    });
    expect(response.header('content-length')).toBeUndefined();
    expect(response.header('mcp-session-id')).toBeUndefined();
    await readAll(response);
  });

  it('P11: the events of a stream have a type, one line of data and no id, and none primes', async () => {
    const client = (await start({ tools: { talks } })).modern();
    const { body, events, primes, retryMs } = await readAll(await client.call('talks', {}, heard));
    const frames = body.split('\n\n').filter(Boolean);
    expect(frames).toHaveLength(3);
    for (const frame of frames) expect(frame).toMatch(/^event: message\ndata: \{[^\n]*\}$/);
    expect([events.map(({ id }) => id), primes, retryMs]).toEqual([[undefined, undefined, undefined], [], undefined]);
  });

  it('P12: a silent stream gets a comment every keepAliveMs', async () => {
    const { waits, called, release } = waiting();
    const client = (await start({ clock, tools: { waits } })).modern();
    const posted = client.call('waits');
    await called;
    await clock.advance(500);
    const stream = (await posted).sse();
    expect(stream.comments).toEqual([]);
    for (let n = 1; n <= 3; n++) {
      await clock.advance(15_000);
      await stream.until(({ comments }) => comments.length === n);
    }
    release('done');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['done']);
  });
});

async function readAll(response: RawResponse) {
  const stream = response.sse();
  expect(await stream.end()).toBe('end');
  return stream;
}
