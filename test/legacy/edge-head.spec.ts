import { UnauthorizedException, type CanActivate } from '@nestjs/common';
import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { LATEST, RawClient } from '../support/raw-client.js';
import { sharedApp } from '../support/test-apps.js';
import { expectRefusal } from '../support/refusal.js';

const BOTH = 'application/json, text/event-stream';

describe.each(ADAPTERS)('the head of a request on %s', (adapter) => {
  let app: TestApp;
  let guarded: string[];
  let allowed: boolean;

  const guard: CanActivate = {
    canActivate: (context) => {
      guarded.push(context.switchToHttp().getRequest<{ method: string }>().method);
      if (allowed) return true;
      throw new UnauthorizedException('who are you');
    },
  };
  const together = sharedApp(() =>
    TestApp.start({ adapter, port: true, guards: [guard], principal: () => 'somebody' }),
  );
  beforeEach(async () => {
    guarded = [];
    allowed = true;
    app = await together();
  });

  describe('its method', () => {
    it.each(['PUT', 'PATCH', 'TRACE'])('E2: %s is refused with 405 and the methods that are served', async (method) => {
      const { usualHeaders } = await app.client().initialize();
      guarded.length = 0;
      const response = await send(app.url, { method, headers: usualHeaders });
      expect(response.header('allow')).toBe('GET, POST, DELETE');
      await expectRefusal(response, { status: 405, code: -32000, says: [method, 'GET, POST, DELETE'] });
      expect(guarded).toEqual([]);
    });

    it('E2: HEAD is refused, and opens no stream', async () => {
      const client = await app.client().initialize();
      const headers = { ...client.usualHeaders, accept: 'text/event-stream' };
      const response = await send(app.url, { method: 'HEAD', headers });
      expect([response.status, response.header('allow')]).toEqual([405, 'GET, POST, DELETE']);
      expect(await response.text()).toBe('');
      await app.settled({ sessions: 1, readers: 0, openResponses: 0 });
    });

    it('E2: a refused method costs no session', async () => {
      const client = await app.client().initialize();
      const response = await send(app.url, { method: 'PUT', headers: client.usualHeaders, body: {} });
      await expectRefusal(response, { status: 405, code: -32000 });
      expect((await client.post({ jsonrpc: '2.0', id: 7, method: 'ping' })).status).toBe(200);
    });

    it('E2: OPTIONS is left to the app, which has no such route', async () => {
      const response = await send(app.url, { method: 'OPTIONS' });
      expect(response.status).toBe(404);
      await response.text();
      expect(guarded).toEqual([]);
    });
  });

  it('E18: a slash at the end of the path makes no difference', async () => {
    const client = await new RawClient(`${app.url}/`).initialize();
    const called = await client.post({ jsonrpc: '2.0', id: 7, method: 'ping' });
    expect([called.status, await called.json()]).toEqual([200, { jsonrpc: '2.0', id: 7, result: {} }]);
    const listening = await client.get(undefined);
    expect(listening.status).toBe(200);
    listening.destroy();
    const refused = await send(`${app.url}/`, { method: 'PUT', headers: client.usualHeaders });
    await expectRefusal(refused, { status: 405, code: -32000, says: ['GET, POST, DELETE'] });
    const ended = await send(`${app.url}/`, { method: 'DELETE', headers: client.usualHeaders });
    expect(ended.status).toBe(204);
    await app.settled({ sessions: 0, openResponses: 0 });
  });

  it('E2: OPTIONS is answered by the CORS of an app, also with a media type', async () => {
    const withCors = await TestApp.start({ adapter, port: true, configure: (nest) => nest.enableCors() });
    const { origin } = new URL(withCors.url);
    const headers = { origin, 'access-control-request-method': 'POST', 'content-type': 'application/json' };
    const response = await send(withCors.url, { method: 'OPTIONS', headers });
    expect([response.status, response.header('access-control-allow-origin')]).toEqual([204, '*']);
    await response.text();
    await withCors.close();
  });

  describe('guards', () => {
    it.each(['POST', 'GET', 'DELETE'])('E3: guards decide on %s before any other check', async (method) => {
      allowed = false;
      // Neither media type nor Accept nor session nor JSON is right.
      const headers = { 'content-type': 'text/plain', accept: 'text/html', 'mcp-session-id': 'nope' };
      const response = await send(app.url, { method, headers, body: method === 'POST' ? '{' : undefined });
      await expectRefusal(response, { status: 401, code: -32000, says: ['who are you'] });
    });

    it('E3: guards refuse before the body has arrived', async () => {
      allowed = false;
      const { usualHeaders } = app.client({ connection: 'keep-alive' });
      const response = await send(app.url, {
        headers: { ...usualHeaders, 'transfer-encoding': 'chunked' },
        keepOpen: true,
      });
      await expectRefusal(response, { status: 401, code: -32000 });
      response.destroy();
    });
  });

  describe('its media type', () => {
    it.each([
      undefined,
      '',
      'text/plain',
      'text/plain; application/json',
      'application/jsonp',
      'application/json+x',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
    ])('E4: a POST of another type is refused (%#)', async (type) => {
      const client = app.client();
      const headers: Record<string, string> = { accept: BOTH, ...(type !== undefined && { 'content-type': type }) };
      const response = await send(app.url, { headers, body: client.initializeMessage() });
      await expectRefusal(response, { status: 415, code: -32000, says: ['application/json'] });
      await app.settled({ sessions: 0 });
    });

    it('E4: the media type of a body is checked before Accept', async () => {
      const response = await send(app.url, { headers: { 'content-type': 'text/plain' }, body: '{' });
      await expectRefusal(response, { status: 415, code: -32000, says: ['"text/plain"'] });
    });

    it.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;charset="x;y";z=1'])(
      'E4: a POST of JSON is fine, however its type is written (%#)',
      async (type) => {
        const client = app.client({ 'content-type': type });
        await client.initialize();
        await app.settled({ sessions: 1 });
      },
    );
  });

  describe('Accept', () => {
    it.each([
      undefined,
      '',
      'application/json',
      'text/event-stream',
      'text/html, image/*',
      'application/json, text/event-stream;q=0',
      '*/*;q=0',
      'text/*, application/*;q=0.0',
    ])('E5: a POST that does not accept both types is refused (%#)', async (accept) => {
      const client = app.client();
      const type = { 'content-type': 'application/json' };
      const headers: Record<string, string> = accept === undefined ? type : { ...type, accept };
      const response = await send(app.url, { headers, body: client.initializeMessage() });
      await expectRefusal(response, { status: 406, code: -32000, says: ['application/json', 'text/event-stream'] });
      await app.settled({ sessions: 0 });
    });

    it.each([
      '*/*',
      'application/*, text/*',
      'TEXT/EVENT-STREAM;Q=0.1,application/JSON;q=1',
      'text/html;q=0, */*;q=0.5',
      'application/json;charset=utf-8, text/event-stream;charset=utf-8',
      [['application/json'], ['text/event-stream']].flat(),
    ])('E5: a POST that accepts both types is served (%#)', async (accept) => {
      const client = app.client();
      const headers = { 'content-type': 'application/json', accept };
      const response = await send(app.url, { headers, body: client.initializeMessage() });
      expect(response.status).toBe(200);
      await response.text();
    });

    it('E5: an endpoint that answers with JSON only needs no more than that to be accepted', async () => {
      const json = await TestApp.start({ adapter, responseMode: 'json', tools: { quick: () => 'quick' } });
      for (const accept of ['application/json', 'application/json, text/event-stream', '*/*']) {
        const client = await json.client({ accept }).initialize();
        const response = await client.call('quick');
        expect(response.header('content-type')).toMatch(/^application\/json/);
        expect(await response.json()).toMatchObject({ result: { content: [{ text: 'quick' }] } });
      }
      for (const accept of ['', 'text/event-stream', 'application/json;q=0']) {
        const refused = await json.client({ accept }).post(json.client().initializeMessage());
        await expectRefusal(refused, { status: 406, code: -32000, says: ['must accept "application/json"'] });
      }
      await json.close();
    });

    it.each([undefined, '', 'application/json', 'text/html', 'text/event-stream;q=0', '*/*, text/event-stream;q=0'])(
      'E5: a GET that does not accept event streams is refused (%#)',
      async (accept) => {
        const client = await app.client().initialize();
        const { accept: _, 'content-type': __, ...usual } = client.usualHeaders;
        const headers: Record<string, string> = accept === undefined ? usual : { ...usual, accept };
        const response = await send(app.url, { method: 'GET', headers });
        await expectRefusal(response, { status: 406, code: -32000, says: ['text/event-stream'] });
        await app.settled({ readers: 0, openResponses: 0 });
      },
    );

    it.each(['text/event-stream', '*/*', 'text/*', 'Text/Event-Stream;q=0.001', 'application/json, text/event-stream'])(
      'E5: a GET that accepts event streams is fine (%#)',
      async (accept) => {
        const client = await app.client().initialize();
        const response = await client.get(undefined, { accept });
        expect(response.status).toBe(200);
        response.destroy();
        await app.settled({ readers: 0, openResponses: 0 });
      },
    );

    it('E5: Accept is checked before the session', async () => {
      const client = app.client();
      client.sessionId = 'no-such-session-here';
      await expectRefusal(await client.get(undefined, { accept: 'text/html' }), { status: 406, code: -32000 });
      await expectRefusal(await client.post({}, { accept: 'text/html' }), { status: 406, code: -32000 });
    });

    it('E12: Accept may be missing on a DELETE', async () => {
      const client = await app.client().initialize(LATEST);
      const response = await client.delete();
      expect(response.sent.getHeader('accept')).toBeUndefined();
      expect(response.status).toBe(204);
      expect(await response.text()).toBe('');
      await app.settled({ sessions: 0, live: 0, logs: 0 });
    });

    it('E12: Accept may be anything on a DELETE', async () => {
      const client = await app.client().initialize();
      expect((await client.delete({ accept: 'text/html', 'content-type': 'text/plain' })).status).toBe(204);
    });
  });
});
