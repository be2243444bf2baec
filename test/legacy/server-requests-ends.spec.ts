import type { RequestOptions } from '@modelcontextprotocol/server';
import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool, type TestApp } from '../support/app.js';
import type { SseStream } from '../support/http.js';
import { gists } from '../support/messages.js';
import { LATEST } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';
import { scripted, type ScriptedTool } from '../support/scripted-server.js';

/** Stands still: nothing ends by time. */
const STILL = new ManualClock();

const CAPABLE = { sampling: {}, elicitation: { form: {} }, roots: {} };
const ROOTS = { roots: [{ uri: 'file:///home' }] };

/** What came of a request of the server, in short. */
function outcomeOf(asked: Promise<unknown>): Promise<string> {
  return asked.then(
    (result) => JSON.stringify(result),
    (error) => `${error.name} ${error.code}: ${error.message}`,
  );
}
/** A tool that asks for roots, and answers with what came of it. */
const asks: TestTool = (_, ctx) => outcomeOf(ctx.roots('roots'));
/** The same, with options. */
const asksWith =
  (options: RequestOptions): TestTool =>
  (_, ctx, sessions) =>
    outcomeOf(sessions.request(ctx.session!.id, { method: 'roots/list' }, options));
/** Answers for which no request waited. */
const unawaited = (events: readonly McpSessionEvent[]) => events.filter(({ type }) => type === 'unknown-response');
const answerOf = (stream: SseStream): unknown => gists(stream.messages).at(-1);

