import { describe, expect, it } from 'vitest';
import { answerFrame, frame, initialized, progress, result, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes } from './transports.js';
import { loneFetch } from '../support/ways.js';

const DONE = { content: [] };

describe('passing faults', () => {
  const { server, transport, client } = fakes();

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
    await expect(recorded.call(1)).rejects.toMatchObject({ name: 'McpHttpStatusError', status: code });
    await recorded.call(2);
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C6: what may run twice is repeated, under an id of its own', async () => {
    const fake = (await server()).begins();
    const tools = [{ name: 'tool', inputSchema: { type: 'object' }, annotations: { idempotentHint: true } }];
    fake.on({ rpc: 'tools/list' }, status(502)).on({ rpc: 'tools/list' }, result({ tools }));
    fake.on({ rpc: 'tools/call' }, (response) => void response.destroy());
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1))], 'cut'));
    fake.on({ rpc: 'tools/call' }, sse([answerFrame(DONE)]));
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.transport.send({ jsonrpc: '2.0', id: 'l', method: 'tools/list' }));
    await recorded.through(recorded.call(1));
    expect(fake.seen({ rpc: 'tools/call' }).map(({ body }) => body.id)).toEqual([1, '1~1', '1~2']);
    expect(recorded.answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, result: DONE }]);
    expect(recorded.messages.filter((message) => 'id' in message)).toHaveLength(3);
  });

  it('C6: a tool without a hint is repeated only if the option says so', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(504)).on({ rpc: 'tools/call' }, result(DONE));
    fake.on({ rpc: 'tools/call' }, status(504));
    const asked: unknown[] = [];
    const recorded = await transport(fake.url, {
      replay: ({ params }) => asked.push(params?.['name']) === 1,
    }).initialize();
    await recorded.through(recorded.call(1));
    await expect(recorded.through(recorded.call(2))).rejects.toMatchObject({ status: 504 });
    expect(asked).toEqual(['tool', 'tool']);
  });

  it('C6: a request without a connection has not run, and is repeated', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, result(DONE));
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

  it('C6: the transport says which server did not answer, and why, when it gives up', async () => {
    const recorded = transport('http://user:secret@127.0.0.1:9/mcp?key=secret', {
      reconnect: { maxAttempts: 2 },
      fetch: (_, init) => loneFetch('http://127.0.0.1:9/mcp', init),
    });
    await recorded.transport.start();
    const error = await recorded.through(recorded.call(1)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'NO_ANSWER', cause: { code: 'ECONNREFUSED' } });
    expect((error as Error).message).toContain('http://127.0.0.1:9/mcp did not answer (ECONNREFUSED)');
    expect(recorded.reconnects).toHaveLength(1);
  });

  it('C6: notifications and answers are repeated', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'response' }, status(502)).on({ rpc: 'response' }, (response) => void response.destroy());
    fake.on({ rpc: 'response' }, status(202));
    const recorded = await transport(fake.url).initialize();
    await recorded.through(recorded.transport.send({ jsonrpc: '2.0', id: 9, result: {} }));
    expect(recorded.reconnects).toHaveLength(2);
  });

  it('C6: a notification that the server does not take fails connect() after "openTimeoutMs", by its name', async () => {
    for (const answer of [() => {}, status(503, { 'retry-after': '20' })]) {
      const fake = (await server()).on({ rpc: 'initialize' }, initialized());
      fake.on({ rpc: 'notifications/initialized' }, answer, Infinity);
      const { client: official, recorded } = client(fake.url);
      const connecting = official.connect(recorded.transport);
      connecting.catch(() => {});
      await fake.arrived({ rpc: 'notifications/initialized' });
      await eventually(() => expect(recorded.clock.pending).toBeGreaterThan(0));
      await recorded.clock.advance(30_000);
      await expect(connecting).rejects.toMatchObject({
        code: 'TIMEOUT',
        message: `${fake.url} did not respond to "notifications/initialized" within 30000 ms.`,
      });
    }
  });

  it('C6: an answer that the server does not take fails after "openTimeoutMs", by its id', async () => {
    const fake = (await server()).begins().on({ rpc: 'response' }, () => {});
    const recorded = await transport(fake.url).initialize();
    const sending = recorded.transport.send({ jsonrpc: '2.0', id: 9, result: {} });
    sending.catch(() => {});
    await fake.arrived({ rpc: 'response' });
    await recorded.clock.advance(30_000);
    await expect(sending).rejects.toMatchObject({
      message: `${fake.url} did not respond to the answer to its request 9 within 30000 ms.`,
    });
  });

  it('C6: the transport repeats a request as often as the option says', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, status(503), 3);
    const recorded = await transport(fake.url, { reconnect: { maxAttempts: 3 } }).initialize();
    await expect(recorded.through(recorded.call(1))).rejects.toMatchObject({ status: 503 });
  });
});
