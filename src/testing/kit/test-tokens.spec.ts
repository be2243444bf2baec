import { afterEach, describe, expect, it, vi } from 'vitest';
import { McpTestAuth, mintTestToken } from './test-tokens.js';

const auth = new McpTestAuth();
const claimsOf = (token: string): object => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString());

describe('a token of a test', () => {
  afterEach(() => void vi.useRealTimers());

  it('a token of a test says who calls, and what that one may do', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const token = mintTestToken({ sub: 'anna', scopes: ['a:read', 'a:write'], clientId: 'app', claims: { tenant: 7 } });
    const { expiresAt, ...info } = await auth.verifyAccessToken(token);
    expect(info).toMatchObject({ token, clientId: 'app', scopes: ['a:read', 'a:write'] });
    expect(info.extra).toMatchObject({ sub: 'anna', tenant: 7 });
    expect(expiresAt).toBe(Math.floor(Date.now() / 1_000) + 3_600);
  });

  it('a token of a test has no scopes by default, and is for any resource', async () => {
    const { scopes, extra } = await auth.verifyAccessToken(mintTestToken({ sub: 'anna' }));
    expect(scopes).toEqual([]);
    expect(extra).not.toHaveProperty('aud');
    expect(claimsOf(mintTestToken({ sub: 'anna', audience: 'https://a.example/mcp' }))).toMatchObject({
      aud: 'https://a.example/mcp',
    });
  });

  it('a token of a test is another one each time', () => {
    expect(mintTestToken({ sub: 'anna' })).not.toBe(mintTestToken({ sub: 'anna' }));
  });

  it.each([
    ['has expired', mintTestToken({ sub: 'anna', expiresIn: -1 })],
    ['has another signature', `${mintTestToken({ sub: 'anna' }).slice(0, -4)}AAAA`],
    ['has another payload', mintTestToken({ sub: 'anna' }).replace(/\.[^.]+\./, '.e30.')],
    ['has no signature', mintTestToken({ sub: 'anna' }).replace(/[^.]+$/, '')],
    ['is no JWT', 'secret'],
    ['is empty', ''],
  ])('a token of a test is refused when it %s', async (_what, token) => {
    await expect(auth.verifyAccessToken(token)).rejects.toMatchObject({ code: 'invalid_token' });
  });
});
