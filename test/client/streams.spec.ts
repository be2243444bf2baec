import { SessionLostError, StreamLostError } from 'nestjs-mcp-streamable/client';
import { describe, expect, it } from 'vitest';
import { answerFrame, frame, held, progress, result, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/running-apps.js';
import { fakes } from './transports.js';

const DONE = { content: [] };
const answerOf = (id: string | number, event?: string) => frame({ jsonrpc: '2.0', id, result: DONE }, event);

describe('a response that ends before the answer', () => {
  const { server, transport } = fakes();

  it.each(['end', 'cut'] as const)('C4: is resumed from its cursor after an %s', async (how) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], how));
    fake.on({ method: 'GET', session: 's1', lastEventId: 'a_1' }, sse([frame(progress('t', 2), 'a_2')], how));
    fake.on({ method: 'GET', session: 's1', lastEventId: 'a_2' }, sse([answerOf(1, 'a_3')]));
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.messages.slice(1)).toMatchObject([
      { params: { progress: 1 } },
      { params: { progress: 2 } },
      { id: 1 },
    ]);
    expect(recorded.reconnects).toMatchObject([
      { kind: 'resume', requestId: 1, failures: 0 },
      { kind: 'resume', requestId: 1, failures: 0 },
    ]);
    expect(fake.seen({ method: 'GET', lastEventId: 'a_1' })[0]!.headers).toMatchObject({
      accept: 'text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    });
  });

  it('C4: the cursor survives attempts without progress, and the waits grow', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse(['id: a_0\ndata:\n\n'], 'cut'));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, status(502));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, sse([], 'end'));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, (response) => void response.destroy());
    fake.on({ method: 'GET', lastEventId: 'a_0' }, status(200, { 'content-type': 'text/html' }, '<html>'));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, sse([answerOf(1, 'a_1')]));
    const recorded = await transport(fake.url, { reconnect: { firstDelayMs: 100, maxDelayMs: 500 } }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects.map(({ delayMs }) => delayMs)).toEqual([100, 200, 400, 500, 500]);
    expect(recorded.reconnects.map(({ failures }) => failures)).toEqual([0, 1, 2, 3, 4]);
    expect(recorded.answers(1)).toHaveLength(1);
  });

  it("C4: waits for what the server's retry says, and never less afterwards", async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse(['id: a_0\nretry: 700\ndata:\n\n'], 'end'));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, status(503, { 'retry-after': '2' }));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, status(500));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, sse([answerOf(1)]));
    const recorded = await transport(fake.url, { reconnect: { firstDelayMs: 100 } }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects.map(({ delayMs }) => delayMs)).toEqual([700, 2_000, 700]);
  });

  it('C4: a server that closes connections on purpose is followed for as long as it likes', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse(['id: a_0\nretry: 10\ndata:\n\n']));
    fake.on({ method: 'GET', lastEventId: 'a_0' }, sse(['id: a_0\nretry: 10\ndata:\n\n']), 20);
    fake.on({ method: 'GET', lastEventId: 'a_0' }, sse([answerOf(1)]));
    const recorded = await transport(fake.url, { reconnect: { maxAttempts: 2 } }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects.every(({ delayMs }) => delayMs === 10)).toBe(true);
  });

  it('C4: an error answer counts as an answer', async () => {
    const fake = (await server()).begins();
    const error = { jsonrpc: '2.0', id: 1, error: { code: -32603, message: 'failed' } };
    fake.on({ rpc: 'tools/call' }, sse([frame(error, 'a_1')]));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    await fake.quiet();
    expect(recorded.answers(1)).toEqual([error]);
    expect(recorded.reconnects).toEqual([]);
  });

  it('C4: gives up after as many attempts in a row as the option says; the session lives', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'cut'));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, status(500), 3);
    fake.on({ rpc: 'tools/call' }, result(DONE));
    const recorded = await transport(fake.url, { reconnect: { maxAttempts: 3 } }).initialize();
    await expect(recorded.through(recorded.call(1))).rejects.toThrow('in 3 attempts');
    await recorded.call(2);
  });

  it.each([
    [405, 'nothing more'],
    [400, 'HTTP 400'],
  ])('C4: a cursor that the server refuses with %i is not asked for again', async (code, text) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')]));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, status(code));
    const recorded = await transport(fake.url).initialize();
    const failure = recorded.through(recorded.call(1));
    await expect(failure).rejects.toBeInstanceOf(StreamLostError);
    await expect(failure).rejects.toThrow(text);
    expect(recorded.transport.state.is).toBe('live');
  });

  it.each(['end', 'cut'] as const)(
    'C5: without a cursor that call fails after an %s, and the session lives',
    async (how) => {
      const fake = (await server()).begins();
      fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1))], how)).on({ rpc: 'tools/call' }, result(DONE));
      const recorded = await transport(fake.url).initialize();
      await expect(recorded.call(1)).rejects.toMatchObject({
        name: 'StreamLostError',
        code: 'STREAM_LOST',
        mayHaveRun: true,
      });
      await recorded.call(2);
      expect(recorded.transport.state.is).toBe('live');
    },
  );

  it('C4: a silent response that can be resumed is taken for dead; one that cannot is left in peace', async () => {
    const fake = (await server()).begins();
    const silent = held();
    const patient = held();
    fake.on({ rpc: 'tools/call' }, silent.answer).on({ rpc: 'tools/call' }, patient.answer);
    fake.on({ method: 'GET', lastEventId: 'a_1' }, sse([answerOf(1)]));
    const recorded = await transport(fake.url, { silenceMs: 1_000 }).initialize();
    const call = recorded.call(1);
    const dead = await silent.arrived;
    dead.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame(progress('t', 1), 'a_1'));
    const other = recorded.call(2);
    const alive = await patient.arrived;
    alive.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame(progress('t', 2)));
    await eventually(() => expect(recorded.messages).toHaveLength(3));
    await recorded.clock.advance(999);
    dead.write(':\n\n');
    // A comment is a sign of life.
    await eventually(() => expect(recorded.clock.pending).toBe(1));
    await recorded.clock.advance(500);
    expect(recorded.reconnects).toEqual([]);
    await recorded.clock.advance(600);
    await recorded.through(call);
    expect(recorded.reconnects).toMatchObject([{ kind: 'resume', cause: { code: 'SILENT' } }]);
    alive.end(answerOf(2));
    await other;
  });

  it('C4: a response that the caller resumes by its token brings the answer under the new id', async () => {
    const fake = (await server()).begins();
    fake.on({ method: 'GET', lastEventId: 'old_4' }, sse([frame(progress('t', 5), 'old_5'), answerOf(17, 'old_6')]));
    const recorded = await transport(fake.url).initialize();
    const tokens: string[] = [];
    const request = { jsonrpc: '2.0' as const, id: 3, method: 'tools/call', params: { name: 'tool' } };
    const options = { resumptionToken: 'old_4', onresumptiontoken: (token: string) => tokens.push(token) };
    await recorded.through(recorded.transport.send(request, options));
    expect(recorded.answers(3)).toHaveLength(1);
    expect(tokens).toEqual(['old_5', 'old_6']);
  });

  it('a cancelled request is cancelled on the server, and not resumed', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'open'));
    fake.on({ rpc: 'notifications/cancelled' }, status(202));
    const recorded = await transport(fake.url).initialize();
    const call = recorded.call(1);
    await eventually(() => expect(recorded.messages).toHaveLength(2));
    await recorded.transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    await expect(call).rejects.toMatchObject({ code: 'CANCELLED' });
    await fake.quiet();
  });
});

