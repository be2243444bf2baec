import { currentMcpCall, McpUnknownSessionError, type McpSessionEvent } from 'nestjs-mcp-streamable';
import { beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ONE_ADAPTER, gate, type TestApp, type TestTool, type TestAppOptions } from '../support/app.js';
import type { SseStream } from '../support/http.js';
import { gists } from '../support/messages.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { eventually, recordedEvents, testApps } from '../support/test-apps.js';

const ROOTS = [{ uri: 'file:///home', name: 'home' }];

describe.each(ONE_ADAPTER)('McpSessionService.request() on %s', (adapter) => {
  let app: TestApp;
  let events: McpSessionEvent[];
  let release: ReturnType<typeof gate<void>>;
  let late: Promise<unknown>;

  const askRoots = async (id: string, service = app.service) =>
    (await service.request(id, { method: 'roots/list' })).roots;
  const tools: Record<string, TestTool> = {
    asks: async (_, __, sessions) => {
      await new Promise(setImmediate);
      return JSON.stringify(await askRoots(currentMcpCall()!.session!.id, sessions));
    },
    asksLate: (_, __, sessions) => {
      const { id } = currentMcpCall()!.session!;
      late = release.promise.then(() => askRoots(id, sessions)).catch((error: unknown) => error);
      return 'answered';
    },
  };
  const begin = testApps(adapter, { shared: true, guards: [], tools });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    release = gate();
    app = await begin(options);
    events = recordedEvents(app);
  };
  const withRoots = (): Promise<RawClient> => app.client().initialize(LATEST, { roots: {} });
  /** What it fails with. */
  const failure = (asked: Promise<unknown>): Promise<unknown> =>
    asked.then(
      () => 'nothing',
      (error: unknown) => error,
    );
  /** Answers that nobody waited for. */
  const nobodys = () => events.filter(({ type }) => type === 'unknown-response');
  /** The question as the client sees it. */
  const question = async (stream: SseStream, nth = 1) => (await stream.count(nth)).messages[nth - 1];
  beforeEach(() => start());

  it('P7: McpSessionService.request() asks on the standalone stream, and resolves with the typed result', async () => {
    const client = await withRoots();
    const stream = await client.listen();
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' });
    const message = await question(stream);
    expect(message).toMatchObject({ jsonrpc: '2.0', id: expect.any(String), method: 'roots/list' });
    await app.settled({ outbound: 1 });
    await client.respond(message.id, { roots: ROOTS });
    const { roots } = await asked;
    const uris: string[] = roots.map(({ uri }) => uri);
    expect(uris).toEqual(['file:///home']);
    await app.settled({ outbound: 0 });
  });

  it('P7: McpSessionService.request() asks inside a call on the stream of the call', async () => {
    const client = await withRoots();
    const standalone = await client.listen();
    const stream = (await client.call('asks', {}, { id: 'c' })).sse();
    await client.respond((await question(stream)).id, { roots: ROOTS });
    expect(await stream.end()).toBe('end');
    expect(stream.messages[1]).toMatchObject({ id: 'c', result: { content: [{ text: JSON.stringify(ROOTS) }] } });
    expect(standalone.messages).toEqual([]);
    await app.settled({ outbound: 0, inFlight: 0 });
  });

  it('P7: McpSessionService.request() passes params, takes any request of the specification, and many at a time', async () => {
    const client = await app.client().initialize(LATEST, { elicitation: { form: {} }, sampling: {} });
    const stream = await client.listen();
    const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
    const elicited = app.service.request(client.sessionId!, {
      method: 'elicitation/create',
      params: { mode: 'form', message: 'Who?', requestedSchema },
    });
    const sampled = app.service.request(client.sessionId!, {
      method: 'sampling/createMessage',
      params: { messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }], maxTokens: 5 },
    });
    const pinged = app.service.request(client.sessionId!, { method: 'ping' });
    await stream.count(3);
    const [first, second, third] = stream.messages;
    expect(first.params).toMatchObject({ message: 'Who?', requestedSchema });
    expect(new Set(stream.messages.map(({ id }) => id)).size).toBe(3);
    // In whatever order the client answers.
    await client.respond(third.id, {});
    await client.respond(second.id, { model: 'm', role: 'assistant', content: { type: 'text', text: 'Ho' } });
    await client.respond(first.id, { action: 'accept', content: { name: 'ann' } });
    expect(await elicited).toMatchObject({ action: 'accept', content: { name: 'ann' } });
    expect(await sampled).toMatchObject({ content: { text: 'Ho' } });
    expect(await pinged).toEqual({});
  });

  it('P7: McpSessionService.request() passes on the progress that the client reports under the wire id of the request', async () => {
    const client = await withRoots();
    const stream = await client.listen();
    const heard: number[] = [];
    const options = { onprogress: ({ progress }: { progress: number }) => void heard.push(progress) };
    const asked = app.service.request(client.sessionId!, { method: 'roots/list' }, options);
    const { id, params } = await question(stream);
    expect(params._meta.progressToken).toBe(id);
    await client.notify('notifications/progress', { progressToken: id, progress: 1 });
    await client.notify('notifications/progress', { progressToken: id, progress: 2 });
    await client.respond(id, { roots: [] });
    await asked;
    expect(heard).toEqual([1, 2]);
    await client.notify('notifications/progress', { progressToken: id, progress: 3 });
    expect(heard).toEqual([1, 2]);
    await eventually(() => expect(nobodys()).toHaveLength(1));
  });

  it('P7: McpSessionService.request() fails at once when no client reads the stream, and sends nothing', async () => {
    const client = await withRoots();
    await expect(askRoots(client.sessionId!)).rejects.toMatchObject({
      name: 'McpServerRequestError',
      code: 'NO_STREAM',
      message: expect.stringContaining('roots/list'),
    });
    await app.settled({ outbound: 0, events: 0, streams: 0, timers: 0 });
    expect((await client.listen()).messages).toEqual([]);
  });

  it('P7: McpSessionService.request() fails at once when the client lacks the capability, and sends nothing', async () => {
    const client = await app.client().initialize();
    const stream = await client.listen();
    for (const [method, params] of [
      ['roots/list', undefined],
      ['sampling/createMessage', { messages: [], maxTokens: 1 }],
      ['elicitation/create', { message: 'Who?', requestedSchema: { type: 'object', properties: {} } }],
    ] as const) {
      const asked = app.service.request(client.sessionId!, { method, ...(params && { params }) });
      await expect(asked).rejects.toMatchObject({ code: 'CLIENT_LACKS_CAPABILITY' });
    }
    await app.settled({ outbound: 0, events: 0 });
    expect(stream.messages).toEqual([]);
  });

  it('P7: inside a call that is answered as JSON it fails, even with an open standalone stream', async () => {
    await start({ responseMode: 'json' });
    const client = await withRoots();
    const standalone = await client.listen();
    const body = await (await client.call('asks')).json();
    expect(gists([body])).toEqual([expect.stringMatching(/"responseMode" is "json"/)]);
    expect(standalone.messages).toEqual([]);
    await app.settled({ outbound: 0, events: 0 });
  });

  it('P8: McpSessionService.request() fails when the call on whose behalf it asks is over', async () => {
    const client = await withRoots();
    const standalone = await client.listen();
    await (await client.call('asksLate', {}, { id: 'c' })).text();
    release.open();
    expect(await late).toMatchObject({ name: 'McpServerRequestError', code: 'CALL_OVER' });
    expect(standalone.messages).toEqual([]);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'late-message', method: 'roots/list', requestId: 'c', disposition: 'refused' }),
    );
  });

  it('P7: McpSessionService.request() fails when the session is unknown', async () => {
    const client = await withRoots();
    await (await client.delete()).text();
    for (const id of [client.sessionId!, 'never-was', '__proto__', 'constructor']) {
      const error = await askRoots(id).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(McpUnknownSessionError);
      expect(error).toMatchObject({ code: 'UNKNOWN_SESSION', sessionId: id, message: expect.stringContaining(id) });
    }
  });

  it('P7: McpSessionService.request() rebuilds a session that is not live; its client may be listening again by then', async () => {
    const client = await withRoots();
    await app.release(client.sessionId!);
    await expect(askRoots(client.sessionId!)).rejects.toMatchObject({ code: 'NO_STREAM' });
    await app.settled({ live: 1, outbound: 0 });
    const stream = await client.listen();
    const asked = askRoots(client.sessionId!);
    await client.respond((await question(stream)).id, { roots: ROOTS });
    expect(await asked).toEqual(ROOTS);
  });

  it('P7: McpSessionService.request() fails with what the client answers, when that is an error or nonsense', async () => {
    const client = await withRoots();
    const stream = await client.listen();
    const refusal = failure(askRoots(client.sessionId!));
    const { id } = await question(stream);
    await (await client.post({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no roots here' } })).text();
    expect(await refusal).toMatchObject({
      code: 'CLIENT_ERROR',
      message: expect.stringContaining('no roots here'),
      cause: { code: -32601 },
    });
    const misled = failure(askRoots(client.sessionId!));
    await client.respond((await question(stream, 2)).id, { roots: 'none' });
    expect(await misled).toMatchObject({ code: 'INVALID_ANSWER' });
    const flooded = failure(askRoots(client.sessionId!));
    await client.respond((await question(stream, 3)).id, { roots: Array.from({ length: 10_001 }, () => 1) });
    expect(await flooded).toMatchObject({
      code: 'INVALID_ANSWER',
      message: 'The answer of the client to "roots/list" has more than 10000 values.',
    });
    await app.settled({ outbound: 0 });
  });

  it('P7: a response counts once, and only from the session that was asked', async () => {
    const [client, other] = [await withRoots(), await withRoots()];
    const stream = await client.listen();
    const asked = askRoots(client.sessionId!);
    const { id } = await question(stream);
    await other.respond(id, { roots: [] });
    await app.settled({ outbound: 1 });
    await client.respond(id, { roots: ROOTS });
    await client.respond(id, { roots: [] });
    expect(await asked).toEqual(ROOTS);
    const nobody = { type: 'unknown-response', requestId: id };
    await eventually(() =>
      expect(nobodys()).toEqual([other, client].map(({ sessionId }) => ({ ...nobody, sessionId }))),
    );
  });

  it('P7: McpSessionService.request() ends after serverRequestTimeoutMs', async () => {
    const clock = new ManualClock();
    await start({ clock, serverRequestTimeoutMs: 5_000 });
    const client = await withRoots();
    const stream = await client.listen();
    const message = expect.stringContaining('serverRequestTimeoutMs');
    const timedOut = failure(askRoots(client.sessionId!));
    const { id } = await question(stream);
    await clock.advance(4_999);
    await app.settled({ outbound: 1 });
    await clock.advance(1);
    expect(await timedOut).toMatchObject({ code: -32001, message });
    await app.settled({ outbound: 0 });
    await client.respond(id, { roots: ROOTS });
    const nobody = { type: 'unknown-response', sessionId: client.sessionId, requestId: id };
    await eventually(() => expect(events.at(-1)).toEqual(nobody));
  });

  it('P7: McpSessionService.request() tells the client when the application gives up, by signal or by its own timeout', async () => {
    const client = await withRoots();
    const stream = await client.listen();
    const abort = new AbortController();
    const aborted = app.service.request(client.sessionId!, { method: 'roots/list' }, { signal: abort.signal });
    const first = await question(stream);
    abort.abort('not needed any more');
    expect(await failure(aborted)).toMatchObject({ message: 'not needed any more' });
    expect(await question(stream, 2)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: first.id },
    });
    const timed = app.service.request(client.sessionId!, { method: 'roots/list' }, { timeout: 1 });
    expect(await failure(timed)).toMatchObject({ code: -32001 });
    await stream.count(4);
    expect(stream.messages[3]).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: stream.messages[2].id },
    });
    await app.settled({ outbound: 0 });
  });

  it.each(['terminate', 'release'] as const)(
    'S14: McpSessionService.request() fails when the session ends meanwhile (%s)',
    async (how) => {
      const client = await withRoots();
      const stream = await client.listen();
      const rejected = failure(askRoots(client.sessionId!));
      await question(stream);
      await (how === 'release' ? app.release(client.sessionId!) : app.service.terminate(client.sessionId!));
      expect(await rejected).toMatchObject({ code: 'SESSION_OVER' });
      expect(await stream.end()).toBe('end');
      await app.settled({ outbound: 0, live: 0 });
    },
  );
});
