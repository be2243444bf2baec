import 'reflect-metadata';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import {
  All,
  Body,
  Catch,
  Controller,
  Delete,
  Get,
  Inject,
  Module,
  Post,
  Put,
  Req,
  RequestMethod,
  Res,
  UseFilters,
  UseGuards,
  VersioningType,
  type ArgumentsHost,
  type CanActivate,
  type DynamicModule,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type MiddlewareConsumer,
  type NestModule,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, HttpAdapterHost, NestFactory, RouterModule } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import express from 'express';
import { NEVER } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { systemClock } from '../../common/clock.js';
import { McpError } from '../../protocol/errors.js';
import { discardBody, parsedBodyOf, readBody } from '../body-reader.js';
import { McpResponder } from '../responder.js';
import { hostOriginPolicy, STATELESS_METHODS } from './edge-policy.js';
import { EndpointRoute, markAdmitted, wasAdmitted } from './endpoint-route.js';
import type { HostOriginOptions } from './host-origin.js';
import { admittedOrRefused, HttpEdge } from './http-edge.js';

const MAX_BYTES = 300_000;
const KINDS = ['express', 'fastify'] as const;
type Kind = (typeof KINDS)[number];

/**
 * Counts how often the app's middleware sees a request that is refused: on Fastify it runs before the routes' own
 * hooks.
 */
const SEEN_BY_MIDDLEWARE = { express: 0, fastify: 1 };

/** Records what the guard of an endpoint saw of a request. */
interface Seen {
  endpoint: string;
  method: string | undefined;
  mediaType: string | undefined;
  read: boolean;
  parsed: unknown;
}

let seen: Seen[];
let globalGuard: ReturnType<typeof vi.fn<() => boolean>>;
let responder: McpResponder;
let app: INestApplication;
let port: number;

beforeEach(() => {
  seen = [];
  globalGuard = vi.fn(() => true);
  const options = { keepAliveMs: 0, maxBufferedBytes: 1024 * 1024, clock: systemClock };
  responder = new McpResponder(options);
});

afterEach(async () => {
  void responder.drain(0);
  await app.close();
});

/** Does what the real exception filter does. */
@Catch(McpError)
class ErrorFilter implements ExceptionFilter {
  catch(error: McpError, host: ArgumentsHost) {
    const adapter = app.getHttpAdapter();
    const http = host.switchToHttp();
    const response = http.getResponse();
    discardBody(rawOf(http.getRequest()), response.raw ?? response, systemClock);
    for (const [name, value] of Object.entries(error.headers ?? {})) adapter.setHeader(response, name, value);
    adapter.reply(response, error.toResponse(), error.status);
  }
}

interface EndpointOptions extends HostOriginOptions {
  name?: string;
  path?: string;
  allow?: readonly string[];
  onUnlisted?: () => void;
}

const rawOf = (request: { raw?: IncomingMessage }) => request.raw ?? (request as IncomingMessage);

/** A throwaway endpoint, built as the real module builds its own: controller and key per call, edge in `configure()`. */
function endpoint({
  name = 'a',
  path = 'mcp',
  onUnlisted = () => undefined,
  ...options
}: EndpointOptions = {}): DynamicModule {
  const key = Symbol(name);
  const policy = hostOriginPolicy(options, onUnlisted);

  class Guard implements CanActivate {
    async canActivate(context: ExecutionContext): Promise<boolean> {
      const request = context.switchToHttp().getRequest();
      const raw = rawOf(request);
      seen.push({
        endpoint: name,
        method: raw.method,
        mediaType: raw.headers['content-type'],
        read: raw.readableDidRead,
        parsed: parsedBodyOf(request),
      });
      expect(wasAdmitted(raw, key)).toBe(true);
      request.text = await readBody(raw, {
        maxBytes: MAX_BYTES,
        timeoutMs: 10_000,
        clock: systemClock,
        platform: request,
      });
      return true;
    }
  }

  @Controller(path)
  @UseFilters(ErrorFilter)
  @UseGuards(Guard)
  class EndpointController {
    @Post()
    @EndpointRoute(key)
    post(@Req() request: { text: string }, @Res() response: object) {
      responder.send(response, { kind: 'json', body: JSON.stringify({ text: request.text }) });
    }

    @Get()
    @EndpointRoute(key)
    get(@Res() response: object) {
      responder.stream(response)!.start(NEVER);
    }

    @Delete()
    @EndpointRoute(key)
    delete(@Res() response: object) {
      responder.send(response, { kind: 'empty', status: 204 });
    }
  }

  @Module({})
  class EndpointModule implements NestModule {
    constructor(@Inject(HttpAdapterHost) private readonly host: HttpAdapterHost) {}
    configure(_consumer: MiddlewareConsumer) {
      new HttpEdge().install(this.host.httpAdapter, key, policy);
    }
  }
  return { module: EndpointModule, controllers: [EndpointController], providers: [Guard] };
}

