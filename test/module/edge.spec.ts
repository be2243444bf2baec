import { once } from 'node:events';
import { connect } from 'node:net';
import { All, Controller, Module, type DynamicModule, type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import express from 'express';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, serverInfo } from '../support/app.js';
import { send } from '../support/http.js';
import { RawClient } from '../support/raw-client.js';

interface More {
  path?: string;
  controllers?: DynamicModule['controllers'];
  /** Options of Fastify. */
  fastify?: object;
  /** What `main.ts` does with the app. */
  main?: (app: INestApplication) => void;
}

describe.each(ADAPTERS)('an endpoint beside other parts of an app, on %s,', (adapter) => {
  let app: INestApplication;
  afterEach(() => app.close());

  /** Starts an app as `main.ts` does. */
  async function start({ path = 'mcp', controllers = [], fastify = {}, main }: More = {}): Promise<string> {
    @Module({ imports: [McpStreamableModule.forRoot({ serverInfo, path })], controllers })
    class AppModule {}
    const platform = adapter === 'express' ? new ExpressAdapter() : new FastifyAdapter(fastify);
    app = await NestFactory.create(AppModule, platform, { logger: false });
    main?.(app);
    await app.listen(0, '127.0.0.1');
    return app.getUrl();
  }

  async function statusOf(url: string, method: string, headers = {}): Promise<number> {
    const client = new RawClient(url, headers);
    const body = method === 'POST' ? client.initializeMessage() : undefined;
    const response = await send(url, { method, headers: client.usualHeaders, body });
    await response.text();
    return response.status;
  }

  it.each([
    ['JSON', express.json({ type: '*/*' })],
    ['text', express.text({ type: '*/*' })],
    ['bytes', express.raw({ type: ['*/*', 'application/*'] })],
    ['text, also without a media type', express.text({ type: () => true })],
  ])('E4: an endpoint gets its body although a parser of the app takes everything as %s', async (_, parser) => {
    const base = await start({ main: (main) => void main.use(parser) });
    expect(await statusOf(`${base}/mcp`, 'POST')).toBe(200);
  });

  it('E2: an endpoint refuses methods that HTTP servers hardly know, unless Fastify does', async () => {
    const base = await start();
    expect(await statusOf(`${base}/mcp`, 'PROPFIND')).toBe(adapter === 'express' ? 405 : 404);
  });

  it('E2: an endpoint refuses its methods itself when a route of the app takes every path', async () => {
    @Controller()
    class CatchAllController {
      @All(adapter === 'express' ? '*path' : '*')
      all(): string {
        return 'caught';
      }
    }
    const base = await start({ controllers: [CatchAllController] });
    expect(await statusOf(`${base}/mcp`, 'PUT')).toBe(405);
    expect(await statusOf(`${base}/mcp`, 'POST')).toBe(200);
    expect(await statusOf(`${base}/mcp/below`, 'GET')).toBe(200);
  });

  it.each([
    ['by default', {}],
    ['where Fastify ignores it', { ignoreTrailingSlash: true }],
    ['where the router of Fastify ignores it', { routerOptions: { ignoreTrailingSlash: true } }],
  ])('E18: the path of an endpoint may end with one slash below a prefix, %s', async (_, fastify) => {
    const base = await start({ fastify, main: (main) => void main.setGlobalPrefix('api') });
    for (const url of [`${base}/api/mcp`, `${base}/api/mcp/`]) {
      expect([await statusOf(url, 'POST'), await statusOf(url, 'PUT')]).toEqual([200, 405]);
      expect(await statusOf(url, 'POST', { host: 'evil.example' })).toBe(403);
    }
    expect(await statusOf(`${base}/api/mcp//`, 'POST')).toBe(404);
  });

  it('the path of an endpoint may have parameters, which must be well encoded', async () => {
    const base = await start({ path: ':tenant/mcp' });
    expect([await statusOf(`${base}/acme/mcp`, 'POST'), await statusOf(`${base}/acme/mcp`, 'PUT')]).toEqual([200, 405]);
    expect(await statusOf(`${base}/%zz/mcp`, 'POST')).toBe(400);
  });

  it('E1: a foreign Host with a short body leaves its connection open for the next request', async () => {
    const { port } = new URL(await start());
    const socket = connect(Number(port), '127.0.0.1');
    const answerTo = async (host: string): Promise<string> => {
      socket.write(`PUT /mcp HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 2\r\n\r\n{}`);
      return String((await once(socket, 'data'))[0]);
    };
    expect(await answerTo('evil.example')).toContain('403');
    expect(await answerTo('localhost')).toContain('405');
    socket.destroy();
  });
});
