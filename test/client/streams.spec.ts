import { McpStreamLostError } from 'nestjs-mcp-streamable/client';
import { describe, expect, it, vi } from 'vitest';
import { frame, held, progress, result, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes } from './transports.js';

const DONE = { content: [] };
const answerOf = (id: string | number, event?: string) => frame({ jsonrpc: '2.0', id, result: DONE }, event);

describe('a response that ends before the answer', () => {
  const { server, transport } = fakes();

  it.each(['end', 'cut'] as const)(
    'C4: a response that ends before the answer is resumed from its cursor after an %s',
    async (how) => {
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
    },
  );

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

  it("C4: a response that ends before the answer waits for what the server's retry says, and never less afterwards", async () => {
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

  it('C4: a response that ends before the answer gives up after as many attempts in a row as the option says; the session lives', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'cut'));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, status(500), 3);
    fake.on({ rpc: 'tools/call' }, result(DONE));
    const recorded = await transport(fake.url, { reconnect: { maxAttempts: 3 } }).initialize();
    await expect(recorded.through(recorded.call(1))).rejects.toThrow('in 3 attempts');
    await recorded.call(2);
  });

  it.each([
    [405, 'no more events'],
    [400, 'HTTP 400'],
  ])('C4: a cursor that the server refuses with %i is not asked for again', async (code, text) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')]));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, status(code));
    const recorded = await transport(fake.url).initialize();
    const failure = recorded.through(recorded.call(1));
    await expect(failure).rejects.toBeInstanceOf(McpStreamLostError);
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
        name: 'McpStreamLostError',
        code: 'STREAM_LOST',
        mayHaveRun: true,
      });
      await recorded.call(2);
      expect(recorded.transport.state.is).toBe('live');
    },
  );

  it('C4: a silent response that can be resumed is taken for dead; one that cannot is not cut', async () => {
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
    const armed = vi.spyOn(recorded.clock, 'setTimeout');
    dead.write(':\n\n');
    // A comment breaks the silence.
    await eventually(() => expect(armed).toHaveBeenCalled());
    await recorded.clock.advance(500);
    expect(recorded.reconnects).toEqual([]);
    await recorded.clock.advance(600);
    await recorded.through(call);
    expect(recorded.reconnects).toMatchObject([{ kind: 'resume', cause: { code: 'SILENT' } }]);
    alive.end(answerOf(2));
    await other;
  });

  it('C4: a response that is silent from its first event on is taken for dead', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'open'));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, sse([answerOf(1)]));
    const recorded = await transport(fake.url, { silenceMs: 1_000 }).initialize();
    const call = recorded.call(1);
    await eventually(() => expect(recorded.messages).toHaveLength(2));
    await recorded.clock.advance(1_000);
    await recorded.through(call);
    expect(recorded.reconnects).toMatchObject([{ kind: 'resume', cause: { code: 'SILENT' } }]);
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

  it.each([
    ['a control character', 'a\u0001b'],
    ['characters beyond Latin-1', 'ключ'],
    ['a space at its end', 'a '],
    ['more than 8 KiB', 'x'.repeat(8_193)],
  ])('C5: a response whose last event id has %s cannot be resumed', async (_, id) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1'), frame(progress('t', 2), id)], 'cut'));
    const recorded = await transport(fake.url).initialize();
    const error = await recorded.call(1).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(McpStreamLostError);
    expect((error as Error).message).toContain('its last event id cannot be sent in a header');
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C4: an event id of 8 KiB is sent back as it came', async () => {
    const id = 'é x'.padEnd(8_192, 'x');
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), id)], 'cut'));
    fake.on({ method: 'GET' }, sse([answerOf(1)]));
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.call(1));
    expect(fake.seen({ method: 'GET' })[1]!.headers['last-event-id']).toBe(id);
  });

  it('a cancelled request is cancelled on the server, and not resumed', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'open'));
    fake.on({ rpc: 'notifications/cancelled' }, status(202));
    const recorded = await transport(fake.url).initialize();
    const call = recorded.call(1);
    call.catch(() => {});
    await eventually(() => expect(recorded.messages).toHaveLength(2));
    await recorded.transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    await expect(call).rejects.toMatchObject({ code: 'CANCELLED' });
    await fake.quiet();
  });
});
