import 'reflect-metadata';
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
import { Controller, Get, Header, Module, Res, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { concat, NEVER, of } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../common/clock.js';
import { deferred } from '../common/promises.js';
import type { McpReply } from '../calls/mcp-exchange.js';
import { McpResponder } from './responder.js';

let app: INestApplication;
let reply: McpReply;
let failure: unknown;
const options = { keepAliveMs: 0, maxBufferedBytes: 1024 * 1024, clock: systemClock };
const responder = new McpResponder(options);

@Controller()
class AnyController {
  @Get()
  @Header('X-App', 'yes')
  get(@Res() response: object) {
    try {
      if (reply.kind !== 'events') return responder.send(response, reply);
      const stream = responder.stream(response)!;
      stream.start(reply.open(stream));
    } catch (error) {
      failure = error;
      app.getHttpAdapter().reply(response, { failed: true }, 500);
    }
  }
}

@Module({ controllers: [AnyController] })
class AnyModule {}

async function ask(): Promise<IncomingMessage> {
  const { port } = app.getHttpServer().address() as AddressInfo;
  const request = httpRequest({ port, host: '127.0.0.1', agent: false });
  request.end();
  return ((await once(request, 'response')) as [IncomingMessage])[0];
}

describe.each(['express', 'fastify'])('the replies of %s', (kind) => {
  beforeEach(async () => {
    app = await NestFactory.create(AnyModule, kind === 'express' ? new ExpressAdapter() : new FastifyAdapter(), {
      logger: false,
    });
    await app.listen(0, '127.0.0.1');
  });

  afterEach(async () => {
    void responder.drain(0);
    await app.close();
  });

  it('an accepted POST is answered with 202, without body and type', async () => {
    reply = { kind: 'accepted' };
    const response = await ask();

    expect(response.statusCode).toBe(202);
    expect(response.headers['content-type']).toBeUndefined();
    expect(response.headers['content-length']).toBe('0');
    expect(await text(response)).toBe('');
  });

  it('a JSON answer is 200 with the given text', async () => {
    reply = { kind: 'json', body: '{"ü": 1e400}', headers: { 'Mcp-Session-Id': 'abc' } };
    const response = await ask();

    expect(response).toMatchObject({ statusCode: 200, headers: { 'mcp-session-id': 'abc', 'x-app': 'yes' } });
    expect(response.headers['content-type']).toMatch(/^application\/json/);
    expect(await text(response)).toBe('{"ü": 1e400}');
  });

  it.each([204, 405])('an empty answer is %i with its headers', async (status) => {
    reply = { kind: 'empty', status, headers: { Allow: 'GET, POST, DELETE' } };
    const response = await ask();

    expect(response).toMatchObject({ statusCode: status, headers: { allow: 'GET, POST, DELETE' } });
    expect(response.headers['content-type']).toBeUndefined();
    expect(await text(response)).toBe('');
  });

  it('an event stream has the headers that the app has set', async () => {
    reply = { kind: 'events', open: () => concat(of({ data: '1' }), NEVER) };
    const response = await ask();

    expect(response).toMatchObject({
      statusCode: 200,
      headers: { 'content-type': 'text/event-stream', 'x-app': 'yes' },
    });
    expect(String((await once(response, 'data'))[0])).toBe('event: message\ndata: 1\n\n');
    expect(responder.open).toBe(1);
    response.destroy();
  });

  it('an error of opening an event stream can still be answered', async () => {
    const error = new Error('no');
    reply = {
      kind: 'events',
      open: () => {
        throw error;
      },
    };
    const response = await ask();

    expect([response.statusCode, await text(response), failure]).toEqual([500, '{"failed":true}', error]);
    expect(responder.open).toBe(0);
  });
});

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
    new McpResponder(options).send(response, { kind: 'json', body: '{}', status: 403, headers: { 'X-Own': 'yes' } });
    const [received] = (await once(request, 'response')) as [IncomingMessage];
    expect(received).toMatchObject({
      statusCode: 403,
      headers: { 'x-own': 'yes', 'content-type': 'application/json' },
    });
    expect(await text(received)).toBe('{}');
  });
});
