import type { CanActivate } from '@nestjs/common';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, type TestApp, type TestAppOptions } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { send } from '../support/http.js';
import { rawSocket, readToEnd, UnixSocketDoor } from '../support/raw-socket.js';
import { RecordedLog } from '../support/recorded-log.js';
import { expectRefusal } from '../support/refusal.js';

/** Control characters that a terminal or a log obeys, lines aside. */
// oxlint-disable-next-line no-control-regex -- that is what must not be there
const HIDDEN = /[\u0000-\u0009\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

describe.each(ADAPTERS)('Host and Origin on %s', (adapter) => {
  let app: TestApp;
  let seen: string[];

  /** On Fastify the hooks of routes run after those of the app, and after its middleware. */
  const before = adapter === 'fastify' ? ['middleware'] : [];

  const guard: CanActivate = { canActivate: () => Boolean(seen.push('guard')) };

  /** Apps whose every part notes that it saw a request. */
  const begin = testApps(adapter, {
    shared: true,
    port: true,
    guards: [guard],
    principal: () => 'somebody',
    configure: (nest) => {
      nest.use((_request: unknown, _response: unknown, next: () => void) => {
        seen.push('middleware');
        next();
      });
    },
  });
  async function start(options: Partial<TestAppOptions> = {}): Promise<void> {
    seen = [];
    app = await begin(options);
  }

  const listing = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

  it.each(['POST', 'GET', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'])(
    'E1: a foreign Host is refused on %s before guards and handlers see the request',
    async (method) => {
      await start();
      const response = await send(app.url, { method, headers: { host: 'evil.example:80' } });
      await expectRefusal(response, { status: 403, code: -32000, says: ['evil.example:80', '"allowedHosts"'] });
      expect(seen).toEqual(before);
    },
  );

  it('E1: HEAD is refused as well, without a body', async () => {
    await start();
    const response = await send(app.url, { method: 'HEAD', headers: { host: 'evil.example' } });
    expect(response.status).toBe(403);
    expect(await response.text()).toBe('');
    expect(seen).toEqual(before);
  });

  it('E1: a foreign Host is refused before the body has arrived', async () => {
    await start();
    const headers = { host: 'evil.example', connection: 'keep-alive', 'transfer-encoding': 'chunked' };
    const response = await send(app.url, { headers, keepOpen: true });
    await expectRefusal(response, { status: 403, code: -32000 });
    response.destroy();
  });

  it.each(['https://evil.example', 'http://127.0.0.1.evil.example', 'null', 'nonsense', ''])(
    'E1: a foreign Origin is refused (%#)',
    async (origin) => {
      await start();
      const client = app.client({ origin });
      await expectRefusal(await client.post(client.initializeMessage()), {
        status: 403,
        code: -32000,
        says: [JSON.stringify(origin), '"allowedOrigins"'],
      });
      expect(seen).toEqual(before);
      await app.settled({ sessions: 0 });
    },
  );

  it.each<[string, (port: string) => Record<string, string>]>([
    ['no Origin', () => ({})],
    ['the name localhost', (port) => ({ host: `localhost:${port}` })],
    ['an IPv6 loopback name', (port) => ({ host: `[::1]:${port}` })],
    ['its own Origin', (port) => ({ origin: `http://127.0.0.1:${port}` })],
    ['a loopback Origin on another port', () => ({ origin: 'http://localhost:5173' })],
  ])('E1: on loopback %s passes', async (_, headers) => {
    await start();
    const client = app.client(headers(new URL(app.url).port));
    await client.initialize();
    await app.settled({ sessions: 1 });
  });

  it('E1: listed names pass on loopback, and loopback names still do', async () => {
    await start({ allowedHosts: ['mcp.example.com'], allowedOrigins: ['https://app.example.com'] });
    await app.client({ host: 'MCP.example.com', origin: 'https://app.example.com' }).initialize();
    await app.client({ host: 'mcp.example.com:8443', origin: 'https://mcp.example.com:8443' }).initialize();
    await app.client().initialize();
    await app.settled({ sessions: 3 });
    const client = app.client({ host: 'other.example.com' });
    await expectRefusal(await client.post(listing), { status: 403, code: -32000 });
  });

  it('E1: a foreign Origin is refused, whichever origins the CORS of the app allows', async () => {
    await start({ configure: (nest) => nest.enableCors() });
    const refused = await app.client({ origin: 'https://evil.example' }).post(listing);
    await expectRefusal(refused, { status: 403, code: -32000 });
    const served = await app.client({ origin: 'http://localhost:5173' }).post(listing);
    expect(served.header('access-control-allow-origin')).toBe('*');
    await expectRefusal(served, { status: 400, code: -32000, id: 1 });
  });

  it('E1: a foreign Host is refused also when a middleware of the app rewrites the URL to ours', async () => {
    await start({
      configure: (nest) => {
        nest.use((request: { url: string }, _response: unknown, next: () => void) => {
          request.url = request.url.replace('/alias', '/mcp');
          next();
        });
      },
    });
    const client = app.client({ host: 'evil.example' });
    const response = await send(`${new URL(app.url).origin}/alias`, {
      headers: client.usualHeaders,
      body: client.initializeMessage(),
    });
    // Fastify has found its route before, and it is none of ours.
    if (adapter === 'fastify') expect(response.status).toBe(404);
    else await expectRefusal(response, { status: 403, code: -32000, says: ['evil.example'] });
    response.destroy();
    // Round the edge, guards of the app come first; nothing of the body is read.
    expect(seen).toEqual(adapter === 'fastify' ? [] : ['guard']);
    await app.settled({ sessions: 0 });
  });

  it('E1: control characters of a Host reach neither the answer nor the log', async () => {
    const log = new RecordedLog();
    await start();
    log.attach(app.app);
    for (const host of ['evil\t.example', 'evil\u009b2J.example', 'evil\u007f.example', 'evil\u0085.example']) {
      const socket = await rawSocket(app);
      const { pathname } = new URL(app.url);
      socket.write(`POST ${pathname} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`, 'latin1');
      expect(await readToEnd(socket)).not.toMatch(HIDDEN);
    }
    const lines = log.lines.map(({ text }) => text);
    log.release();
    expect(lines.filter((line) => HIDDEN.test(line))).toEqual([]);
  });

  it('E1: other routes of the app are not checked', async () => {
    await start();
    const response = await send(`${app.url}-beside`, { method: 'GET', headers: { host: 'evil.example' } });
    expect(response.status).toBe(404);
    await response.text();
  });

  describe('off loopback', () => {
    const log = new RecordedLog();
    let door: UnixSocketDoor;
    const usual = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const statusOf = async (headers: Record<string, string>): Promise<number> => {
      const response = await door.send('/mcp', { headers: { ...usual, ...headers }, body: listing });
      await response.text();
      return response.status;
    };
    const knock = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
      log.lines.length = 0;
      await start(options);
      log.attach(app.app);
      door = await UnixSocketDoor.open(app.app);
    };
    afterEach(async () => {
      await door.close();
      log.release();
    });

    // 400: let in, and asked for its session.
    it('E1: with nothing listed every Host passes, and one warning is logged', async () => {
      await knock();
      expect(log.texts('warn')).toEqual([]);
      expect(await statusOf({ host: 'mcp.example.com' })).toBe(400);
      expect(await statusOf({ host: 'other.example.com' })).toBe(400);
      const says = 'arrived over a Unix socket while "allowedHosts" is empty';
      expect(log.texts('warn')).toEqual([expect.stringContaining(says)]);
    });

    it('E1: an Origin equal to the Host passes, and any other is refused, loopback ones included', async () => {
      await knock();
      expect(await statusOf({ host: '192.168.1.10', origin: 'https://192.168.1.10' })).toBe(400);
      expect(await statusOf({ host: 'mcp.example.com', origin: 'https://evil.example' })).toBe(403);
      expect(await statusOf({ host: 'mcp.example.com', origin: 'http://localhost:5173' })).toBe(403);
    });

    it('E1: while nothing is listed, a page of a public name is refused with the option that admits it', async () => {
      await knock();
      const headers = { ...usual, host: 'rebound.example:3000', origin: 'http://rebound.example:3000' };
      const response = await door.send('/mcp', { headers, body: listing });
      const says = ['"rebound.example:3000"', 'Add "rebound.example" to the option "allowedHosts"'];
      await expectRefusal(response, { status: 403, code: -32000, says });
      expect(seen).toEqual(before);
    });

    it('E1: with a list only the listed names pass, and the first refusal is logged', async () => {
      // An app of its own: only its first refusal is logged.
      const allowedHosts = ['mcp.example.com', 'api.example.com'];
      await knock({ allowedHosts, allowedOrigins: ['https://app.example.com'] });
      expect(await statusOf({ host: 'mcp.example.com', origin: 'https://app.example.com' })).toBe(400);
      expect(log.texts('warn')).toEqual([]);
      expect(await statusOf({ host: 'localhost' })).toBe(403);
      expect(await statusOf({ host: 'other.example.com' })).toBe(403);
      expect(log.texts('warn')).toEqual([expect.stringMatching(/403: The Host "localhost.*"allowedHosts"/)]);
    });
  });
});
