import { OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server';
import { type ExecutionContext, Inject, Injectable, Module, Scope, UnauthorizedException } from '@nestjs/common';
import { McpCtx, type McpContext, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import type { AuthInfo, OAuthTokenVerifier } from 'nestjs-mcp-streamable/auth';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { gate, ONE_ADAPTER, serverInfo, startFailure } from '../support/app.js';
import { asker, authorizationServer, challengeIn, ERAS, knocker, protectedApps, RESOURCE } from './protected-apps.js';

@Injectable()
class Tools {
  @Tool({ name: 'who', description: 'Tells who calls.' })
  who(@McpCtx() ctx: McpContext) {
    return String(ctx.principal);
  }
}

const as = (token: string) => ({ authorization: `Bearer ${token}` });
const infoOf = (token: string, more: Partial<AuthInfo> = {}): AuthInfo => ({
  token,
  clientId: 'client',
  scopes: [],
  extra: { sub: 'ann' },
  ...more,
});

describe.each(ONE_ADAPTER)('tokens that the app verifies, on %s', (adapter) => {
  const idp = authorizationServer();
  const time = new ManualClock();
  const start = protectedApps(adapter, idp, { providers: [Tools], clock: time });
  const startBare = protectedApps(adapter, idp, { clock: time });
  // An app remembers the tokens that it has seen, and a verifier that failed, for a while.
  afterEach(() => time.advance(3_600_000));
  const verify = vi.fn<OAuthTokenVerifier['verifyAccessToken']>();
  const verifier = { verifyAccessToken: verify };
  beforeEach(() => {
    verify.mockReset();
    verify.mockImplementation((token) => Promise.resolve(infoOf(token)));
  });
  const who = async (app: { url: string }, token: string) => {
    const { request } = await asker(app, 'modern', as(token));
    const { result } = await (await request('tools/call', { name: 'who', arguments: {} })).json();
    return result.content[0].text as string;
  };

  it('A17: a token that its introspection says is bound to a key is refused', async () => {
    const knock = knocker(await start({ auth: { verifier } }), 'modern');
    verify.mockImplementation((token) => Promise.resolve(infoOf(token, { extra: { sub: 'ann', cnf: { jkt: 'x' } } })));
    const refused = await knock(as('bound'));
    expect([refused.status, challengeIn(refused)['error']]).toEqual([401, 'invalid_token']);
    verify.mockImplementation((token) => Promise.resolve(infoOf(token, { extra: { sub: 'ann', cnf: null } })));
    expect((await knock(as('unbound'))).status).toBe(200);
  });

  /** Each in one era. */
  const OUTCOMES: readonly (readonly [string, () => Promise<AuthInfo> | AuthInfo, number, string | undefined])[] = [
    ['an OAuthError', () => Promise.reject(new OAuthError(OAuthErrorCode.InvalidToken, 'Revoked')), 401, 'Revoked'],
    [
      'one of another copy',
      () => Promise.reject(Object.assign(new Error('Old'), { errorCode: 'invalid_token' })),
      401,
      'Old',
    ],
    ['an exception of Nest', () => Promise.reject(new UnauthorizedException()), 401, 'The token is not valid'],
    ['nothing', () => Promise.resolve(undefined as never), 401, 'The token is not valid'],
    ['too few scopes', () => Promise.reject(new OAuthError('insufficient_scope', 'More')), 403, 'More'],
    ['one that has expired', () => Promise.resolve(infoOf('x', { expiresAt: 1 })), 401, 'The token has expired'],
    [
      'one that expires at no time',
      () => Promise.resolve(infoOf('x', { expiresAt: Number.NaN })),
      401,
      'The token has expired',
    ],
    [
      'one for another resource',
      () => Promise.resolve(infoOf('x', { resource: new URL('https://other.test/mcp'), extra: { aud: RESOURCE } })),
      401,
      'The token is for the audience https://other.test/mcp, not for https://mcp.test/mcp',
    ],
    [
      'one for another resource, which is a text',
      () => Promise.resolve(infoOf('x', { resource: 'https://other.test/mcp' as never })),
      401,
      'The token is for the audience https://other.test/mcp, not for https://mcp.test/mcp',
    ],
    [
      'one whose introspection names another audience',
      () => Promise.resolve(infoOf('x', { extra: { aud: ['https://other.test/mcp'] } })),
      401,
      'The token is for the audience https://other.test/mcp, not for https://mcp.test/mcp',
    ],
    [
      'one whose subject is empty',
      () => Promise.resolve(infoOf('x', { extra: { sub: '' } })),
      401,
      'The token has no valid subject',
    ],
    [
      'one whose subject is null',
      () => Promise.resolve(infoOf('x', { extra: { sub: null } })),
      401,
      'The token has no valid subject',
    ],
    ['a failure', () => Promise.reject(new Error('fetch failed')), 503, undefined],
    [
      'a failure that is thrown at once',
      () => {
        throw new Error('not even a promise');
      },
      503,
      undefined,
    ],
  ];
  it.each(OUTCOMES.map((row, at) => [...row, ERAS[at % 2]!] as const))(
    'A5, A6: %s',
    async (_what, outcome, status, description, era) => {
      verify.mockImplementation(outcome as never);
      const response = await knocker(await start({ auth: { verifier } }), era)(as('x'));
      expect(response.status).toBe(status);
      if (status === 503) expect(response.header('www-authenticate')).toBeUndefined();
      else expect(challengeIn(response)['error_description']).toBe(description);
      await response.text();
    },
  );

  it('an AuthInfo without an end or a resource is enough', async () => {
    expect(await who(await start({ auth: { verifier } }), 'x')).toBe('ann');
  });

  it('A14: a token without a subject gets 500, and the log names what to set, once', async () => {
    verify.mockImplementation((token) => Promise.resolve({ token, clientId: 'app', scopes: [] }));
    const app = await start({ auth: { verifier } });
    for (const era of ERAS) {
      const response = await knocker(app, era)(as('x'));
      expect(response.status).toBe(500);
      expect((await response.json()).error.message).toBe('Internal error');
    }
    const [text, ...more] = app.log.texts('error');
    expect(text).toMatch(/"extra\.sub".*"auth\.clientsAreCallers: true"/);
    expect(more).toEqual([]);
  });

  it('A14: where the app derives principals by a function, a token needs no subject', async () => {
    verify.mockImplementation((token) => Promise.resolve({ token, clientId: 'app', scopes: [] }));
    const principal = (request: { auth: AuthInfo }) => `app:${request.auth.clientId}`;
    expect(await who(await start({ auth: { verifier }, principal }), 'x')).toBe('app:app');
  });

  it('A14: clients that call for themselves share nothing with users of the same name', async () => {
    const app = await start({ auth: { verifier, clientsAreCallers: true } });
    for (const [token, extra, principal] of [
      ['a', undefined, 'client:robot'],
      ['b', { iss: 'https://a.test' }, 'client:https://a.test|robot'],
      ['c', { iss: 'https://a.test', sub: 'robot' }, 'https://a.test|robot'],
      ['d', { iss: 'https://a.test', sub: 'client:robot' }, 'https://a.test|client:robot'],
    ] as const) {
      verify.mockResolvedValue({ token, clientId: 'robot', scopes: [], ...(extra && { extra }) });
      expect(await who(app, token)).toBe(principal);
    }
    for (const [token, clientId, extra] of [
      ['e', 'robot', { sub: 'client:robot' }],
      ['f', 'robot', { sub: '' }],
      ['g', 'robot', { sub: null }],
      ['h', '', {}],
    ] as const) {
      verify.mockResolvedValue({ token, clientId, scopes: [], extra });
      expect([token, (await knocker(app, 'modern')(as(token))).status]).toEqual([token, 401]);
    }
  });

  describe('A15: a user of guards beside the token', () => {
    const leaving = (user: object) => ({
      canActivate: (context: ExecutionContext) => Boolean((context.switchToHttp().getRequest().user = user)),
    });

    it.each([
      ['sub', { sub: 'bob' }],
      ['id', { id: 'bob' }],
      ['userId', { userId: 7 }],
    ])('a user of guards beside the token that is somebody else by its %s is refused with 403', async (_, user) => {
      const app = await start({ auth: { verifier }, guards: [leaving(user)] });
      for (const era of ERAS) {
        const response = await knocker(app, era)(as('x'));
        expect(response.status).toBe(403);
        expect(response.header('www-authenticate')).toBeUndefined();
      }
      expect(app.log.texts('warn')).toEqual([expect.stringContaining('sets the option "principal"')]);
    });

    it.each([
      ['has the same subject', { sub: 'ann' }],
      ['has the same principal', { id: 'https://a.test|ann' }],
      ['has no id', { tenant: 'acme' }],
    ])('a user of guards beside the token that %s is served', async (_, user) => {
      verify.mockResolvedValue(infoOf('x', { extra: { iss: 'https://a.test', sub: 'ann' } }));
      expect(await who(await start({ auth: { verifier }, guards: [leaving(user)] }), 'x')).toBe('https://a.test|ann');
    });

    it('a user of guards beside the token may have ids of its own where the option "principal" decides', async () => {
      const principal = (request: { user: { id: number } }) => request.user.id;
      const app = await start({ auth: { verifier }, guards: [leaving({ id: 42 })], principal });
      expect(await who(app, 'x')).toBe('42');
    });
  });

  it('A13: the caller is the subject of its issuer, as far as the token names them', async () => {
    const app = await start({ auth: { verifier } });
    for (const [extra, principal] of [
      [{ iss: 'https://a.test', sub: 'ann' }, 'https://a.test|ann'],
      [{ sub: 'ann' }, 'ann'],
      [{ sub: 7 }, '7'],
    ] as const) {
      verify.mockImplementation((token) => Promise.resolve(infoOf(token, { extra })));
      expect(await who(app, JSON.stringify(extra).replaceAll(/[^\w]/g, ''))).toBe(principal);
    }
  });

  it.each([
    ['a text', 'notes:readonly'],
    ['null', null],
    ['numbers', [7]],
    ['an object', { 'notes:read': true }],
  ])('A7: scopes that are %s are a failure of the verifier', async (_, scopes) => {
    verify.mockImplementation((token) => Promise.resolve(infoOf(token, { scopes: scopes as never })));
    const app = await start({ auth: { verifier, requiredScopes: ['notes:read'] } });
    const response = await knocker(app, 'modern')(as('x'));
    expect([response.status, response.header('www-authenticate')]).toEqual([503, undefined]);
    const text = 'The scopes of a token must be an array of strings; the option "auth.verifier" gave ';
    expect(app.log.texts('error')).toEqual([expect.stringContaining(text)]);
  });

  it('A5: the resource is compared in canonical form', async () => {
    verify.mockImplementation((token) =>
      Promise.resolve(infoOf(token, { resource: new URL('https://MCP.test/mcp/') })),
    );
    expect(await who(await start({ auth: { verifier } }), 'x')).toBe('ann');
  });

  it('the verifier of the app may be a provider of the app, by its class or any token', async () => {
    @Injectable()
    class Introspection implements OAuthTokenVerifier {
      constructor(@Inject('SUBJECT') private readonly sub: string) {}
      verifyAccessToken = (token: string) => Promise.resolve(infoOf(token, { extra: { sub: this.sub } }));
    }
    const providers = [Tools, Introspection, { provide: 'SUBJECT', useValue: 'made by Nest' }];
    expect(await who(await start({ providers, auth: { verifier: Introspection } }), 'x')).toBe('made by Nest');
    const alias = { provide: 'VERIFIER', useExisting: Introspection };
    const app = await start({ providers: [...providers, alias], auth: { verifier: 'VERIFIER' } });
    expect(await who(app, 'x')).toBe('made by Nest');
  });

  it('the verifier of the app that cannot be injected stops the start', async () => {
    class Missing implements OAuthTokenVerifier {
      verifyAccessToken = (token: string) => Promise.resolve(infoOf(token));
    }
    @Injectable({ scope: Scope.REQUEST })
    class OfRequests extends Missing {}
    @Injectable()
    class NoVerifier {}
    @Module({ providers: [OfRequests, NoVerifier] })
    class AppModule {}
    for (const [given, text] of [
      [Missing, 'The option "auth.verifier" is Missing, which no module provides'],
      [OfRequests, 'The option "auth.verifier" is OfRequests'],
      [NoVerifier, 'it has no method "verifyAccessToken"'],
    ] as const) {
      const auth = { resource: RESOURCE, authorizationServers: ['https://idp.test'], verifier: given as never };
      const imports = [AppModule, McpStreamableModule.forRoot({ serverInfo, auth })];
      expect((await startFailure(adapter, () => ({ imports }))).message).toContain(text);
    }
  });

  it('the verifier of the app is asked once for a while, and once for requests that come together', async () => {
    const knock = knocker(await start({ auth: { verifier } }), 'modern');
    const statuses = await Promise.all([knock(as('x')), knock(as('x')), knock(as('y'))]);
    expect(statuses.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await knock(as('x'))).status).toBe(200);
    expect(verify.mock.calls.map(([token]) => token).toSorted()).toEqual(['x', 'y']);
    await time.advance(60_000);
    await knock(as('x'));
    expect(verify).toHaveBeenCalledTimes(3);
  });

  it('A16: a refused token is refused for 5 s without asking again', async () => {
    verify.mockRejectedValue(new OAuthError('invalid_token', 'Unknown'));
    const knock = knocker(await start({ auth: { verifier } }), 'modern');
    for (let times = 0; times < 3; times++) expect((await knock(as('z'))).status).toBe(401);
    await time.advance(4_999);
    expect(challengeIn(await knock(as('z')))['error_description']).toBe('Unknown');
    expect(verify).toHaveBeenCalledOnce();
    await time.advance(1);
    verify.mockImplementation((token) => Promise.resolve(infoOf(token)));
    expect((await knock(as('z'))).status).toBe(200);
  });

  it('A16: a verifier that fails is asked about a token after 1 s, then 2 s; about others at once', async () => {
    verify.mockImplementation((token) =>
      token === 'odd' ? Promise.reject(new Error('cannot parse')) : Promise.resolve(infoOf(token)),
    );
    const app = await start({ auth: { verifier } });
    const knock = knocker(app, 'modern');
    const askedAfter = async (ms: number) => {
      await time.advance(ms);
      verify.mockClear();
      expect((await knock(as('odd'))).status).toBe(503);
      return verify.mock.calls.length;
    };
    expect([await askedAfter(0), await askedAfter(999), await askedAfter(1)]).toEqual([1, 0, 1]);
    expect([await askedAfter(1_999), await askedAfter(1)]).toEqual([0, 1]);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('cannot parse')]);
    expect((await knock(as('good'))).status).toBe(200);
  });

  it('A16: tokens that a verifier cannot parse, sent by turns with good ones, are a line in the log every 30 s', async () => {
    verify.mockImplementation((token) =>
      token.startsWith('odd') ? Promise.reject(new Error('cannot parse')) : Promise.resolve(infoOf(token)),
    );
    const app = await start({ auth: { verifier } });
    const knock = knocker(app, 'modern');
    const lines = () => {
      const { error, log } = { error: app.log.texts('error'), log: app.log.texts('log') };
      return [error.length, log.filter((text) => text.includes('works again')).length];
    };
    for (let n = 0; n < 20; n++) {
      expect((await knock(as(`odd${n}`))).status).toBe(503);
      expect((await knock(as(`good${n}`))).status).toBe(200);
    }
    expect(lines()).toEqual([1, 1]);
    await time.advance(30_000);
    expect((await knock(as('odd'))).status).toBe(503);
    expect(lines()).toEqual([2, 1]);
  });

  it('A16: while the verifier hangs, known tokens are served and others get 503 without asking it', async () => {
    const app = await start({ auth: { verifier } });
    const knock = knocker(app, 'modern');
    await knock(as('known'));
    verify.mockReturnValue(new Promise(() => {}));
    const hanging = knock(as('a'));
    await expect.poll(() => verify.mock.calls.length).toBe(2);
    expect((await knock(as('known'))).status).toBe(200);
    await time.advance(5_000);
    expect((await hanging).status).toBe(503);
    expect((await knock(as('b'))).status).toBe(503);
    expect((await knock(as('known'))).status).toBe(200);
    expect(verify).toHaveBeenCalledTimes(2);
    verify.mockImplementation((token) => Promise.resolve(infoOf(token)));
    await time.advance(1_000);
    expect((await knock(as('b'))).status).toBe(200);
    expect(app.log.texts('error')).toHaveLength(1);
    expect(app.log.texts('log')).toContainEqual(expect.stringContaining('works again, after 1 s'));
  });

  it('A16: more than 50 verifications at once are refused with 503', async () => {
    const held = gate();
    verify.mockImplementation((token) => held.promise.then(() => infoOf(token)));
    const knock = knocker(await start({ auth: { verifier } }), 'modern');
    const waiting = Array.from({ length: 50 }, (_, n) => knock(as(`t${n}`)));
    await expect.poll(() => verify.mock.calls.length).toBe(50);
    const refused = await knock(as('more'));
    expect([refused.status, refused.header('retry-after')]).toEqual([503, '1']);
    held.open();
    expect(new Set((await Promise.all(waiting)).map(({ status }) => status))).toEqual(new Set([200]));
    expect((await knock(as('more'))).status).toBe(200);
  });

  it('claims within a cached token are frozen', async () => {
    verify.mockImplementation((token) =>
      Promise.resolve(infoOf(token, { extra: { sub: 'ann', realm: { roles: ['user'], none: undefined } } })),
    );
    const seen: unknown[] = [];
    const guard = {
      canActivate: (context: ExecutionContext) => {
        const { user } = context.switchToHttp().getRequest() as { user: { realm: { roles: string[] } } };
        expect(() => user.realm.roles.push('admin')).toThrow(TypeError);
        seen.push(structuredClone(user.realm.roles));
        return true;
      },
    };
    const knock = knocker(await start({ auth: { verifier }, guards: [guard] }), 'modern');
    for (let times = 0; times < 2; times++) expect((await knock(as('x'))).status).toBe(200);
    expect(seen).toEqual([['user'], ['user']]);
  });

  it('entities of the app beside the claims of a cached token are not frozen', async () => {
    class User {
      visits = 0;
      readonly team = { calls: 0 };
    }
    const ann = new User();
    verify.mockImplementation((token) => Promise.resolve(infoOf(token, { extra: { sub: 'ann', entity: ann } })));
    const guard = {
      canActivate: () => {
        ann.visits++;
        ann.team.calls++;
        return true;
      },
    };
    const knock = knocker(await start({ auth: { verifier }, guards: [guard] }), 'modern');
    expect((await knock(as('x'))).status).toBe(200);
    expect(ann).toEqual({ visits: 1, team: { calls: 1 } });
  });

  it('the verifier of the app is asked again when the token has expired, and always with cacheMs: 0', async () => {
    const expiresAt = time.now() / 1_000 + 10;
    verify.mockImplementation((token) => Promise.resolve(infoOf(token, { expiresAt })));
    const knock = knocker(await start({ auth: { verifier } }), 'modern');
    await knock(as('x'));
    await time.advance(10_000);
    await knock(as('x'));
    expect(verify).toHaveBeenCalledTimes(2);
    verify.mockImplementation((token) => Promise.resolve(infoOf(token)));
    verify.mockClear();
    const uncached = knocker(await start({ auth: { verifier, cacheMs: 0 } }), 'modern');
    for (let times = 0; times < 3; times++) await uncached(as('x'));
    expect(verify).toHaveBeenCalledTimes(3);
  });

  it('changes of an app to the user or the token of a request do not affect the next one', async () => {
    verify.mockImplementation((token) => Promise.resolve(infoOf(token, { extra: { sub: 'ann' } })));
    const seen: unknown[] = [];
    const guard = {
      canActivate: (context: { switchToHttp(): { getRequest(): object } }) => {
        const { user, auth } = context.switchToHttp().getRequest() as { user: { tenant?: string }; auth: AuthInfo };
        seen.push({ ...user, scopes: [...auth.scopes] });
        user.tenant = 'acme';
        auth.scopes.push('notes:admin');
        return true;
      },
    };
    const knock = knocker(await start({ auth: { verifier }, guards: [guard] }), 'modern');
    for (let times = 0; times < 2; times++) await (await knock(as('x'))).text();
    expect(verify).toHaveBeenCalledOnce();
    const untouched = { sub: 'ann', scopes: [] };
    expect(seen).toEqual([untouched, untouched]);
  });

  it.each([60_000, 0])(
    'A16: the verifier of the app has five seconds: then it is 503, and it is asked again after one (cacheMs: %i)',
    async (cacheMs) => {
      const app = await start({ auth: { verifier, cacheMs } });
      const knock = knocker(app, 'modern');
      verify.mockReturnValue(new Promise(() => {}));
      const answer = knock(as('x'));
      await expect.poll(() => verify.mock.calls.length).toBe(1);
      await time.advance(5_000);
      expect((await answer).status).toBe(503);
      expect(app.log.texts('error')[0]).toContain('"auth.verifier" failed: no answer within 5000 ms');
      await time.advance(1_000);
      verify.mockImplementation((token) => Promise.resolve(infoOf(token)));
      expect((await knock(as('x'))).status).toBe(200);
      await app.settled({ timers: 0 });
    },
  );

  it('the error of a verifier is logged, without the token', async () => {
    verify.mockRejectedValue(new Error('The introspection endpoint is away'));
    const app = await start({ auth: { verifier } });
    await knocker(app, 'modern')(as('secret-token'));
    expect(app.log.texts('error')).toEqual([expect.stringContaining('The introspection endpoint is away')]);
    expect(app.log.texts().join('\n')).not.toContain('secret-token');
  });

  it('a server of the SDK sees the AuthInfo', async () => {
    const server = () => {
      const made = new McpServer(serverInfo);
      made.registerTool('who', {}, (ctx) => ({ content: [{ type: 'text', text: ctx.http!.authInfo!.clientId }] }));
      return made;
    };
    const app = await startBare({ server, auth: { verifier } });
    const { request } = await asker(app, 'legacy', as('x'));
    const { result } = await (await request('tools/call', { name: 'who', arguments: {} })).json();
    expect(result.content[0].text).toBe('client');
  });
});
