import { Controller, ForbiddenException, Get, Injectable, UnauthorizedException, UseGuards } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { mcpCors, Tool } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { AuthGuard, Public } from '../../examples/snippets/auth-own-guard.js';
import { ONE_ADAPTER } from '../support/app.js';
import { send } from '../support/http.js';
import {
  asker,
  authorizationServer,
  bearer,
  challengeIn,
  ERAS,
  knocker,
  METADATA_URL,
  protectedApps,
} from './protected-apps.js';

/** Any error at all, for refusals whose text does not matter. */
const refusal = (code = -32000) => ({ jsonrpc: '2.0', error: { code, message: expect.any(String) } });

@Injectable()
class Tools {
  static readonly ran = vi.fn();

  @Tool({ name: 'run', description: 'Does what it is asked.' })
  run() {
    Tools.ran();
    return 'done';
  }

  @Tool({ name: 'strict', description: 'Does what it is asked.' })
  @UseGuards({
    canActivate: () => {
      throw new UnauthorizedException('Not like this');
    },
  })
  strict() {
    return 'never';
  }
}

@Controller('notes')
class Notes {
  @Get()
  @Tool({ name: 'notes' })
  all() {
    return 'a note';
  }
}

describe.each(ONE_ADAPTER)('the challenge to log in, on %s', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp, { providers: [Tools] });
  const startAlone = protectedApps(adapter, idp, { providers: [Tools], shared: false });
  afterEach(() => Tools.ran.mockClear());

  describe.each(ERAS)('in the %s era', (era) => {
    it('A4: a token is required on each request, whatever session it names', async () => {
      const app = await start();
      const headers = await bearer(idp());
      const { request } = await asker(app, era, headers);
      expect((await request('tools/call', { name: 'run', arguments: {} })).status).toBe(200);
      const without = await request('tools/call', { name: 'run', arguments: {} }, { authorization: '' });
      expect(without.status).toBe(401);
      expect(Tools.ran).toHaveBeenCalledOnce();
    });

    it('A6, A7: a token without the required scopes gets 403 with all of them', async () => {
      const app = await start({ auth: { requiredScopes: ['notes:read', 'notes:list'] } });
      const response = await knocker(app, era)(await bearer(idp(), 'notes:read'));
      expect(response.status).toBe(403);
      expect(challengeIn(response)).toMatchObject({
        error: 'insufficient_scope',
        scope: 'notes:read notes:list',
        resource_metadata: METADATA_URL,
      });
      const enough = await knocker(app, era)(await bearer(idp(), 'notes:list notes:read more'));
      expect(enough.status).toBe(200);
    });

    it('A2: a 401 of a guard of a handler has a challenge too', async () => {
      const { request } = await asker(await start(), era, await bearer(idp()));
      const response = await request('tools/call', { name: 'strict', arguments: {} });
      expect([response.status, challengeIn(response)['resource_metadata']]).toEqual([401, METADATA_URL]);
      expect((await response.json()).error.message).toBe('Not like this');
    });

    it('a guard of the app that refuses tokens which the endpoint accepts is explained once in the log', async () => {
      const headers = await bearer(idp());
      const handlers = await startAlone();
      const { request } = await asker(handlers, era, headers);
      for (let n = 0; n < 2; n++) await request('tools/call', { name: 'strict', arguments: {} });
      expect(handlers.log.texts('log').filter((line) => line.includes('401'))).toEqual([
        expect.stringMatching(/"A handler refused the token".*McpExecutionContext\.isMcp\(context\)/),
      ]);
      const guarded = await startAlone({ module: { providers: [{ provide: APP_GUARD, useClass: AuthGuard }] } });
      for (let n = 0; n < 2; n++) expect((await knocker(guarded, era)(headers)).status).toBe(401);
      expect(guarded.log.texts('log').filter((line) => line.includes('401'))).toEqual([
        expect.stringMatching(/"The app refused the token".*"decorators"/),
      ]);
    });

    it('a global guard that lets calls of handlers through leaves the routes closed that are tools too', async () => {
      const app = await start({
        decorators: [Public()],
        module: { controllers: [Notes], providers: [{ provide: APP_GUARD, useClass: AuthGuard }] },
      });
      const notes = new URL('/notes', app.url).href;
      expect((await send(notes, { method: 'GET' })).status).toBe(401);
      expect((await send(notes, { method: 'GET', headers: await bearer(idp()) })).status).toBe(401);
      const { request } = await asker(app, era, await bearer(idp()));
      const { result } = await (await request('tools/call', { name: 'notes', arguments: {} })).json();
      expect(result.content).toEqual([{ type: 'text', text: 'a note' }]);
      expect((await knocker(app, era)()).status).toBe(401);
    });

    it('callers without a token are served where that is allowed, and bad tokens are refused', async () => {
      const app = await start({ auth: { anonymous: true, requiredScopes: ['notes:read'] } });
      const knock = knocker(app, era);
      expect((await knock()).status).toBe(200);
      expect((await knock({ authorization: 'Bearer garbage' })).status).toBe(401);
      expect((await knock(await bearer(idp(), 'other'))).status).toBe(403);
      expect((await knock(await bearer(idp(), 'notes:read'))).status).toBe(200);
      expect(app.log.texts('warn')).toEqual([]);
    });
  });

  describe('before a message is read', () => {
    const era = 'modern';

    it('A2, A3, A6, A12: a request without a token gets 401 with the URL of the metadata and the scopes, without an error', async () => {
      const app = await start({ auth: { requiredScopes: ['notes:read', 'notes:list'] } });
      const response = await knocker(app, era)();
      expect(response.status).toBe(401);
      expect(response.header('www-authenticate')).toBe(
        `Bearer scope="notes:read notes:list", resource_metadata="${METADATA_URL}"`,
      );
      expect(await response.json()).toMatchObject({ ...refusal(), id: null });
    });

    it('A3: the challenge has no parameter "scope" without scopes', async () => {
      const response = await knocker(await start(), era)();
      expect(challengeIn(response)).toEqual({ resource_metadata: METADATA_URL });
    });

    it('A4: a token in the query or in the body is ignored', async () => {
      const app = await start();
      const token = await idp().token({ aud: 'https://mcp.test/mcp' });
      const inQuery = await knocker({ url: `${app.url}?access_token=${token}` }, era)();
      expect([inQuery.status, challengeIn(inQuery)]).toEqual([401, { resource_metadata: METADATA_URL }]);
      const form = { 'content-type': 'application/x-www-form-urlencoded' };
      const inBody = await send(app.url, { headers: form, body: `access_token=${token}` });
      expect(inBody.status).toBe(401);
    });

    it('A6: a malformed token gets 400', async () => {
      const knock = knocker(await start(), era);
      for (const authorization of [
        'Bearer',
        'Bearer ',
        'Bearer a b',
        'Bearer "x"',
        'bearer =x',
        'Bearer ä',
        'Bearer\tx',
        'Bearer, x',
      ]) {
        const response = await knock({ authorization });
        expect([authorization, response.status]).toEqual([authorization, 400]);
        expect(challengeIn(response)).toMatchObject({ error: 'invalid_request', resource_metadata: METADATA_URL });
        expect(await response.json()).toMatchObject(refusal());
      }
    });

    it('A12: credentials of another scheme count as a missing token', async () => {
      const knock = knocker(await start(), era);
      for (const authorization of ['Basic YTpi', 'Bearerx abc', 'Bearer-x abc', 'DPoP abc', '']) {
        const response = await knock({ authorization });
        expect([response.status, challengeIn(response)]).toEqual([401, { resource_metadata: METADATA_URL }]);
      }
    });

    it('A6: an invalid token gets 401 with the reason', async () => {
      const app = await start({ auth: { requiredScopes: ['notes:read'] } });
      const response = await knocker(app, era)({ authorization: 'Bearer garbage' });
      expect(response.status).toBe(401);
      expect(challengeIn(response)).toEqual({
        error: 'invalid_token',
        error_description: 'The token is not a JWT',
        scope: 'notes:read',
        resource_metadata: METADATA_URL,
      });
    });

    it('A2: a 401 of a guard of the app has a challenge too', async () => {
      const guard = {
        canActivate: () => {
          throw new UnauthorizedException('Not you');
        },
      };
      const app = await start({ guards: [guard] });
      const response = await knocker(app, era)(await bearer(idp()));
      expect(response.status).toBe(401);
      expect(challengeIn(response)).toMatchObject({ error: 'invalid_token', resource_metadata: METADATA_URL });
      expect((await response.json()).error.message).toBe('Not you');
      expect(app.log.texts('debug').join('\n')).not.toContain('Not you');
    });

    it('A2: a global guard that refuses a request without a token leads to the login, and not to a dead end', async () => {
      const provide = (verdict: () => boolean) => ({
        module: { providers: [{ provide: APP_GUARD, useValue: { canActivate: verdict } }] },
      });
      const refusing = [
        () => false,
        () => {
          throw new ForbiddenException();
        },
        () => {
          throw new UnauthorizedException();
        },
      ];
      for (const verdict of refusing) {
        const response = await knocker(await start(provide(verdict)), era)();
        expect([response.status, challengeIn(response)]).toEqual([401, { resource_metadata: METADATA_URL }]);
      }
      // With a token, 403 is what the guard says of this caller.
      const forbidden = await knocker(await start(provide(refusing[0]!)), era)(await bearer(idp()));
      expect([forbidden.status, forbidden.header('www-authenticate')]).toEqual([403, undefined]);
    });

    it('A6: a token gets 503 while the keys cannot be fetched', async () => {
      const away = 'http://127.0.0.1:9';
      const app = await startAlone({
        auth: { authorizationServers: [idp().issuer], jwt: { jwksUri: `${away}/jwks` } },
      });
      const response = await knocker(app, era)(await bearer(idp()));
      expect([response.status, response.header('retry-after')]).toEqual([503, '5']);
      expect(response.header('www-authenticate')).toBeUndefined();
      expect(app.log.texts('error')).toHaveLength(1);
    });

    it('the body of a request that is refused is not read', async () => {
      const app = await start();
      const headers = { 'content-type': 'application/json', 'content-length': '1000000' };
      const response = await send(app.url, { headers, keepOpen: true });
      expect(response.status).toBe(401);
      response.destroy();
    });
  });

  it('A4: GET and DELETE of a session need a token, too', async () => {
    const app = await start();
    const headers = await bearer(idp());
    const client = await app.client(headers).initialize();
    client.headers = {};
    for (const response of [await client.get(), await client.delete()]) {
      expect([response.status, challengeIn(response)]).toEqual([401, { resource_metadata: METADATA_URL }]);
      await response.text();
    }
    client.headers = headers;
    expect((await client.delete()).status).toBe(204);
  });

  it('E2: OPTIONS needs no token: it is left to CORS', async () => {
    const app = await start();
    const response = await send(app.url, { method: 'OPTIONS' });
    expect([response.status, response.header('www-authenticate')]).toEqual([404, undefined]);
  });

  it('pages of other origins can read the challenge, after a real preflight', async () => {
    const origin = 'https://page.test';
    const app = await start({
      allowedOrigins: [origin],
      configure: (nest) => nest.enableCors({ origin: [origin], credentials: true, ...mcpCors() }),
    });
    const preflight = await send(app.url, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,mcp-protocol-version,mcp-session-id',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.header('access-control-allow-headers')).toContain('authorization');
    const response = await knocker(app, 'legacy')({ origin });
    expect(response.status).toBe(401);
    expect(response.header('access-control-allow-origin')).toBe(origin);
    const exposed = response
      .header('access-control-expose-headers')!
      .split(',')
      .map((name) => name.trim());
    expect(exposed).toEqual(expect.arrayContaining(['WWW-Authenticate', 'Mcp-Session-Id']));
  });
});
