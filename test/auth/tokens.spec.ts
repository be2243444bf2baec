import { createHmac, createPublicKey, type JsonWebKey } from 'node:crypto';
import { exportJWK, generateKeyPair, UnsecuredJWT } from 'jose';
import { McpCtx, type McpContext, Tool } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { McpAuth, type AuthInfo } from 'nestjs-mcp-streamable/auth';
import { Injectable } from '@nestjs/common';
import { afterAll, afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { gate, ONE_ADAPTER } from '../support/app.js';
import { AuthorizationServer, type Claims } from '../support/authorization-server.js';
import {
  asker,
  authorizationServer,
  bearer,
  challengeIn,
  closing,
  ERAS,
  knocker,
  protectedApps,
  RESOURCE,
} from './protected-apps.js';

@Injectable()
class Tools {
  @Tool({ name: 'who', description: 'Tells who calls.' })
  who(@McpAuth() auth: AuthInfo, @McpCtx() ctx: McpContext) {
    const { user } = ctx.request as { user: { sub?: string } };
    const { clientId, scopes, expiresAt, resourceMetadataUrl } = auth;
    const seen = { clientId, scopes, expiresAt, resourceMetadataUrl, user: user.sub, principal: ctx.principal };
    return JSON.stringify({ ...seen, same: ctx.auth === auth });
  }
}

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

describe.each(ONE_ADAPTER)('access tokens, on %s', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp, { providers: [Tools] });
  const closed = closing<AuthorizationServer>();
  const now = () => Math.floor(Date.now() / 1000);
  const who = async (app: { url: string }, headers: Record<string, string>, era: (typeof ERAS)[number] = 'modern') => {
    const { request } = await asker(app, era, headers);
    const { result } = await (await request('tools/call', { name: 'who', arguments: {} })).json();
    return JSON.parse(result.content[0].text as string);
  };

  it.each(ERAS)('a handler gets the caller and the scopes of its token (%s)', async (era) => {
    const exp = now() + 100;
    const headers = await bearer(idp(), 'notes:read notes:write', { exp });
    expect(await who(await start(), headers, era)).toEqual({
      clientId: 'client',
      scopes: ['notes:read', 'notes:write'],
      expiresAt: exp,
      resourceMetadataUrl: 'https://mcp.test/.well-known/oauth-protected-resource/mcp',
      user: 'ann',
      principal: `${idp().issuer}|ann`,
      same: true,
    });
  });

  it.each<[string, (at: number) => Claims, string, (typeof ERAS)[number]]>([
    ['for another resource', () => ({ aud: 'https://other.test/mcp' }), 'The token is for the audience', 'legacy'],
    ['for the origin only', () => ({ aud: 'https://mcp.test' }), 'The token is for the audience', 'modern'],
    ['for a part of the resource', () => ({ aud: `${RESOURCE}#admin` }), 'The token is for the audience', 'legacy'],
    ['for a path below', () => ({ aud: `${RESOURCE}/admin` }), 'The token is for the audience', 'modern'],
    [
      'for several others',
      () => ({ aud: ['https://a.test', 'https://b.test'] }),
      'The token is for the audience',
      'legacy',
    ],
    ['for an audience that is no text', () => ({ aud: [7] as never }), 'The token is for the audience', 'modern'],
    ['for nobody', () => ({ aud: undefined }), "claim 'aud'", 'legacy'],
    ['of another issuer', () => ({ iss: 'https://evil.test/' }), 'The token is from the issuer', 'modern'],
    ['of the same issuer with a slash', () => ({ iss: `${idp().issuer}/` }), 'The token is from the issuer', 'legacy'],
    ['of no issuer', () => ({ iss: undefined }), 'The token is from the issuer', 'modern'],
    ['that has expired', (at) => ({ exp: at - 60 }), 'The token has expired', 'legacy'],
    ['that never expires', () => ({ exp: undefined }), "claim 'exp'", 'modern'],
    ['that is not valid yet', (at) => ({ nbf: at + 60 }), 'The token is not valid yet', 'legacy'],
    ['with an empty subject', () => ({ sub: '' }), 'no valid subject', 'modern'],
  ])('A5: a token %s is refused', async (_what, claims, text, era) => {
    const response = await knocker(await start(), era)(await bearer(idp(), '', claims(now())));
    expect(response.status).toBe(401);
    const { error, error_description: description } = challengeIn(response);
    expect([error, description]).toEqual(['invalid_token', expect.stringContaining(text)]);
    expect((await response.json()).error.message).toContain(text.replaceAll("'", '"'));
  });

  it('A17: a JWT that its issuer signed for another purpose is refused, and the log names the option', async () => {
    const app = await start();
    const knock = knocker(app, 'modern');
    const types = ['logout+jwt', 'dpop+jwt', 'application/logout+JWT', 'secevent+jwt', 'oauth-authz-req+jwt', '', 7];
    for (const typ of types) {
      const token = await idp().token({ aud: RESOURCE }, { typ });
      const response = await knock({ authorization: `Bearer ${token}` });
      expect([typ, response.status]).toEqual([typ, 401]);
      expect(challengeIn(response)).toMatchObject({
        error: 'invalid_token',
        error_description: expect.stringMatching(/^The token has the type .* at\+jwt or jwt here/),
      });
      await response.text();
    }
    expect(app.log.texts('warn')).toEqual([expect.stringContaining('auth.jwt.types')]);
  });

  it('A17: an access token may have the type of RFC 9068, JWT or none, in any spelling', async () => {
    const knock = knocker(await start(), 'modern');
    for (const typ of ['at+jwt', 'AT+JWT', 'application/at+jwt', 'Application/AT+jwt', 'JWT', 'jwt', null]) {
      const token = await idp().token({ aud: RESOURCE }, { typ });
      const response = await knock({ authorization: `Bearer ${token}` });
      expect([typ, response.status]).toEqual([typ, 200]);
      await response.text();
    }
  });

  it('A17: the option "auth.jwt.types" decides which types are accepted', async () => {
    const statusOf = async (types: string[], typ: string | null): Promise<number> => {
      const token = await idp().token({ aud: RESOURCE }, { typ });
      const app = await start({ auth: { jwt: { types } } });
      return (await knocker(app, 'modern')({ authorization: `Bearer ${token}` })).status;
    };
    expect(await statusOf(['Application/AT+JWT'], 'at+jwt')).toBe(200);
    expect(await statusOf(['at+jwt'], 'JWT')).toBe(401);
    expect(await statusOf(['at+jwt'], null)).toBe(401);
    expect(await statusOf(['vendor+jwt'], 'vendor+jwt')).toBe(200);
  });

  it('A17: a token that is bound to a key is refused, since its caller has not proved to have the key', async () => {
    const knock = knocker(await start(), 'modern');
    const thumbprint = '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I';
    for (const cnf of [{ jkt: thumbprint }, { 'x5t#S256': thumbprint }, { jwk: {} }, {}, 'x']) {
      const response = await knock(await bearer(idp(), '', { cnf }));
      expect([cnf, response.status]).toEqual([cnf, 401]);
      const { error, error_description: description } = challengeIn(response);
      expect([error, description]).toEqual(['invalid_token', expect.stringContaining('The token is bound to a key')]);
      await response.text();
    }
    expect((await knock(await bearer(idp(), '', { cnf: null }))).status).toBe(200);
  });

  it('A5: signatures that mean nothing are refused', async () => {
    const knock = knocker(await start(), 'modern');
    const claims = { iss: idp().issuer, sub: 'ann', aud: RESOURCE, iat: now(), exp: now() + 300 };
    const [jwk] = (idp().jwks as { keys: (JsonWebKey & { kid: string })[] }).keys;
    const { kid } = jwk!;
    const pem = createPublicKey({ key: jwk!, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
    const hs256 = (secret: string | Buffer) => {
      const input = `${base64({ alg: 'HS256', kid })}.${base64(claims)}`;
      return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
    };
    const good = await idp().token({ aud: RESOURCE });
    const [head, body, signature] = good.split('.') as [string, string, string];
    const stranger = await generateKeyPair('ES256');
    const rsa = await generateKeyPair('RS256');
    const forged = await idp().token({ aud: RESOURCE }, { key: stranger.privateKey });
    const embedded = base64({ alg: 'ES256', jwk: await exportJWK(stranger.publicKey), kid });
    for (const [what, token, text] of [
      ['none', new UnsecuredJWT(claims).encode(), 'not accepted'],
      ['none, spelt otherwise', `${base64({ alg: 'NoNe', kid })}.${base64(claims)}.`, 'not accepted'],
      ['HS256 with the public key as its secret', hs256(pem), 'not accepted'],
      ['HS256 with the key as JSON', hs256(JSON.stringify(jwk)), 'not accepted'],
      ['a key of a stranger under a known id', forged, 'The signature of the token is not valid'],
      ['an unknown key', await idp().token({ aud: RESOURCE }, { key: stranger.privateKey, kid: 'x' }), 'unknown key'],
      ['another algorithm', await idp().token({ aud: RESOURCE }, { key: rsa.privateKey, alg: 'RS256' }), 'unknown key'],
      [
        'a key that the token brings along',
        `${embedded}.${body}.${forged.split('.')[2]}`,
        'The signature of the token is not valid',
      ],
      [
        'another body',
        `${head}.${base64({ ...claims, sub: 'root' })}.${signature}`,
        'The signature of the token is not valid',
      ],
      ['no signature', `${head}.${body}.`, 'The signature of the token is not valid'],
      [
        'critical headers that are unknown',
        `${base64({ alg: 'ES256', kid, crit: ['x'], x: 1 })}.${body}.${signature}`,
        '',
      ],
    ] as const) {
      const response = await knock({ authorization: `Bearer ${token}` });
      const { error, error_description: description } = challengeIn(response);
      expect([what, response.status, error]).toEqual([what, 401, 'invalid_token']);
      expect(`${what}: ${description}`).toContain(text);
      await response.text();
    }
    expect((await knock({ authorization: `Bearer ${good}` })).status).toBe(200);
  });

  it('A5: malformed tokens of any size are refused without a request to the issuer', async () => {
    const app = await start();
    const knock = knocker(app, 'modern');
    const asked = idp().requests.length;
    for (const token of [
      'x',
      '..',
      'a.b.c',
      'a.b.c.d.e',
      `${base64([])}.${base64([])}.x`,
      `${base64(null)}.${base64(null)}.x`,
      `${base64({ alg: 'ES256' })}.${base64('text')}.x`,
      'a'.repeat(13_000),
      `${base64({})}.${'a'.repeat(10_000)}.x`,
      `${base64({ alg: 'ES256' })}.${base64({ iss: { toString: 1 } })}.x`,
      `${base64({ alg: 'ES256' })}.${base64({ iss: '__proto__' })}.x`,
    ]) {
      const response = await knock({ authorization: `Bearer ${token}` });
      expect([token.slice(0, 30), response.status]).toEqual([token.slice(0, 30), 401]);
      await response.text();
    }
    expect(idp().requests.slice(asked)).toEqual([]);
    expect(app.log.texts('error')).toEqual([]);
  });

  it('the claims of a token cannot add headers to the answer', async () => {
    const response = await knocker(
      await start(),
      'modern',
    )(await bearer(idp(), '', { aud: 'x", scope="admin", y="\r\nX-Evil: 1\\' }));
    expect(challengeIn(response)['scope']).toBeUndefined();
    expect(response.header('x-evil')).toBeUndefined();
  });

  it('the claims of a token cannot add lines to the log', async () => {
    const app = await start();
    const aud = `x\r\nLOG forged\u2028${'y'.repeat(2_000)}`;
    await knocker(app, 'modern')(await bearer(idp(), '', { aud }));
    const lines = app.log.texts();
    expect(lines.find((line) => line.includes('x  LOG forged y'))?.length).toBeLessThan(500);
    expect(lines.filter((line) => /[\r\n\u2028]/.test(line))).toEqual([]);
  });

  it('A5, A10: the audience may be one of several, and is compared in canonical form', async () => {
    const knock = knocker(await start(), 'modern');
    for (const aud of [RESOURCE, `${RESOURCE}/`, 'HTTPS://MCP.TEST/mcp', ['https://idp.test/userinfo', RESOURCE]]) {
      const response = await knock(await bearer(idp(), '', { aud }));
      expect([aud, response.status]).toEqual([aud, 200]);
      await response.text();
    }
    expect((await knock(await bearer(idp(), '', { aud: 'https://mcp.test/MCP' }))).status).toBe(401);
  });

  it('A5: the audiences of the option "auth.jwt.audience" are accepted, and another one is refused with a warning', async () => {
    const app = await start({ auth: { jwt: { audience: ['api://notes', 'e7a1-client-id'] } } });
    const knock = knocker(app, 'modern');
    for (const [aud, status] of [
      ['api://notes', 200],
      ['e7a1-client-id', 200],
      ['api://notes/', 401],
      [RESOURCE, 401],
    ] as const) {
      const response = await knock(await bearer(idp(), '', { aud }));
      expect([aud, response.status]).toEqual([aud, status]);
      await response.text();
    }
    // A mistake of the configuration, mostly: said once, with the option.
    expect(app.log.texts('warn')).toEqual([expect.stringContaining('The token is for the audience ')]);
  });

  it('scopes are found where issuers put them', async () => {
    const app = await start();
    for (const claims of [
      { scope: 'a b' },
      { scp: 'a b' },
      { scp: ['a', 'b'] },
      { permissions: ['a', 'b'] },
      { scope: 'a', permissions: ['b', 'a', 7] },
    ]) {
      const token = await idp().token({ aud: RESOURCE, ...claims });
      expect((await who(app, { authorization: `Bearer ${token}` })).scopes).toEqual(['a', 'b']);
    }
    const roles = await start({ auth: { jwt: { scopes: ({ roles }) => roles as string[] } } });
    const token = await idp().token({ aud: RESOURCE, roles: ['r'], scope: 'a' });
    expect((await who(roles, { authorization: `Bearer ${token}` })).scopes).toEqual(['r']);
    expect((await who(roles, await bearer(idp(), 'a'))).scopes).toEqual([]);
    const wrong = await start({ auth: { jwt: { scopes: ({ scope }) => scope as never } } });
    expect((await knocker(wrong, 'modern')(await bearer(idp(), 'a b'))).status).toBe(503);
    expect(wrong.log.texts('error')).toEqual([expect.stringContaining('"auth.jwt.scopes" gave "a b"')]);
  });

  it('A14: a client that calls for itself is the caller with clientsAreCallers, and gets 500 without', async () => {
    const app = await start({ auth: { clientsAreCallers: true } });
    const headers = await bearer(idp(), '', { sub: undefined, client_id: undefined, azp: 'robot' });
    expect(await who(app, headers)).toMatchObject({ clientId: 'robot', principal: `client:${idp().issuer}|robot` });
    expect((await knocker(await start(), 'modern')(headers)).status).toBe(500);
  });

  it('A13: two users of one client are two callers, also where subjects are numbers', async () => {
    const app = await start();
    for (const sub of [7, 8]) {
      const { principal } = await who(app, await bearer(idp(), '', { sub: sub as never }));
      expect(principal).toBe(`${idp().issuer}|${sub}`);
    }
    for (const sub of [{ id: 7 }, ['ann'], true, 2 ** 60]) {
      const response = await knocker(app, 'modern')(await bearer(idp(), '', { sub: sub as never }));
      expect([sub, response.status]).toEqual([sub, 401]);
      await response.text();
    }
  });

  it('clocks may differ by the tolerance, and no more', async () => {
    const strict = knocker(await start({ auth: { clockToleranceMs: 0 } }), 'modern');
    const lax = knocker(await start({ auth: { clockToleranceMs: 120_000 } }), 'modern');
    for (const claims of [{ exp: now() - 60 }, { nbf: now() + 60 }]) {
      const headers = await bearer(idp(), '', claims);
      expect([(await strict(headers)).status, (await lax(headers)).status]).toEqual([401, 200]);
    }
  });

  it('a key that an issuer has added is found', async () => {
    const own = closed(await AuthorizationServer.start());
    const knock = knocker(await start({ auth: { authorizationServers: [own.issuer] } }), 'modern');
    await own.rotate('second');
    expect((await knock(await bearer(own))).status).toBe(200);
    const asked = own.requests.filter((path) => path === '/jwks').length;
    expect(asked).toBe(1);
  });

  it('a token that does not name its key may be signed with any of the issuer', async () => {
    const own = closed(await AuthorizationServer.start());
    const first = await own.token({ aud: RESOURCE }, { kid: null });
    await own.rotate();
    const second = await own.token({ aud: RESOURCE }, { kid: null });
    const stranger = await generateKeyPair('ES256');
    const forged = await own.token({ aud: RESOURCE }, { kid: null, key: stranger.privateKey });
    const expired = await own.token({ aud: RESOURCE, exp: now() - 60 }, { kid: null });
    const knock = knocker(await start({ auth: { authorizationServers: [own.issuer] } }), 'modern');
    const descriptions = [];
    for (const token of [first, second, forged, expired]) {
      const response = await knock({ authorization: `Bearer ${token}` });
      descriptions.push(response.status === 200 || challengeIn(response)['error_description']);
      await response.text();
    }
    expect(descriptions).toEqual([true, true, 'The signature of the token is not valid', 'The token has expired']);
  });

  it.each([
    ['oauth-authorization-server', ''],
    ['oauth-authorization-server', '/tenant'],
    ['openid-configuration', ''],
    ['openid-configuration', '/tenant/v2.0'],
  ] as const)('keys are found by the metadata of the issuer: %s at "%s"', async (wellKnown, path) => {
    const own = closed(await AuthorizationServer.start({ wellKnown, path }));
    const app = await start({ auth: { authorizationServers: [own.issuer] } });
    expect((await who(app, await bearer(own))).principal).toBe(`${own.issuer}|ann`);
  });

  it.each([
    ['of another issuer', { issuer: 'https://evil.test' }, 'its issuer is "https://evil.test"'],
    ['with keys that come over plain HTTP', { jwks_uri: 'http://keys.test/jwks' }, 'it is not "https"'],
    ['without keys', { jwks_uri: undefined }, 'it has no "jwks_uri"'],
  ])('metadata %s is refused', async (_what, metadata, text) => {
    const own = closed(await AuthorizationServer.start({ metadata }));
    const app = await start({ auth: { authorizationServers: [own.issuer] } });
    const knock = knocker(app, 'modern');
    const headers = await bearer(own);
    for (let times = 0; times < 3; times++) expect((await knock(headers)).status).toBe(503);
    // Asked for once, and not for each request.
    expect(own.requests).toHaveLength(2);
    expect(app.log.texts('error')).toEqual([expect.stringContaining(text)]);
    expect(app.log.texts('error')[0]).toContain('"auth.jwt.jwksUri"');
  });

  it('a token that is signed with the key of another issuer is refused', async () => {
    const other = closed(await AuthorizationServer.start());
    const app = await start({ auth: { authorizationServers: [idp().issuer, other.issuer] } });
    expect((await who(app, await bearer(idp()))).principal).toBe(`${idp().issuer}|ann`);
    expect((await who(app, await bearer(other))).principal).toBe(`${other.issuer}|ann`);
    const posing = await knocker(app, 'modern')(await bearer(other, '', { iss: idp().issuer }));
    expect(posing.status).toBe(401);
  });

  it('the issuer may have another name than the authorization server, and its keys a place of their own', async () => {
    const jwt = { issuer: ['https://login.test/'], jwksUri: { 'https://login.test/': `${idp().origin}/jwks` } };
    const app = await start({ auth: { authorizationServers: ['https://idp.test'], jwt } });
    const headers = await bearer(idp(), '', { iss: 'https://login.test/' });
    expect((await who(app, headers)).principal).toBe('https://login.test/|ann');
    expect((await knocker(app, 'modern')(await bearer(idp()))).status).toBe(401);
  });

  it('A16: the keys of an unavailable issuer are requested after 1 s, 2 s and 4 s, and the log has the outage and its end', async () => {
    const clock = new ManualClock();
    const own = closed(await AuthorizationServer.start({ now: () => clock.now() }));
    own.failing = true;
    const app = await start({ auth: { authorizationServers: [own.issuer] }, clock });
    const knock = knocker(app, 'modern');
    const headers = await bearer(own);
    const asked = () => own.requests.filter((path) => path === '/jwks').length;
    const together = await Promise.all(Array.from({ length: 20 }, () => knock(headers)));
    expect([new Set(together.map(({ status }) => status)), asked()]).toEqual([new Set([503]), 1]);
    for (const [waitMs, times] of [
      [999, 1],
      [1, 2],
      [1_999, 2],
      [1, 3],
      [3_999, 3],
    ] as const) {
      await clock.advance(waitMs);
      expect((await knock(headers)).status).toBe(503);
      expect(asked()).toBe(times);
    }
    own.failing = false;
    await clock.advance(1);
    expect((await knock(headers)).status).toBe(200);
    const text = `The keys of the issuer ${own.issuer} could not be used: `;
    expect(app.log.texts('error')).toEqual([expect.stringContaining(text)]);
    const over = app.log.texts('log').filter((line) => line.includes('works again'));
    expect(over).toEqual([expect.stringContaining('after 7 s')]);
  });

  it('A16: an issuer that stays away is asked every 30 s', async () => {
    const clock = new ManualClock();
    const own = closed(await AuthorizationServer.start({ now: () => clock.now() }));
    own.failing = true;
    const knock = knocker(await start({ auth: { authorizationServers: [own.issuer] }, clock }), 'modern');
    const headers = await bearer(own);
    const askedAfter = async (ms: number) => {
      await clock.advance(ms);
      const before = own.requests.filter((path) => path === '/jwks').length;
      expect((await knock(headers)).status).toBe(503);
      return own.requests.filter((path) => path === '/jwks').length - before;
    };
    await askedAfter(0);
    for (const waitMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      expect([waitMs, await askedAfter(waitMs - 1), await askedAfter(1)]).toEqual([waitMs, 0, 1]);
    }
  });

  it('A16: keys that do not come within 5 s are 503, and are asked for again after a second', async () => {
    const clock = new ManualClock();
    const own = closed(await AuthorizationServer.start({ now: () => clock.now() }));
    own.silent = true;
    const app = await start({ auth: { authorizationServers: [own.issuer] }, clock });
    const knock = knocker(app, 'modern');
    const headers = await bearer(own);
    let answered = false;
    const waiting = knock(headers).finally(() => (answered = true));
    await expect.poll(() => own.requests).toContain('/jwks');
    await clock.advance(4_999);
    expect(answered).toBe(false);
    await clock.advance(1);
    const refused = await waiting;
    expect([refused.status, refused.header('retry-after')]).toEqual([503, '5']);
    own.silent = false;
    expect((await knock(headers)).status).toBe(503);
    await clock.advance(1_000);
    expect((await knock(headers)).status).toBe(200);
    await app.settled({ timers: 0 });
  });

  it('A16: while an issuer does not answer, tokens of the keys that are known are served', async () => {
    const clock = new ManualClock();
    const own = closed(await AuthorizationServer.start({ now: () => clock.now() }));
    const knock = knocker(await start({ auth: { authorizationServers: [own.issuer] }, clock }), 'modern');
    const known = await bearer(own);
    expect((await knock(known)).status).toBe(200);
    own.silent = true;
    // An unknown key is asked for when the known ones are 30 s old.
    const { now: realNow } = Date;
    const later = vi.spyOn(Date, 'now').mockImplementation(() => realNow() + 31_000);
    onTestFinished(() => later.mockRestore());
    const strange = await Promise.all(
      Array.from({ length: 60 }, (_, n) => own.token({ aud: RESOURCE }, { kid: `k${n}` })),
    );
    const waiting = strange.map((token) => knock({ authorization: `Bearer ${token}` }));
    await expect.poll(() => own.requests.filter((path) => path === '/jwks')).toHaveLength(2);
    const statuses = async () => [(await knock(known)).status, (await knock(await bearer(own))).status];
    expect(await statuses()).toEqual([200, 200]);
    await clock.advance(5_000);
    expect(new Set((await Promise.all(waiting)).map(({ status }) => status))).toEqual(new Set([503]));
    expect(await statuses()).toEqual([200, 200]);
  });

  describe('A16: signatures', () => {
    const verify = vi.spyOn(crypto.subtle, 'verify');
    afterEach(() => void verify.mockReset());
    afterAll(() => verify.mockRestore());

    it('signatures that were refused are refused for 5 s without a second verification', async () => {
      const clock = new ManualClock();
      const own = closed(await AuthorizationServer.start({ now: () => clock.now() }));
      const knock = knocker(await start({ auth: { authorizationServers: [own.issuer] }, clock }), 'modern');
      const stranger = await generateKeyPair('ES256');
      const forged = await own.token({ aud: RESOURCE }, { key: stranger.privateKey });
      const verifiedAfter = async (ms: number) => {
        await clock.advance(ms);
        verify.mockClear();
        const response = await knock({ authorization: `Bearer ${forged}` });
        expect([response.status, challengeIn(response)['error_description']]).toEqual([
          401,
          'The signature of the token is not valid',
        ]);
        return verify.mock.calls.length;
      };
      expect([await verifiedAfter(0), await verifiedAfter(4_999), await verifiedAfter(1)]).toEqual([1, 0, 1]);
      verify.mockClear();
      expect((await knock(await bearer(own))).status).toBe(200);
      expect(verify).toHaveBeenCalledOnce();
    });

    it('signatures are verified 50 at once, and further ones wait for their turn', async () => {
      const knock = knocker(await start(), 'modern');
      const headers = await bearer(idp());
      expect((await knock(headers)).status).toBe(200);
      verify.mockClear();
      const held = gate();
      verify.mockImplementation(() => held.promise.then(() => true));
      const answers = Array.from({ length: 60 }, () => knock(headers));
      await expect.poll(() => verify.mock.calls.length).toBe(50);
      held.open();
      expect(new Set((await Promise.all(answers)).map(({ status }) => status))).toEqual(new Set([200]));
      expect(verify).toHaveBeenCalledTimes(60);
    });
  });

  it('an app that has a user already, and derives principals from it, keeps it', async () => {
    const guard = {
      canActivate: (context: { switchToHttp(): { getRequest(): object } }) => {
        Object.assign(context.switchToHttp().getRequest(), { user: { sub: 'mapped' } });
        return true;
      },
    };
    const app = await start({ guards: [guard], principal: (request: { user: { sub: string } }) => request.user.sub });
    const { user, principal } = await who(app, await bearer(idp()));
    expect([user, principal]).toEqual(['mapped', 'mapped']);
  });
});