describe('passing faults', () => {
  const { server, transport } = fakes();

  it.each([429, 503])('C6: %i is repeated after what Retry-After says; the session lives', async (code) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(code, { 'retry-after': '3' })).on({ rpc: 'tools/call' }, result(DONE));
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects).toMatchObject([{ kind: 'retry', requestId: 1, delayMs: 3_000 }]);
    expect(fake.seen({ rpc: 'tools/call' }).map(({ body }) => body.id)).toEqual([1, 1]);
  });

  it.each([502, 504])('C6: %i fails that call, as it may have run; the session lives', async (code) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(code, { 'content-type': 'text/html' }, '<html>Bad gateway</html>'));
    fake.on({ rpc: 'tools/call' }, result(DONE));
    const recorded = await transport(fake.url).initialize();
    await expect(recorded.call(1)).rejects.toMatchObject({ name: 'HttpStatusError', status: code });
    await recorded.call(2);
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C6: what may run twice is repeated, under an id of its own, and the first is cancelled', async () => {
    const fake = (await server()).begins();
    const tools = [{ name: 'tool', inputSchema: { type: 'object' }, annotations: { idempotentHint: true } }];
    fake.on({ rpc: 'tools/list' }, status(502)).on({ rpc: 'tools/list' }, result({ tools }));
    fake.on({ rpc: 'tools/call' }, (response) => void response.destroy());
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1))], 'cut'));
    fake.on({ rpc: 'tools/call' }, sse([answerFrame(DONE)]));
    fake.on({ rpc: 'notifications/cancelled' }, status(202), 3);
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.transport.send({ jsonrpc: '2.0', id: 'l', method: 'tools/list' }));
    await recorded.through(recorded.call(1));
    expect(fake.seen({ rpc: 'tools/call' }).map(({ body }) => body.id)).toEqual([1, '1~1', '1~2']);
    await fake.arrived({ rpc: 'notifications/cancelled' }, 3);
    const cancelled = fake.seen({ rpc: 'notifications/cancelled' }).map(({ body }) => body.params.requestId);
    expect(cancelled).toEqual(['l', 1, '1~1']);
    expect(recorded.answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, result: DONE }]);
    expect(recorded.messages.filter((message) => 'id' in message)).toHaveLength(3);
  });

  it('C6: a tool without a hint is repeated only if the option says so', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(504)).on({ rpc: 'tools/call' }, result(DONE));
    fake.on({ rpc: 'tools/call' }, status(504));
    fake.on({ rpc: 'notifications/cancelled' }, status(202));
    const asked: unknown[] = [];
    const recorded = await transport(fake.url, {
      replay: ({ request, reason, idempotent }) => asked.push([request.params?.['name'], reason, idempotent]) === 1,
    }).initialize();
    await recorded.through(recorded.call(1));
    await expect(recorded.through(recorded.call(2))).rejects.toMatchObject({ status: 504 });
    expect(asked).toEqual([
      ['tool', 'no-answer', false],
      ['tool', 'no-answer', false],
    ]);
    await fake.arrived({ rpc: 'notifications/cancelled' });
  });

  it('C6: without a connection nothing has run: repeated', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, result(DONE));
    const { loneFetch } = await import('../support/lone-fetch.js');
    let refuse = false;
    const recorded = await transport(fake.url, {
      fetch: (url, init) => {
        if (!refuse) return loneFetch(url, init);
        refuse = false;
        return Promise.reject(
          new TypeError('fetch failed', { cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }) }),
        );
      },
    }).initialize();
    refuse = true;
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects).toMatchObject([{ kind: 'retry', failures: 0 }]);
  });

  it('C6: notifications and answers are repeated', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'response' }, status(502)).on({ rpc: 'response' }, (response) => void response.destroy());
    fake.on({ rpc: 'response' }, status(202));
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.transport.send({ jsonrpc: '2.0', id: 9, result: {} }));
    expect(recorded.reconnects).toHaveLength(2);
  });

  it('C6: as often as the option says', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, status(503), 3);
    const recorded = await transport(fake.url, { reconnect: { maxAttempts: 3 } }).initialize();
    await expect(recorded.through(recorded.call(1))).rejects.toMatchObject({ status: 503 });
  });
});

