import { once } from 'node:events';
import {
  type ClientRequest,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../common/clock.js';
import { deferred } from '../common/promises.js';
import type { McpReply } from '../calls/reply.js';
import { McpResponder } from './responder.js';

const responder = new McpResponder({ keepAliveMs: 0, maxBufferedBytes: 1024 * 1024, clock: systemClock });

describe('the reply to a POST', () => {
  let server: Server;
  let responses: ServerResponse[];

  beforeEach(async () => {
    responses = [];
    server = createServer((_request, response) => void responses.push(response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });

  afterEach(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
    // Whatever happened, nothing is left.
    for (const response of responses) expect(response.listeners('close').filter(isOurs)).toEqual([]);
  });

  const isOurs = ({ name }: { name: string }): boolean => name === 'cancel';

  async function post(): Promise<{ request: ClientRequest; response: ServerResponse }> {
    const { port } = server.address() as AddressInfo;
    const arrived = once(server, 'request');
    const request = httpRequest({ port, host: '127.0.0.1', agent: false, method: 'POST' });
    request.on('error', () => undefined).end();
    await arrived;
    return { request, response: responses.at(-1)! };
  }

  function exchange() {
    const { promise, resolve, reject } = deferred<McpReply>();
    const cancel = vi.fn();
    return { reply: promise, cancel, resolve, reject };
  }

  it('the reply to a POST is awaited, and not abandoned by a client that leaves afterwards', async () => {
    const { request, response } = await post();
    const pending = exchange();
    const replied = responder.replyOf(pending, response);
    pending.resolve({ kind: 'accepted' });
    expect(await replied).toEqual({ kind: 'accepted' });
    request.destroy();
    await once(response, 'close');
    expect(pending.cancel).not.toHaveBeenCalled();
  });

  it('the reply to a POST may be a refusal', async () => {
    const { response } = await post();
    const pending = exchange();
    pending.reject(new Error('no'));
    await expect(responder.replyOf(pending, response)).rejects.toThrow('no');
  });

  it('the reply to a POST is abandoned by a client that leaves meanwhile', async () => {
    const { request, response } = await post();
    const pending = exchange();
    const replied = responder.replyOf(pending, response);
    request.destroy();
    await once(response, 'close');
    expect(pending.cancel).toHaveBeenCalledOnce();
    pending.resolve({ kind: 'accepted' });
    await replied;
  });

  it('the reply to a POST is abandoned by a client that had left before', async () => {
    const { request, response } = await post();
    request.destroy();
    await once(response, 'close');
    const pending = exchange();
    const replied = responder.replyOf(pending, response);
    expect(pending.cancel).toHaveBeenCalledOnce();
    pending.resolve({ kind: 'accepted' });
    await replied;
    expect(responder.stream(response)).toBeUndefined();
  });

  it('the reply to a POST is not written when the client has gone, or when the app has answered', async () => {
    const [gone, answered] = [await post(), await post()];
    gone.request.destroy();
    await once(gone.response, 'close');
    answered.response.writeHead(408).end();
    for (const { response } of [gone, answered]) {
      const write = vi.spyOn(response, 'end');
      responder.send(response, { kind: 'json', body: '{}' });
      expect([write.mock.calls, responder.stream(response)]).toEqual([[], undefined]);
    }
    const [received] = (await once(answered.request, 'response')) as [IncomingMessage];
    expect(received.statusCode).toBe(408);
  });

  it('the reply to a POST is written to Node directly where there is no adapter', async () => {
    const { request, response } = await post();
    responder.send(response, { kind: 'json', body: '{}', status: 403, headers: { 'X-Own': 'yes' } });
    const [received] = (await once(request, 'response')) as [IncomingMessage];
    expect(received).toMatchObject({
      statusCode: 403,
      headers: { 'x-own': 'yes', 'content-type': 'application/json' },
    });
    expect(await text(received)).toBe('{}');
  });
});
