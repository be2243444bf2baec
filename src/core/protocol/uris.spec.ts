import { describe, expect, it } from 'vitest';
import { asciiUri, canonicalUri } from './uris.js';

describe('the form in which URIs are compared', () => {
  it.each([
    ['the case of the scheme', 'ORDERS://terms', 'orders://terms'],
    ['an escaped scheme', '%6Frders://terms', 'orders://terms'],
    ['the case of a host', 'HTTPS://Api.Example.COM/A', 'https://api.example.com/A'],
    ['the case of a host behind a user', 'https://Ann:Pw@Example.com/', 'https://Ann:Pw@example.com/'],
    ['an escaped host', 'https://%41pi.example.com/', 'https://api.example.com/'],
    ['escaped unreserved characters', 'orders://%73%65cret%2D%2e%5F%7E', 'orders://secret-._~'],
    ['escaped characters that are not ASCII', 'notes://caf%c3%a9/%E2%82%AC/%F0%9F%98%80', 'notes://café/€/😀'],
    ['the case of escapes', 'notes://a%2fb%3a', 'notes://a%2Fb%3A'],
    ['the empty path of http', 'http://example.com', 'http://example.com/'],
    ['the empty path of https before a query', 'https://example.com?a=1', 'https://example.com/?a=1'],
    ['a % that is no escape', 'notes://100%/%%37%33', 'notes://100%25/%2573'],
    ['unreserved characters beside escapes that are no UTF-8', 'notes://%73%FF%74%c3', 'notes://s%FFt%C3'],
  ])('the form in which URIs are compared leaves out %s', (_what, uri, form) => {
    expect(canonicalUri(uri)).toBe(form);
    expect(canonicalUri(form)).toBe(form);
  });

  it.each([
    ['an escaped slash', 'files://a%2Fb'],
    ['an escaped reserved character', 'notes://a%3Fb%23c%26d%3De%2Cf%20g'],
    ['an escape that is escaped', 'notes://%2573ecret'],
    ['dot segments', 'files://a/../b/./c'],
    ['the case of a path', 'orders:///Terms'],
    ['an id of the app where other schemes have a host', 'notes://V1StGXR8_Z5jdHi6B-myT'],
    ['Unicode normalisation', 'notes://cafe\u0301'],
    ['an empty path of another scheme', 'orders://terms'],
    ['a default port', 'https://example.com:443/'],
    ['escapes of overlong UTF-8 and of surrogates', 'notes://%C1%B3%ED%A0%80'],
    ['what is no URI', 'no uri'],
  ])('the form in which URIs are compared keeps %s', (_what, uri) => {
    expect(canonicalUri(uri)).toBe(uri);
  });

  it('the form of a URI in ASCII escapes the other characters', () => {
    expect(asciiUri('SKILL://caf\u00e9/%65%2f\ud800')).toBe('skill://caf%C3%A9/e%2F\ud800');
  });
});