describe('a lost session', () => {
  const { server, transport } = fakes();

  it('C7: 404 on a live session is typed, and fails everything of the session at once', async () => {
    const fake = (await server()).begins();
    const open = held();
    fake.on({ rpc: 'tools/call' }, open.answer).on({ rpc: 'tools/call' }, status(404));
    const recorded = await transport(fake.url).initialize();
    const first = recorded.call(1);
    await open.arrived;
    await expect(recorded.call(2)).rejects.toMatchObject({ code: 'SESSION_LOST', sessionId: 's1', mayHaveRun: false });
    await expect(first).rejects.toMatchObject({ code: 'SESSION_LOST', mayHaveRun: true });
    expect(recorded.transport.state).toEqual({ is: 'lost', lostSessionId: 's1' });
    // Without asking the server again.
    await expect(recorded.call(3)).rejects.toBeInstanceOf(SessionLostError);
    expect(fake.seen({ rpc: 'tools/call' })).toHaveLength(2);
    expect(recorded.transport.sessionId).toBeUndefined();
  });

  it('C7: 404 without a session is no lost session', async () => {
    const fake = (await server()).on({ rpc: 'tools/call' }, status(404));
    const recorded = transport(fake.url);
    await recorded.transport.start();
    await expect(recorded.call(1)).rejects.toMatchObject({ name: 'HttpStatusError', status: 404 });
    expect(recorded.transport.state.is).toBe('started');
  });

  it('C7: initialised anew by itself; what did not run is repeated, what may have is not', async () => {
    const fake = (await server()).begins();
    const streaming = held();
    fake.on({ rpc: 'tools/call', session: 's1' }, streaming.answer);
    fake.on({ rpc: 'tools/call', session: 's1' }, status(404));
    fake.begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE), 2);
    const recorded = await transport(fake.url, { recover: true }).initialize();
    const interrupted = recorded.call('running');
    const response = await streaming.arrived;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame(progress('t', 1), 'a_1'));
    await eventually(() => expect(recorded.messages).toHaveLength(2));
    const outcome = expect(interrupted).rejects.toMatchObject({ code: 'SESSION_LOST', mayHaveRun: true });
    await recorded.call(1);
    await outcome;
    await recorded.call(2);
    expect(recorded.transport.sessionId).toBe('s2');
    await eventually(() =>
      expect(recorded.recoveries).toEqual([
        { outcome: 'recovered', lostSessionId: 's1', sessionId: 's2', replayed: [1], failed: ['running'] },
      ]),
    );
    expect(recorded.states).toEqual(['new', 'started', 'initializing', 'live', 'recovering', 'live']);
    // The client has seen one initialize answer, and none of a request it did not make.
    expect(
      recorded.messages.filter((message) => !('method' in message)).map((message) => 'id' in message && message.id),
    ).toEqual(['init', 1, 2]);
    const [first, second] = fake.seen({ rpc: 'initialize' });
    expect(second!.body.params).toEqual(first!.body.params);
    expect(second!.headers).not.toHaveProperty('mcp-session-id');
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it('C7: one recovery for all who find out together', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call', session: 's1' }, status(404), 5);
    const init = held();
    fake.on({ rpc: 'initialize' }, init.answer).on({ rpc: 'notifications/initialized', session: 's2' }, status(202));
    fake.on({ method: 'GET', session: 's2' }, status(405)).on({ rpc: 'tools/call', session: 's2' }, result(DONE), 6);
    const recorded = await transport(fake.url, { recover: true }).initialize();
    const calls = [1, 2, 3, 4, 5].map((id) => recorded.call(id));
    const response = await init.arrived;
    await fake.arrived({ rpc: 'tools/call', session: 's1' }, 5);
    const late = recorded.call(6);
    const { initialized } = await import('../support/fake-mcp-server.js');
    await initialized('s2')(response, init.request());
    await Promise.all([...calls, late]);
    expect(fake.seen({ rpc: 'initialize' })).toHaveLength(2);
    expect(recorded.recoveries).toMatchObject([{ replayed: [1, 2, 3, 4, 5] }]);
  });

  it('C7: what may run twice is repeated in the new session', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call', session: 's1' }, sse([frame(progress('t', 1), 'a_1')], 'cut'));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, status(404)).begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE));
    const recorded = await transport(fake.url, { recover: true, replay: 'always' }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.answers(1)).toHaveLength(1);
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it.each([
    ['refuses', status(403)],
    ['has become another revision', undefined],
  ])('C7: a server that %s ends the recovery: lost', async (_, answer) => {
    const fake = (await server()).begins().on({ rpc: 'tools/call', session: 's1' }, status(404));
    if (answer) fake.on({ rpc: 'initialize' }, answer);
    else fake.begins('s2', '2025-03-26');
    const recorded = await transport(fake.url, { recover: true, standaloneStream: !!answer }).initialize();
    if (!answer) await fake.close().catch(() => {});
    await expect(recorded.call(1)).rejects.toBeInstanceOf(Error);
  });

  it('C7: passing faults of the recovery are ridden out', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call', session: 's1' }, status(404));
    fake.on({ rpc: 'initialize' }, status(503)).on({ rpc: 'initialize' }, status(502)).begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE));
    const recorded = await transport(fake.url, { recover: true }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects.map(({ kind }) => kind)).toEqual(['recover', 'recover']);
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it('C7: a standalone stream that was there and answers 404 has lost the session too', async () => {
    const fake = (await server()).on(
      { rpc: 'initialize' },
      (await import('../support/fake-mcp-server.js')).initialized('s1'),
    );
    fake.on({ rpc: 'notifications/initialized', session: 's1' }, status(202));
    fake.on({ method: 'GET', session: 's1' }, sse([': hello\n\n'])).on({ method: 'GET', session: 's1' }, status(404));
    fake.begins('s2');
    const recorded = await transport(fake.url, { recover: true }).initialize();
    await recorded.through(fake.arrived({ method: 'GET', session: 's2' }));
    expect(recorded.transport.sessionId).toBe('s2');
  });
});