/** The app's own routes. */
@Controller('app')
class AppController {
  @Post('echo')
  echo(@Body() body: unknown) {
    return { body };
  }
  @Put('echo')
  put(@Body() body: unknown) {
    return { body };
  }
}

interface AppOptions {
  modules?: NonNullable<DynamicModule['imports']>;
  controllers?: Type[];
  /** Does what a `main.ts` does after `create`. */
  main?: (app: INestApplication) => void;
  testingModule?: boolean;
  fastify?: object;
}

async function start(kind: Kind, options: AppOptions = {}): Promise<void> {
  @Module({
    imports: options.modules ?? [endpoint()],
    controllers: options.controllers ?? [AppController],
    providers: [{ provide: APP_GUARD, useFactory: () => ({ canActivate: () => globalGuard() }) }],
  })
  class AppModule {}
  const adapter = kind === 'express' ? new ExpressAdapter() : new FastifyAdapter(options.fastify);
  app = options.testingModule
    ? (await Test.createTestingModule({ imports: [AppModule] }).compile()).createNestApplication(adapter, {
        logger: false,
      })
    : await NestFactory.create(AppModule, adapter, { logger: false });
  options.main?.(app);
  await app.listen(0, '127.0.0.1');
  port = (app.getHttpServer().address() as AddressInfo).port;
}

interface Answer {
  status: number;
  headers: IncomingMessage['headers'];
  body: string;
}

async function send(
  method: string,
  path: string,
  body?: string | Buffer,
  headers: OutgoingHttpHeaders = {},
): Promise<Answer> {
  const response = await open(method, path, body, headers);
  return { status: response.statusCode!, headers: response.headers, body: await text(response) };
}

async function open(
  method: string,
  path: string,
  body?: string | Buffer,
  headers: OutgoingHttpHeaders = {},
): Promise<IncomingMessage> {
  const given = body === undefined ? headers : { 'Content-Type': 'application/json; charset=utf-8', ...headers };
  const sent = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const request = httpRequest({ port, host: '127.0.0.1', agent: false, method, path, headers: sent });
  request.on('error', () => undefined).end(body);
  return ((await once(request, 'response')) as [IncomingMessage])[0];
}

const JSON_RPC = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

