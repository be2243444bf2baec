import { describe, expect, it } from 'vitest';
import { issuerFindings } from './oauth-metadata.js';

describe('the metadata of an authorization server', () => {
  const answers =
    (document: unknown): typeof fetch =>
    () =>
      Promise.resolve(Response.json(document));

  it.each<[string, string, typeof fetch, RegExp]>([
    ['that names another issuer', 'https://a.org', answers({ issuer: 'https://a.org/' }), /has another "issuer"/],
    ['that is no object', 'https://a.org', answers([]), /has another "issuer"/],
    ['that is no JSON', 'https://a.org', () => Promise.resolve(new Response('<html>')), /is not valid JSON/],
    ['that is not there', 'https://a.org', () => Promise.resolve(new Response('', { status: 404 })), /answered 404/],
    ['of a host that does not answer', 'https://a.org', () => Promise.reject(new Error('no route')), /no route/],
    ['at what is no URL', 'a.org', answers({ issuer: 'a.org' }), /not found: it is not a URL/],
  ])('%s is a finding', async (_, issuer, request, problem) => {
    const findings = await issuerFindings([issuer], request);
    expect(findings).toMatchObject([
      { rule: 'oauth-metadata', severity: 'error', problem: expect.stringMatching(problem) },
    ]);
  });

  it('the metadata of an authorization server that names its issuer is none', async () => {
    expect(await issuerFindings(['https://a.org'], answers({ issuer: 'https://a.org' }))).toEqual([]);
  });
});
