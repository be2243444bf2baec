import { describe, expect, it } from 'vitest';
import { frame, held, initialized, result, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes } from './transports.js';

const DONE = { content: [] };

describe('the standalone stream', () => {
  const { server, transport } = fakes();
  const listChanged = frame({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }, '0_1');

  async function live(...answers: Parameters<Awaited<ReturnType<typeof server>>['on']>[1][]) {
    const fake = (await server()).on({ rpc: 'initialize' }, initialized());
    fake.on({ rpc: 'notifications/initialized' }, status(202));
    for (const answer of answers) fake.on({ method: 'GET', session: 's1', lastEventId: null }, answer);
    return fake;
  }

  it('C10: the standalone stream brings what belongs to no request, and comes back from its cursor', async () => {
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

  it('C10: a cursor that no header can carry is dropped, and reported', async () => {
    const fake = await live(sse([frame({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }, 'ключ')]));
    const again = held();
    fake.on({ method: 'GET', lastEventId: null }, again.answer);
    const recorded = await transport(fake.url).initialize();
    await recorded.through(again.arrived);
    expect(recorded.errors).toMatchObject([{ code: 'STREAM_LOST' }]);
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
    expect(recorded.reconnects).toMatchObject([
      { cause: { code: 'TIMEOUT', message: expect.stringContaining('did not respond to the GET of an event stream') } },
      { cause: { code: 'SILENT' } },
    ]);
  });

  it('C10: optional', async () => {
    const fake = await live();
    await transport(fake.url, { standaloneStream: false }).initialize();
    expect(fake.requests).toHaveLength(2);
  });
});
