import 'reflect-metadata';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Controller, Get, Header, Module, Res, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { concat, NEVER, of } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.js';
import type { McpReply } from '../context/mcp-exchange.js';
import { McpResponder } from './responder.js';

let app: INestApplication;
let reply: McpReply;
let failure: unknown;
const responder = new McpResponder({ keepAliveMs: 0, maxBufferedBytes: 1024 * 1024, clock: systemClock });

@Controller()
class AnyController {
  @Get()
  @Header('X-App', 'yes')
  get(@Res() response: { raw?: unknown }) {
    try {
      responder.send(app.getHttpAdapter(), response, reply);
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

describe.each(['express', 'fastify'])('replies on %s', (kind) => {
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

  it('accepted: 202 without body and type', async () => {
    reply = { kind: 'accepted' };
    const response = await ask();

    expect(response.statusCode).toBe(202);
    expect(response.headers['content-type']).toBeUndefined();
    expect(response.headers['content-length']).toBe('0');
    expect(await text(response)).toBe('');
  });

  it('json: 200 and the text as it is', async () => {
    reply = { kind: 'json', body: '{"ü": 1e400}', headers: { 'Mcp-Session-Id': 'abc' } };
    const response = await ask();

    expect(response).toMatchObject({ statusCode: 200, headers: { 'mcp-session-id': 'abc', 'x-app': 'yes' } });
    expect(response.headers['content-type']).toMatch(/^application\/json/);
    expect(await text(response)).toBe('{"ü": 1e400}');
  });

  it.each([204, 405])('empty: %i and its headers', async (status) => {
    reply = { kind: 'empty', status, headers: { Allow: 'GET, POST, DELETE' } };
    const response = await ask();

    expect(response).toMatchObject({ statusCode: status, headers: { allow: 'GET, POST, DELETE' } });
    expect(response.headers['content-type']).toBeUndefined();
    expect(await text(response)).toBe('');
  });

  it('stream: with the headers that the app has set', async () => {
    reply = { kind: 'stream', open: () => concat(of('data: 1\n\n'), NEVER) };
    const response = await ask();

    expect(response).toMatchObject({
      statusCode: 200,
      headers: { 'content-type': 'text/event-stream', 'x-app': 'yes' },
    });
    expect(String((await once(response, 'data'))[0])).toBe('data: 1\n\n');
    expect(responder.open).toBe(1);
    response.destroy();
  });

  it('stream: what opening throws can still be answered', async () => {
    const error = new Error('no');
    reply = {
      kind: 'stream',
      open: () => {
        throw error;
      },
    };
    const response = await ask();

    expect([response.statusCode, await text(response), failure]).toEqual([500, '{"failed":true}', error]);
    expect(responder.open).toBe(0);
  });
});
