import { describe, expect, it } from 'vitest';
import { parseAuthChallenge } from './auth-challenge.js';

describe('parseAuthChallenge', () => {
  it('C8: parseAuthChallenge reads the parameters of a Bearer challenge', () => {
    const header =
      'Bearer realm="a, b=c", error="insufficient_scope", error_description="say \\"please\\"", scope="x y", resource_metadata="https://h/.well-known/p"';
    expect(parseAuthChallenge(header)).toEqual({
      scheme: 'Bearer',
      parameters: {
        realm: 'a, b=c',
        error: 'insufficient_scope',
        error_description: 'say "please"',
        scope: 'x y',
        resource_metadata: 'https://h/.well-known/p',
      },
      resourceMetadata: 'https://h/.well-known/p',
      scope: 'x y',
      error: 'insufficient_scope',
      errorDescription: 'say "please"',
    });
  });

  it.each([
    ['Basic realm="x", bearer scope=a', 'bearer', 'a'],
    ['DPoP algs="ES256", Bearer scope="a"', 'Bearer', 'a'],
    ['bearer', 'bearer', undefined],
    ['Negotiate', 'Negotiate', undefined],
    ['Digest realm="Bearer scope=evil"', 'Digest', undefined],
  ])('parseAuthChallenge takes the Bearer one of several, else the first: %s', (header, scheme, scope) => {
    const challenge = parseAuthChallenge(header)!;
    expect(challenge.scheme).toBe(scheme);
    expect(challenge.scope).toBe(scope);
  });

  it.each([null, '', ',', '"', 'x'.repeat(10_000)])(
    'parseAuthChallenge finds nothing in what is no challenge (%#)',
    (header) => {
      expect(parseAuthChallenge(header)).toBeUndefined();
    },
  );

  it('parseAuthChallenge reads hostile headers in linear time', () => {
    const cpu = process.cpuUsage();
    for (const part of ['"', 'a ', 'a=', ',', ' ', 'a="\\"', 'B r=']) {
      parseAuthChallenge(part.repeat(8_192 / part.length));
    }
    expect(process.cpuUsage(cpu).user).toBeLessThan(2_000_000);
  });
});
