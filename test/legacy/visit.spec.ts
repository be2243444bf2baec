import type { CanActivate } from '@nestjs/common';
import { UnauthorizedException } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/adapters.js';
import { send } from '../support/http.js';
import { NO_SESSION_ID, expectRefusal } from '../support/refusal.js';
import { testApps } from '../support/test-apps.js';

const CHROMIUM = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';
/** It does not admit SSE. */
const PLAIN = 'text/html';

const asksForPassword: CanActivate = {
  canActivate: (context) => {
    context.switchToHttp().getResponse().header('WWW-Authenticate', 'Basic realm="shop"');
    throw new UnauthorizedException();
  },
};

describe.each(ADAPTERS)('a person who opens the endpoint in a browser, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  const visit = (url: string, headers: Record<string, string> = {}) =>
    send(url, { method: 'GET', headers: { accept: CHROMIUM, ...headers } });

  it.each<[string, object, string, number, RegExp]>([
    ['sessions', {}, CHROMIUM, 400, /Mcp-Session-Id/],
    ['sessions, from a browser that takes HTML alone', {}, PLAIN, 406, /must accept "text\/event-stream"/],
    ['no sessions', { sessions: 'off' }, CHROMIUM, 405, /The method "GET" is not served here/],
  ])(
    'E19: a person who opens an endpoint with %s in a browser reads what it is, and why there is no page',
    async (_, options, accept, status, reason) => {
      const app = await start(options);
      const response = await visit(app.url, { accept });
      const text = await response.text();
      expect(response.status).toBe(status);
      expect(response.header('content-type')).toBe('text/plain; charset=utf-8');
      expect(response.header('x-content-type-options')).toBe('nosniff');
      expect(text).toMatch(/^This is an endpoint of the Model Context Protocol \(MCP\)\./);
      expect(text).toMatch(new RegExp(`answered with ${status}: .*${reason.source}`));
      expect(text).not.toMatch(/nest|test 1\.0\.0/i);
      if (status === 405) expect(response.header('allow')).toBe('POST');
    },
  );

  it('E19: a person whom a guard of the app refuses in a browser is asked for a password as before', async () => {
    const app = await start({ guards: [asksForPassword] });
    const response = await visit(app.url);
    expect([response.status, response.header('www-authenticate')]).toEqual([401, 'Basic realm="shop"']);
    expect(await response.text()).toContain('answered with 401: Unauthorized');
  });

  it('E19: a client that does not ask for a page gets a JSON-RPC error', async () => {
    const app = await start();
    await expectRefusal(await visit(app.url, { accept: '*/*' }), NO_SESSION_ID);
    const both = await visit(app.url, { accept: `${CHROMIUM}, text/event-stream` });
    await expectRefusal(both, NO_SESSION_ID);
    const known = await visit(app.url, { 'mcp-session-id': 'gone' });
    expect(known.header('content-type')).toMatch(/^application\/json/);
    expect(known.status).toBe(404);
  });
});
