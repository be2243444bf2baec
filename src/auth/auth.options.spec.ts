import { describe, expect, it } from 'vitest';
import { McpOptionError } from '../core/common/options.js';
import { canonicalUri, type McpAuthOptions, resolveAuthOptions } from './auth.options.js';

const RESOURCE = 'https://mcp.test/mcp';
const GOOD = { resource: RESOURCE, authorizationServers: ['https://idp.test'] };
const BAD_COUNTS = [-1, 1.5, Number.NaN, '5', null];
const NO_SCOPES = ['read', [''], ['a b'], ['a"b'], ['a\\b'], ['ä'], [7], null];

/** Values that cannot work. Others than null need not be here if core/common/options.spec.ts has them: those of a kind of check. */
const BAD: Partial<Record<keyof McpAuthOptions, readonly unknown[]>> = {
  ...Object.fromEntries(Object.keys(resolveAuthOptions(GOOD)).map((name) => [name, [null]])),
  resource: [
    undefined,
    '',
    7,
    '/mcp',
    'mcp.test/mcp',
    'http://mcp.test/mcp',
    'ftp://mcp.test',
    'http://127.evil.test/mcp',
    `${RESOURCE}#part`,
    `${RESOURCE}#`,
    'https://user:secret@mcp.test/mcp',
    'https://:secret@mcp.test/',
    'http://localhost.evil.test/',
  ],
  authorizationServers: [
    undefined,
    [],
    'https://idp.test',
    ['idp.test'],
    ['http://idp.test'],
    ['https://idp.test/#x'],
    [7],
  ],
  jwt: [
    null,
    'x',
    { isuer: 'x' },
    { issuer: [] },
    { issuer: '' },
    { audience: [] },
    { audience: '' },
    { audience: ['a', ''] },
    { types: [] },
    { types: [''] },
    { types: 'JWT' },
    { types: [7] },
  ],
  verifier: [null, {}, 7, { verify: () => {} }, { verifyAccessToken: 'x' }],
  requiredScopes: NO_SCOPES,
  scopesSupported: NO_SCOPES,
  resourceName: ['', 7, null],
  resourceDocumentation: ['', 7, null],
  implies: ['x', null, { a: 'b' }, { a: ['b c'] }, { 'a b': ['c'] }],
  clientsAreCallers: ['yes', 1],
  anonymous: ['yes', null, 1],
  clockToleranceMs: BAD_COUNTS,
  cacheMs: BAD_COUNTS,
  closeStreamsOnExpiry: ['yes', null, 1],
};

/** The error of options that cannot work. */
function failureOf(auth: object): Error {
  try {
    resolveAuthOptions(auth as McpAuthOptions);
  } catch (error) {
    return error as Error;
  }
  throw new Error('The options were accepted.');
}