describe('the standalone stream', () => {
  const { server, transport } = fakes();
  const listChanged = frame({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }, '0_1');

  async function live(...answers: Parameters<Awaited<ReturnType<typeof server>>['on']>[1][]) {
    const { initialized } = await import('../support/fake-mcp-server.js');
    const fake = (await server()).on({ rpc: 'initialize' }, initialized());
    fake.on({ rpc: 'notifications/initialized' }, status(202));
    for (const answer of answers) fake.on({ method: 'GET', session: 's1', lastEventId: null }, answer);
    return fake;
  }

  it('C10: brings what belongs to no request, and comes back from its cursor', async () => {
    const fake = await live(sse(['id: 0_0\nretry: 40\ndata:\n\n', listChanged]));
    const again = held();
    fake.on({ method: 'GET', session: 's1', lastEventId: '0_1' }, again.answer);
    const recorded = await transport(fake.url).initialize();
    await recorded.through(again.arrived);
    expect(recorded.messages.slice(1)).toMatchObject([{ method: 'notifications/tools/list_changed' }]);
    expect(recorded.reconnects).toMatchObject([{ kind: 'standalone', failures: 0, delayMs: 40 }]);
    expect(recorded.errors).toEqual([]);
  });

  it('C10: 405 is fine', async () => {
    const fake = await live(status(405));
    const recorded = await transport(fake.url).initialize();
    await fake.arrived({ method: 'GET' });
    await fake.quiet();
    await recorded.clock.advance(60_000);
    expect(recorded.errors).toEqual([]);
    expect(fake.seen({ method: 'GET' })).toHaveLength(1);
  });

  it('C10: any failure backs off, is reported once in a row, and is never fatal', async () => {
    const failures = [500, 404, 401, 400, 409, 429, 302].map((code) => status(code));
    const html = status(200, { 'content-type': 'text/html' }, '<html>');
    const last = held();
    const fake = await live(...failures, html, (response) => void response.destroy(), last.answer);
    fake.on({ rpc: 'tools/call' }, result(DONE));
    const recorded = await transport(fake.url, { reconnect: { maxDelayMs: 1_000, maxAttempts: 1 } }).initialize();
    await recorded.through(last.arrived);
    expect(recorded.reconnects).toHaveLength(9);
    expect(recorded.reconnects.at(-1)).toMatchObject({ failures: 9, delayMs: 1_000 });
    expect(recorded.errors).toHaveLength(1);
    await recorded.call(1);
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C10: a cursor that is refused is dropped', async () => {
    const fake = await live(sse([listChanged]));
    const again = held();
    fake.on({ method: 'GET', lastEventId: '0_1' }, status(400));
    fake.on({ method: 'GET', lastEventId: null }, again.answer);
    const recorded = await transport(fake.url).initialize();
    await recorded.through(again.arrived);
  });

  it('C10: a GET that does not open is given up, one that is silent too', async () => {
    const silent = held();
    const last = held();
    const fake = await live(() => {}, silent.answer, last.answer);
    const recorded = await transport(fake.url, {
      openTimeoutMs: 500,
      silenceMs: 5_000,
      reconnect: { firstDelayMs: 1 },
    }).initialize();
    await fake.arrived({ method: 'GET' });
    await recorded.clock.advance(500);
    await recorded.through(
      silent.arrived.then((response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
        return eventually(() => expect(recorded.clock.pending).toBe(1));
      }),
    );
    await recorded.clock.advance(5_000);
    await recorded.through(last.arrived);
    expect(recorded.reconnects).toMatchObject([{ cause: { code: 'TIMEOUT' } }, { cause: { code: 'SILENT' } }]);
  });

  it('C10: optional', async () => {
    const fake = await live();
    await transport(fake.url, { standaloneStream: false }).initialize();
    expect(fake.requests).toHaveLength(2);
  });
});