describe.each(KINDS)('on %s', (kind) => {
  describe('the body of a request', () => {
    it('the body of a request is unread and unparsed when the guards run, and keeps its media type', async () => {
      await start(kind);
      const answer = await send('POST', '/mcp', JSON_RPC);

      expect(answer).toMatchObject({ status: 200, body: JSON.stringify({ text: JSON_RPC }) });
      expect(answer.headers['content-type']).toMatch(/^application\/json(?:; charset=utf-8)?$/);
      expect(seen).toEqual([
        expect.objectContaining({ mediaType: 'application/json; charset=utf-8', read: false, parsed: undefined }),
      ]);
    });

    it.each([
      undefined,
      'text/plain',
      'application/x-www-form-urlencoded',
      'garbage',
      'multipart/form-data; boundary=x',
    ])('the body of a request reaches the guards whatever its type: %s', async (type) => {
      await start(kind);
      const answer = await send('POST', '/mcp', 'a=1', { 'Content-Type': type });

      expect(answer).toMatchObject({ status: 200, body: '{"text":"a=1"}' });
      expect(seen).toEqual([expect.objectContaining({ mediaType: type, read: false })]);
    });

    it('the body of a request may be missing', async () => {
      await start(kind);

      expect(await send('POST', '/mcp')).toMatchObject({ status: 200, body: '{"text":""}' });
      expect(await send('DELETE', '/mcp', '', { 'Content-Length': 0 })).toMatchObject({ status: 204, body: '' });
      expect(seen.map(({ mediaType }) => mediaType)).toEqual([undefined, 'application/json; charset=utf-8']);
    });

    it('the body of a DELETE is not parsed either', async () => {
      await start(kind);

      expect(await send('DELETE', '/mcp', '{ not json', { 'Content-Length': 10 })).toMatchObject({ status: 204 });
    });

    it('the body of a request may be larger than the app allows elsewhere, and the app keeps its limits', async () => {
      await start(kind);
      const large = JSON.stringify({ text: 'x'.repeat(200_000) });
      const tooLarge = JSON.stringify({ text: 'x'.repeat(2_000_000) });

      expect((await send('POST', '/mcp', large)).status).toBe(200);
      expect((await send('POST', '/app/echo', '{"a":1}')).body).toBe('{"body":{"a":1}}');
      expect((await send('PUT', '/app/echo', '{"a":1}')).body).toBe('{"body":{"a":1}}');
      expect((await send('POST', '/app/echo', kind === 'express' ? large : tooLarge)).status).toBe(413);
      expect((await send('POST', '/app/echo', '{')).status).toBe(400);
    });

    it('the body of a request of 64 MiB is refused by its Content-Length', async () => {
      await start(kind);
      const answer = await send('POST', '/mcp', Buffer.alloc(64 * 1024 * 1024, 'x'));

      expect(answer).toMatchObject({ status: 413 });
      expect(JSON.parse(answer.body)).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32000 } });
    });

    it('the body of a request that never ends is refused and cut', async () => {
      await start(kind);
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let received = '';
      socket.on('data', (data) => (received += String(data))).on('error', () => undefined);
      socket.write(
        'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
      );
      let sent = 0;
      while (!socket.destroyed) {
        sent += 10_000;
        if (!socket.write(`2710\r\n${'x'.repeat(10_000)}\r\n`)) {
          await new Promise((next) => socket.once('drain', next).once('close', next));
        }
      }

      expect(received).toMatch(/^HTTP\/1.1 413 /);
      expect(sent).toBeLessThan(64 * 1024 * 1024);
    });

    it.each(['json', 'text', 'raw'])(
      'the body of a request may meet a greedy %s parser that main.ts adds',
      async (parser) => {
        const parsers = {
          json: express.json({ type: '*/*' }),
          text: express.text({ type: '*/*' }),
          raw: express.raw({ type: ['*/*', 'application/*'] }),
        };
        await start(kind, { main: (main) => void main.use(parsers[parser as keyof typeof parsers]) });

        expect((await send('POST', '/mcp', JSON_RPC)).body).toBe(JSON.stringify({ text: JSON_RPC }));
        expect(seen).toEqual([expect.objectContaining({ read: kind === 'fastify' })]);
      },
    );

    it('the body of a request is the value of a parser that takes every media type', async () => {
      const main = (main: INestApplication) => void main.use(express.text({ type: () => true }));
      await start(kind, { main });

      expect((await send('POST', '/mcp', JSON_RPC)).body).toBe(JSON.stringify({ text: JSON_RPC }));
      expect(seen).toEqual([expect.objectContaining({ read: true, parsed: JSON_RPC })]);
    });
  });

  describe('HTTP methods that are not served', () => {
    it.each(['HEAD', 'PUT', 'PATCH', 'TRACE'])('%s gets 405 at the edge', async (method) => {
      const middleware = vi.fn((_request: unknown, _response: unknown, next: () => void) => next());
      await start(kind, { main: (main) => void main.use(middleware) });
      const answer = await send(method, '/mcp?a=b');

      expect(answer).toMatchObject({ status: 405, headers: { allow: 'GET, POST, DELETE' } });
      expect(answer.headers['content-type']).toBe('application/json');
      if (method !== 'HEAD') expect(JSON.parse(answer.body).error.message).toContain(`"${method}"`);
      expect(globalGuard).not.toHaveBeenCalled();
      expect(middleware).toHaveBeenCalledTimes(SEEN_BY_MIDDLEWARE[kind]);
    });

    it('HTTP methods that are not served are 404 on Fastify when it does not know them', async () => {
      await start(kind);

      expect((await send('PROPFIND', '/mcp')).status).toBe(kind === 'express' ? 405 : 404);
      expect(globalGuard).not.toHaveBeenCalled();
    });

    it('HTTP methods that are not served are those that the endpoint does not allow', async () => {
      await start(kind, { modules: [endpoint({ allow: STATELESS_METHODS })] });

      expect(await send('GET', '/mcp')).toMatchObject({ status: 405, headers: { allow: 'POST' } });
      expect(await send('DELETE', '/mcp')).toMatchObject({ status: 405, headers: { allow: 'POST' } });
      expect((await send('POST', '/mcp', '{}')).status).toBe(200);
    });

    it('HTTP methods that are not served leave OPTIONS to the app, which answers 404 without CORS', async () => {
      await start(kind);

      expect((await send('OPTIONS', '/mcp')).status).toBe(404);
    });

    it('HTTP methods that are not served are refused as well when the app has a catch-all', async () => {
      @Controller()
      class CatchAllController {
        @All(kind === 'express' ? '*path' : '*')
        all() {
          return 'caught';
        }
      }
      @Module({ controllers: [CatchAllController] })
      class CatchAllModule {}
      await start(kind, { modules: [endpoint(), CatchAllModule] });

      expect((await send('PUT', '/mcp')).status).toBe(405);
      expect((await send('POST', '/mcp', '{}')).status).toBe(200);
      expect((await send('PUT', '/other')).body).toBe('caught');
    });

    it('HTTP methods that are not served are left to the app on all other paths', async () => {
      await start(kind);

      expect((await send('PATCH', '/app/echo', '{}')).status).toBe(404);
      expect((await send('PUT', '/mcp/below', '{}')).status).toBe(404);
      expect((await send('PUT', '/mcpx', '{}')).status).toBe(404);
    });
  });

  describe('foreign Host and Origin headers', () => {
    it.each(['POST', 'GET', 'DELETE', 'OPTIONS', 'HEAD', 'PUT'])(
      'foreign Host and Origin headers are refused before guards run, on %s',
      async (method) => {
        const middleware = vi.fn((_request: unknown, _response: unknown, next: () => void) => next());
        await start(kind, { main: (main) => void main.use(middleware) });
        const host = await send(method, '/mcp', undefined, { Host: 'evil.com' });
        const origin = await send(method, '/mcp', undefined, { Origin: 'http://evil.com' });

        expect([host.status, origin.status]).toEqual([403, 403]);
        if (method !== 'HEAD') expect(JSON.parse(host.body).error).toMatchObject({ code: -32000 });
        expect(globalGuard).not.toHaveBeenCalled();
        expect(middleware).toHaveBeenCalledTimes(2 * SEEN_BY_MIDDLEWARE[kind]);
      },
    );

    it('foreign Host and Origin headers are refused before anything of the body has arrived', async () => {
      await start(kind);
      const socket = connect(port, '127.0.0.1');
      socket.write(
        'POST /mcp HTTP/1.1\r\nHost: evil.com\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{',
      );
      const [answer] = (await once(socket, 'data')) as [Buffer];

      expect(String(answer)).toMatch(/^HTTP\/1.1 403 [^]*Connection: keep-alive/);
      expect(seen).toEqual([]);
      socket.destroy();
    });

    it('foreign Host and Origin headers keep the connection open when the body is short', async () => {
      await start(kind);
      const socket = connect(port, '127.0.0.1');
      const head = (host: string) =>
        `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`;
      socket.write(head('evil.com'));
      expect(String((await once(socket, 'data'))[0])).toContain('403');
      socket.write(head('localhost'));

      expect(String((await once(socket, 'data'))[0])).toContain('200');
      socket.destroy();
    });

    it('foreign Host and Origin headers are not checked on other routes of the app', async () => {
      await start(kind);

      expect((await send('POST', '/app/echo', '{}', { Host: 'evil.com', Origin: 'http://evil.com' })).status).toBe(201);
    });

    it('foreign Host and Origin headers are decided on by the options of each endpoint', async () => {
      const modules = [
        endpoint({ name: 'a', path: 'a/mcp', allowedHosts: ['a.example'] }),
        endpoint({ name: 'b', path: 'b/mcp', allowedHosts: ['b.example'], allow: STATELESS_METHODS }),
      ];
      await start(kind, { modules });
      const status = async (path: string, host: string) => (await send('POST', path, '{}', { Host: host })).status;

      expect(await status('/a/mcp', 'a.example')).toBe(200);
      expect(await status('/b/mcp', 'b.example')).toBe(200);
      expect(await status('/a/mcp', 'b.example')).toBe(403);
      expect(await status('/b/mcp', 'a.example')).toBe(403);
      expect((await send('PUT', '/b/mcp')).headers['allow']).toBe('POST');
      expect(seen.map(({ endpoint: name }) => name)).toEqual(['a', 'b']);
    });
  });

  describe('the path of an endpoint', () => {
    it.each([false, true])(
      'the path of an endpoint may have prefix, version and module path; testing module: %s',
      async (testingModule) => {
        await start(kind, {
          testingModule,
          modules: [endpoint(), RouterModule.register([])],
          main: (main) => {
            main.setGlobalPrefix('api');
            main.enableVersioning({ type: VersioningType.URI, defaultVersion: '2' });
          },
        });
        const path = '/api/v2/mcp';

        expect((await send('POST', path, '{ not json')).body).toBe('{"text":"{ not json"}');
        expect((await send('PUT', path)).status).toBe(405);
        expect((await send('POST', path, '{}', { Host: 'evil.com' })).status).toBe(403);
        expect((await send('PUT', '/mcp')).status).toBe(404);
      },
    );

    it.each([
      ['by default', {}],
      ['where Fastify ignores it', { ignoreTrailingSlash: true }],
      ['where the router of Fastify ignores it', { routerOptions: { ignoreTrailingSlash: true } }],
    ])('E18: the path of an endpoint may end with a slash %s', async (_, fastify) => {
      await start(kind, { fastify, main: (main) => main.setGlobalPrefix('api') });
      for (const path of ['/api/mcp', '/api/mcp/']) {
        const statuses = [];
        for (const method of ['POST', 'DELETE', 'PUT', 'HEAD']) statuses.push((await send(method, path)).status);
        expect(statuses).toEqual([200, 204, 405, 405]);
        expect((await send('POST', path, '{ not json')).body).toBe('{"text":"{ not json"}');
        expect((await send('POST', path, '{}', { Host: 'evil.com' })).status).toBe(403);
      }
      expect((await send('POST', '/api/mcp//', '{}')).status).toBe(404);
    });

    it('the path of an endpoint may be set by RouterModule', async () => {
      const module = endpoint();
      await start(kind, { modules: [module, RouterModule.register([{ path: 'tools', module: module.module }])] });

      expect((await send('POST', '/tools/mcp', '{ not json')).body).toBe('{"text":"{ not json"}');
      expect((await send('PUT', '/tools/mcp')).status).toBe(405);
    });

    it('the path of an endpoint may have parameters', async () => {
      const middleware = vi.fn((_request: unknown, _response: unknown, next: () => void) => next());
      @Module({})
      class MiddlewareModule implements NestModule {
        configure(consumer: MiddlewareConsumer) {
          consumer.apply(middleware).forRoutes({ path: ':tenant/mcp', method: RequestMethod.POST });
        }
      }
      await start(kind, { modules: [MiddlewareModule, endpoint({ path: ':tenant/mcp' })] });

      expect((await send('POST', '/acme/mcp', '{ not json')).body).toBe('{"text":"{ not json"}');
      expect((await send('PUT', '/acme/mcp')).status).toBe(405);
      expect((await send('POST', '/%zz/mcp', '{}')).status).toBe(400);
      middleware.mockClear();
      expect((await send('POST', '/acme/mcp', '{}', { Host: 'evil.com' })).status).toBe(403);
      expect(middleware).toHaveBeenCalledTimes(SEEN_BY_MIDDLEWARE[kind]);
    });
  });

  describe('an app that is made by a testing module', () => {
    it('an app that is made by a testing module runs the edge before body parsers too', async () => {
      const middleware = vi.fn((_request: unknown, _response: unknown, next: () => void) => next());
      await start(kind, { testingModule: true, main: (main) => void main.use(middleware) });

      expect((await send('POST', '/mcp', '{ not json')).body).toBe('{"text":"{ not json"}');
      middleware.mockClear();
      expect((await send('POST', '/mcp', '{ not json', { Host: 'evil.com' })).status).toBe(403);
      expect(middleware).toHaveBeenCalledTimes(SEEN_BY_MIDDLEWARE[kind]);
    });
  });

  describe('CORS of the app', () => {
    const Origin = 'http://localhost:6274';

    it('CORS of the app answers preflights, and adds its headers to every answer, streams included', async () => {
      await start(kind, { main: (main) => main.enableCors({ origin: true, exposedHeaders: ['Mcp-Session-Id'] }) });
      const preflight = await send('OPTIONS', '/mcp', undefined, { Origin, 'Access-Control-Request-Method': 'POST' });
      const json = await send('POST', '/mcp', '{}', { Origin });
      const stream = await open('GET', '/mcp', undefined, { Origin });

      expect(preflight).toMatchObject({ status: 204, headers: { 'access-control-allow-origin': Origin } });
      for (const { headers } of [json, stream]) {
        expect(headers).toMatchObject({
          'access-control-allow-origin': Origin,
          'access-control-expose-headers': 'Mcp-Session-Id',
        });
      }
      expect(stream.headers['content-type']).toBe('text/event-stream');
      stream.destroy();
    });
  });
});