describe('the option "auth"', () => {
  it('A10: the option "auth" is refused when the resource is not what tokens can be for', () => {
    for (const [resource, text] of [
      ['http://mcp.test/mcp', 'it is not "https" (only a loopback host may use "http")'],
      [`${RESOURCE}#part`, 'it has a fragment'],
      ['/mcp', 'it is not an absolute URL'],
    ]) {
      const failure = failureOf({ ...GOOD, resource });
      expect(failure).toBeInstanceOf(McpOptionError);
      expect(failure.message).toBe(`The option "auth.resource" cannot be "${resource}": ${text}.`);
    }
  });

  it('A1, A5, A9: the option "auth" is refused by a text that says what to do about it', () => {
    for (const [auth, text] of [
      [{ authorizationServers: [] }, 'The option "auth.authorizationServers" is empty. Name at least one'],
      [{ jwt: { audience: [] } }, 'The option "auth.jwt.audience" is empty, so no token could be valid.'],
      [{ jwt: { algorithms: ['HS256'] } }, 'must name asymmetric algorithms, such as "ES256"; got "HS256"'],
      [{ jwt: { algorithms: ['none'] } }, 'must name asymmetric algorithms'],
      [{ jwt: { types: [] } }, 'The option "auth.jwt.types" is empty, so no token could be valid.'],
      [{ jwt: { algorithms: [] } }, 'must name asymmetric algorithms'],
      [{ requiredScopes: ['offline_access'] }, '"auth.requiredScopes" has "offline_access"'],
      [{ scopesSupported: ['openid', 'offline_access'] }, '"auth.scopesSupported" has "offline_access"'],
      [{ requiredScopes: ['a b'] }, 'The option "auth.requiredScopes" has "a b", which is not a scope'],
      [{ jwt: {}, verifier: { verifyAccessToken: () => {} } }, '"auth.jwt" and "auth.verifier" exclude each other'],
      [
        { authorizationServer: 'x' },
        'There is no option "auth.authorizationServer". Did you mean "authorizationServers"?',
      ],
      [{ jwt: { jwksUri: 'http://idp.test/jwks' } }, 'The option "auth.jwt.jwksUri" cannot be "http://idp.test/jwks"'],
      [{ jwt: { jwksUri: { 'https://else.test': 'https://x.test' } } }, 'which is not in "auth.jwt.issuer"'],
      [
        { jwt: { issuer: 'http://idp.test/' } },
        'The option "auth.jwt.issuer" has "http://idp.test/", whose metadata cannot be read: it is not "https"',
      ],
      [{ jwt: { issuer: 'my-idp' } }, 'it is not an absolute URL. Set "auth.jwt.jwksUri" to the URL of its keys.'],
      [
        { jwt: { issuer: ['https://a.test', 'https://b.test'], jwksUri: 'https://a.test/jwks' } },
        'one URL for 2 issuers',
      ],
    ] as const) {
      expect(failureOf({ ...GOOD, ...auth }).message).toContain(text);
    }
  });

  it.each(Object.entries(BAD))('the option "auth" refuses wrong values of %s', (name, values) => {
    for (const value of values) {
      const resolve = () => resolveAuthOptions({ ...GOOD, [name]: value });
      expect(resolve, `${name}: ${JSON.stringify(value)}`).toThrow(McpOptionError);
    }
  });

  it('an issuer that is no URL may have its keys at one', () => {
    const jwt = { issuer: 'my-idp', jwksUri: 'https://idp.test/jwks' };
    expect(() => resolveAuthOptions({ ...GOOD, jwt })).not.toThrow();
  });

  it('a resource on a loopback host needs no TLS', () => {
    for (const host of ['localhost:3000', '127.0.0.1', '127.9.9.9:1', '[::1]:3000', 'LOCALHOST']) {
      expect(() => resolveAuthOptions({ ...GOOD, resource: `http://${host}/mcp` })).not.toThrow();
    }
  });

  it('A10: the option "auth" compares URIs in canonical form, and leaves other names alone', () => {
    for (const [given, canonical] of [
      ['HTTPS://API.Example.com/Mcp/', 'https://api.example.com/Mcp'],
      ['https://api.example.com:443/mcp', 'https://api.example.com/mcp'],
      ['https://api.example.com', 'https://api.example.com'],
      ['https://api.example.com/mcp//', 'https://api.example.com/mcp/'],
      ['https://api.example.com/mcp?tenant=a', 'https://api.example.com/mcp?tenant=a'],
      ['https://api.example.com/mcp#part', 'https://api.example.com/mcp#part'],
      ['https://api.example.com/mcp#', 'https://api.example.com/mcp#'],
      ['https://user@api.example.com/mcp', 'https://user@api.example.com/mcp'],
      ['https://:secret@api.example.com/mcp', 'https://:secret@api.example.com/mcp'],
      ['api://Notes/', 'api://Notes/'],
      ['Client-Id', 'Client-Id'],
      ['https://', 'https://'],
    ]) {
      expect(canonicalUri(given!)).toBe(canonical);
    }
  });
});