/** Two calls of the tool `asks` at a time: `heard` gets the progress of each question, and none afterwards. */
async function expectProgress(app: TestApp, heard: readonly unknown[]): Promise<void> {
  const events = recordedEvents(app);
  const client = await app.client().initialize(LATEST, CAPABLE);
  // Two at a time: the SDK of the session numbers them, the wire must not mix them up.
  const streams = [await (await client.call('asks')).sse().count(1), await (await client.call('asks')).sse().count(1)];
  const questions = streams.map((stream) => stream.messages[0]);
  for (const { id, params } of questions) expect(params._meta.progressToken).toBe(id);
  for (const [n, { id }] of questions.entries()) {
    const params = { progressToken: id, progress: n + 1, total: 2, message: `of ${n}` };
    await client.notify('notifications/progress', params);
  }
  await eventually(() =>
    expect(heard).toEqual([
      { progress: 1, total: 2, message: 'of 0' },
      { progress: 2, total: 2, message: 'of 1' },
    ]),
  );
  for (const { id } of questions.toReversed()) await client.respond(id, ROOTS);
  for (const stream of streams) expect(await stream.end()).toBe('end');
  // Nobody waits for it any more; nor for a token that never was, or is the SDK's own.
  for (const progressToken of [questions[0].id, 'never', 0, null, { a: 1 }]) {
    const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 3 } };
    const response = await client.post(progress);
    expect(response.status).toBe(202);
    await response.text();
  }
  expect(heard).toHaveLength(2);
  expect(events.filter(({ type }) => type === 'unknown-response')).toHaveLength(5);
}

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('the end of server requests on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it('P7: an error of the client is the error of the request', async () => {
    const app = await start({ tools: { asks } });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    const error = { code: -32042, message: 'not today' };
    const response = await client.post({ jsonrpc: '2.0', id: stream.messages[0].id, error });
    expect(response.status).toBe(202);
    expect(await stream.end()).toBe('end');
    expect(answerOf(stream)).toMatch(/^McpServerRequestError CLIENT_ERROR: .*-32042.*not today/);
    await app.settled({ outbound: 0 });
  });

  it('P7: a result that does not match the request fails it, typed', async () => {
    const app = await start({ tools: { asks } });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    await client.respond(stream.messages[0].id, { trees: [] });
    expect(await stream.end()).toBe('end');
    expect(answerOf(stream)).toMatch(/^McpServerRequestError INVALID_ANSWER/);
    await app.settled({ outbound: 0 });
  });

  it('P7: a request without an answer fails after serverRequestTimeoutMs, typed, and is cancelled at the client', async () => {
    const app = await start({ clock, serverRequestTimeoutMs: 10_000, tools: { asks } });
    const events = recordedEvents(app);
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    const { id } = stream.messages[0];
    await clock.advance(9_999);
    await app.settled({ outbound: 1 });
    await clock.advance(1);
    expect(await stream.end()).toBe('end');
    expect(stream.messages[1]).toMatchObject({ method: 'notifications/cancelled', params: { requestId: id } });
    expect(answerOf(stream)).toMatch(/^ProtocolError -32001: .*"roots\/list" within 10000 ms/);
    await app.settled({ outbound: 0, inFlight: 0 });
    // No request waits for an answer that comes now.
    await client.respond(id, ROOTS);
    await eventually(() => expect(unawaited(events)).toMatchObject([{ requestId: id }]));
  });

  it('P7: a request on the standalone stream fails after serverRequestTimeoutMs too', async () => {
    const app = await start({ clock, serverRequestTimeoutMs: 10_000 });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' });
    const failure = asked.catch((error: unknown) => error);
    await standalone.count(1);
    await clock.advance(10_000);
    expect(await failure).toMatchObject({ name: 'ProtocolError', code: -32001 });
    await standalone.count(2);
    expect(gists(standalone.messages)).toEqual(['request roots/list', 'notifications/cancelled']);
    await app.settled({ outbound: 0 });
    standalone.destroy();
  });

  it('P7: a request that its signal cancels is cancelled at the client on the stream of its call', async () => {
    const giveUp = new AbortController();
    const app = await start({ tools: { asks: asksWith({ signal: giveUp.signal }) } });
    const events = recordedEvents(app);
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const stream = await (await client.call('asks')).sse().count(1);
    const { id } = stream.messages[0];
    // From outside the handler, so that no context helps.
    giveUp.abort('no longer needed');
    expect(await stream.end()).toBe('end');
    expect(stream.messages[1]).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: id, reason: 'no longer needed' },
    });
    expect(answerOf(stream)).toMatch(/^McpServerRequestError CANCELLED/);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, inFlight: 0 });
    await client.respond(id, ROOTS);
    await eventually(() => expect(unawaited(events)).toMatchObject([{ requestId: id }]));
    standalone.destroy();
  });

  it('P7: a request on the standalone stream that its signal cancels is cancelled at the client there', async () => {
    const app = await start({});
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const giveUp = new AbortController();
    const { signal } = giveUp;
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' }, { signal });
    const failure = asked.catch((error: unknown) => error);
    await standalone.count(1);
    giveUp.abort();
    expect(await failure).toMatchObject({ code: 'CANCELLED' });
    await standalone.count(2);
    expect(standalone.messages[1].params.requestId).toBe(standalone.messages[0].id);
    await app.settled({ outbound: 0 });
    standalone.destroy();
  });

  it('P7: the sender of a request gets the progress that the client reports', async () => {
    const heard: unknown[] = [];
    const app = await start({
      tools: { asks: asksWith({ onprogress: (progress) => heard.push(progress) }) },
    });
    await expectProgress(app, heard);
  });

  it('P7: the first of two answers counts', async () => {
    const app = await start({ tools: { asks } });
    const events = recordedEvents(app);
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    const { id } = stream.messages[0];
    await client.respond(id, ROOTS);
    await client.respond(id, { roots: [] });
    expect(await stream.end()).toBe('end');
    expect(answerOf(stream)).toBe(JSON.stringify(ROOTS));
    await eventually(() => expect(unawaited(events)).toMatchObject([{ requestId: id }]));
  });

  it('P7: an answer from another session does not count', async () => {
    const app = await start({ tools: { asks } });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const other = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    const { id } = stream.messages[0];
    await other.respond(id, { roots: [] });
    await app.settled({ outbound: 1 });
    await client.respond(id, ROOTS);
    expect(await stream.end()).toBe('end');
    expect(answerOf(stream)).toBe(JSON.stringify(ROOTS));
  });

  it('P7: a request ends with the call for which it was sent', async () => {
    const outcomes: string[] = [];
    const app = await start({
      clock,
      requestTimeoutMs: 30_000,
      tools: {
        asks: async (_, ctx) => {
          outcomes.push(await outcomeOf(ctx.roots('roots')));
          return 'too late';
        },
      },
    });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const cancelled = await (await client.call('asks', {}, { id: 'cancelled' })).sse().count(1);
    const timedOut = await (await client.call('asks', {}, { id: 'timed out' })).sse().count(1);
    await client.notify('notifications/cancelled', { requestId: 'cancelled' });
    expect(await cancelled.end()).toBe('end');
    await eventually(() =>
      expect(outcomes).toEqual([expect.stringMatching(/^McpServerRequestError CALL_OVER: .*is over/)]),
    );
    await app.settled({ outbound: 1, inFlight: 1 });
    await clock.advance(30_000);
    expect(await timedOut.end()).toBe('end');
    expect(gists(timedOut.messages)).toEqual(['request roots/list', 'error -32001']);
    await eventually(() => expect(outcomes).toHaveLength(2));
    await app.settled({ outbound: 0, inFlight: 0 });
  });

  it('P7: a request ends with its session', async () => {
    const outcomes: string[] = [];
    const app = await start({ clock: STILL });
    for (const end of ['deleted', 'terminated'] as const) {
      const client = await app.client().initialize(LATEST, CAPABLE);
      const standalone = await client.listen();
      const asked = app.service.request(client.sessionId!, { method: 'roots/list' });
      asked.catch((error) => outcomes.push(String(error.code)));
      await standalone.count(1);
      await app.settled({ outbound: 1 });
      if (end === 'deleted') await (await client.delete()).text();
      else await app.service.terminate(client.sessionId!);
      expect(await standalone.end()).toBe('end');
      await app.settled({ outbound: 0, live: 0 });
    }
    await eventually(() => expect(outcomes).toEqual(['SESSION_OVER', 'SESSION_OVER']));
    const gone = app.service.request('there-is-no-such-session', { method: 'ping' });
    await expect(gone).rejects.toMatchObject({ code: 'UNKNOWN_SESSION' });
  });

  it('P7: a request that its handler does not await can be answered after its call, or times out', async () => {
    const asked = gate<string>();
    const app = await start({
      clock,
      serverRequestTimeoutMs: 10_000,
      tools: {
        asks: (_, ctx) => {
          void outcomeOf(ctx.roots('roots')).then((text) => asked.open(text));
          return 'done';
        },
      },
    });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = (await client.call('asks')).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['request roots/list', 'done']);
    await app.settled({ outbound: 1, inFlight: 0 });
    await client.respond(stream.messages[0].id, ROOTS);
    expect(await asked.promise).toBe(JSON.stringify(ROOTS));
    const again = (await client.call('asks')).sse();
    expect(await again.end()).toBe('end');
    await app.settled({ outbound: 1, inFlight: 0 });
    await clock.advance(10_000);
    await app.settled({ outbound: 0 });
  });
});