describe('an app without a known adapter', () => {
  beforeEach(() => {
    app = { close: () => undefined } as never;
  });

  it('an app without a known adapter lets the guard decide on requests that did not pass the edge', () => {
    const key = Symbol();
    const policy = hostOriginPolicy({}, () => undefined);
    const request = (method: string, host: string) =>
      ({ method, headers: { host }, socket: { localAddress: '127.0.0.1' } }) as unknown as IncomingMessage;
    const admitted = request('POST', 'evil.com');
    markAdmitted(admitted, key);

    expect(admittedOrRefused(admitted, key, policy)).toBeUndefined();
    expect(admittedOrRefused(admitted, Symbol(), policy)).toMatchObject({ code: 'FORBIDDEN_HOST' });
    expect(admittedOrRefused(request('POST', 'localhost'), key, policy)).toBeUndefined();
    expect(admittedOrRefused(request('HEAD', 'localhost'), key, policy)).toMatchObject({ code: 'METHOD_NOT_ALLOWED' });
  });

  it('an app without a known adapter logs the warning about unlisted hosts once per endpoint', () => {
    const onUnlisted = vi.fn();
    const policy = hostOriginPolicy({}, onUnlisted);
    const request = { headers: { ':authority': 'a.example' }, socket: { localAddress: '10.0.0.1' } } as never;

    expect([policy.admit(request), policy.admit(request)]).toEqual([undefined, undefined]);
    expect(onUnlisted).toHaveBeenCalledOnce();
  });

  it('an app without a known adapter installs nothing on other adapters', () => {
    const adapter = { getType: () => 'koa' } as never;

    expect(() =>
      new HttpEdge().install(
        adapter,
        Symbol(),
        hostOriginPolicy({}, () => undefined),
      ),
    ).toThrow(/koa/);
  });
});
