import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { type FakeMcpServer, frame, initialized, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes } from './transports.js';

describe('a server that floods its client with requests', () => {
  const { server, transport, client } = fakes();

  const requests = (count: number, from = 0): string =>
    Array.from({ length: count }, (_, i) => frame({ jsonrpc: '2.0', id: from + i, method: 'ping' })).join('');
  const cancelled = (requestId: number): string =>
    frame({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } });
  const LAST = frame({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'last' } });

  /** A session whose standalone stream stays open after the frames. Answers wait until `pass` is called. */
  async function flooding(...frames: string[]) {
    const fake = (await server()).on({ rpc: 'initialize' }, initialized()).on({ method: 'GET' }, sse(frames, 'open'));
    fake.on({ rpc: 'notifications/initialized' }, status(202));
    const held: ServerResponse[] = [];
    let open = false;
    const answer = (response: ServerResponse): void =>
      void (open ? response.writeHead(202).end() : held.push(response));
    const pass = (): void => {
      open = true;
      for (const response of held) response.writeHead(202).end();
    };
    fake.on({ rpc: 'response' }, answer, Infinity);
    return { fake, pass };
  }

  const answersOf = (fake: FakeMcpServer): unknown[] => fake.seen({ rpc: 'response' }).map(({ body }) => body.id);

  it('C14: 32 answers are on their way at once, 256 requests wait for theirs; further ones are dropped', async () => {
    const { fake, pass } = await flooding(requests(500), requests(500, 500), LAST);
    const { client: official, recorded } = client(fake.url);
    const logged = new Promise((resolve) => official.setNotificationHandler('notifications/message', resolve));
    const errors: Error[] = [];
    official.onerror = (error) => void errors.push(error);
    await official.connect(recorded.transport);
    // The notification comes after the whole flood.
    await logged;
    await fake.arrived({ rpc: 'response' }, 32);
    expect(answersOf(fake)).toHaveLength(32);
    pass();
    for (let answers = 64; answers <= 256; answers += 32) await fake.arrived({ rpc: 'response' }, answers);
    expect(new Set(answersOf(fake))).toEqual(new Set(Array.from({ length: 256 }, (_, id) => id)));
    expect(errors).toMatchObject([{ code: 'TOO_MANY_REQUESTS' }]);
    await official.close();
  });

  it('C14: requests that the server has cancelled make room, each once', async () => {
    const cancels = Array.from({ length: 10 }, () => cancelled(7)).join('');
    const { fake } = await flooding(requests(256), cancels, requests(2, 1_000), LAST);
    const recorded = await transport(fake.url).initialize();
    await eventually(() => expect(recorded.messages.at(-1)).toMatchObject({ method: 'notifications/message' }));
    const pings = recorded.messages.filter((message) => 'method' in message && message.method === 'ping');
    expect(pings).toHaveLength(257);
    expect(pings.at(-1)).toMatchObject({ id: 1_000 });
  });

  it('C14: a client that has answered gets requests again, and another report when they are too many', async () => {
    const { fake, pass } = await flooding(requests(300), LAST);
    const recorded = await transport(fake.url, { reconnect: { firstDelayMs: 1 } }).initialize();
    await eventually(() => expect(recorded.messages.at(-1)).toMatchObject({ method: 'notifications/message' }));
    pass();
    await Promise.all(
      Array.from({ length: 256 }, (_, id) => recorded.transport.send({ jsonrpc: '2.0', id, result: {} })),
    );
    recorded.messages.length = 0;
    fake.on({ rpc: 'tools/call' }, sse([requests(300), frame({ jsonrpc: '2.0', id: 'c', result: { content: [] } })]));
    await recorded.call('c');
    expect(recorded.messages).toHaveLength(257);
    expect(recorded.errors).toMatchObject([{ code: 'TOO_MANY_REQUESTS' }, { code: 'TOO_MANY_REQUESTS' }]);
  });

  it('C14: an answer whose 202 has a body without an end occupies its place for a second', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'response' }, (response) => void response.writeHead(202).write('x'), Infinity);
    const recorded = await transport(fake.url).initialize();
    const sending = Array.from({ length: 33 }, (_, id) => recorded.transport.send({ jsonrpc: '2.0', id, result: {} }));
    await Promise.all(sending.slice(0, 32));
    expect(answersOf(fake)).toHaveLength(32);
    await recorded.clock.advance(1_000);
    await sending[32];
    expect(answersOf(fake)).toHaveLength(33);
  });
});