describe.each(ONE_ADAPTER)('with an SDK server: the end of server requests on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  const asking =
    (options: RequestOptions = {}): ScriptedTool =>
    (_, ctx) =>
      outcomeOf(ctx.mcpReq.send({ method: 'roots/list' }, options));

  it('P7: an error of the client is the error of the request', async () => {
    const app = await start({ server: scripted({ asks: asking() }) });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    const error = { code: -32042, message: 'not today' };
    const response = await client.post({ jsonrpc: '2.0', id: stream.messages[0].id, error });
    expect(response.status).toBe(202);
    expect(await stream.end()).toBe('end');
    expect(answerOf(stream)).toMatch(/^ProtocolError -32042: .*not today/);
    await app.settled({ outbound: 0 });
  });

  it('P7: a result that does not match the request fails it, typed', async () => {
    const app = await start({ server: scripted({ asks: asking() }) });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const stream = await (await client.call('asks')).sse().count(1);
    await client.respond(stream.messages[0].id, { trees: [] });
    expect(await stream.end()).toBe('end');
    expect(answerOf(stream)).toMatch(/^SdkError INVALID_RESULT/);
    await app.settled({ outbound: 0 });
  });

  it('P7: a request that its signal cancels is cancelled at the client on the stream of its call', async () => {
    const giveUp = new AbortController();
    const app = await start({ server: scripted({ asks: asking({ signal: giveUp.signal }) }) });
    const events = recordedEvents(app);
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const stream = await (await client.call('asks')).sse().count(1);
    const { id } = stream.messages[0];
    // From outside the handler, so that no context helps.
    giveUp.abort('no longer needed');
    expect(await stream.end()).toBe('end');
    expect(stream.messages[1]).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: id, reason: 'no longer needed' },
    });
    expect(answerOf(stream)).toMatch(/^SdkError REQUEST_TIMEOUT/);
    expect(standalone.events).toEqual([]);
    await app.settled({ outbound: 0, inFlight: 0 });
    await client.respond(id, ROOTS);
    await eventually(() => expect(unawaited(events)).toMatchObject([{ requestId: id }]));
    standalone.destroy();
  });

  it('P7: a request of McpSessionService within a handler is cancelled on the stream of that handler', async () => {
    const giveUp = new AbortController();
    const app = await start({
      server: scripted({
        asks: (_, ctx, { context }) =>
          context.sessions.request(ctx.sessionId!, { method: 'roots/list' }, { signal: giveUp.signal }).then(
            () => 'answered',
            (error) => String(error.code),
          ),
      }),
    });
    const client = await app.client().initialize(LATEST, CAPABLE);
    const standalone = await client.listen();
    const stream = await (await client.call('asks')).sse().count(1);
    giveUp.abort('no longer needed');
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['request roots/list', 'notifications/cancelled', 'CANCELLED']);
    expect(stream.messages[1].params.requestId).toBe(stream.messages[0].id);
    expect(standalone.events).toEqual([]);
    standalone.destroy();
  });

  it('P7: the sender of a request gets the progress that the client reports', async () => {
    const heard: unknown[] = [];
    const app = await start({
      server: scripted({ asks: asking({ onprogress: (progress) => heard.push(progress) }) }),
    });
    await expectProgress(app, heard);
  });
});
