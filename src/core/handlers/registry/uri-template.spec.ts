import { UriTemplate as OfSdk } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { canonicalUri } from '../../protocol/uris.js';
import { keyOf, type UriVariables, UriTemplate } from './uri-template.js';
import { seededRandom } from '../../../../test/support/share.js';

/** Returns variables with lists of one value as that value: so the SDK has them. */
const single = (variables: UriVariables | null): object | null =>
  variables &&
  Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, value.length === 1 ? [value].flat()[0] : value]),
  );

const matched = (template: string, uri: string): UriVariables | null =>
  new UriTemplate(template).match(canonicalUri(uri));

describe('a URI template', () => {
  it.each([
    ['orders://{id}', 'orders://7'],
    ['orders://{id}', 'others://7'],
    ['orders://{id}', 'orders://'],
    ['{+all}', 'orders://7'],
    ['{scheme}://x', 'a://x'],
    ['orders://{id}/lines{?page}', 'orders://7/lines?page=2'],
    ['orders://{id}/lines{?page}', 'orders://7?page=2'],
    ['files://{+path}', 'files://a/b/c.txt'],
    ['files://{name}{.type}', 'files://a.b.txt'],
    ['files:/{/folder}{/name}', 'files://a/b'],
    ['tags://{tags*}', 'tags://a,b'],
    ['tags://{tags*}', 'tags://a,,b'],
    ['days://{year}-{month}-{day}', 'days://2026-11-23'],
    ['days://{year}-{month}-{day}', 'days://2026-11-23-1-2'],
    ['pairs://{a}{b}', 'pairs://abc'],
    ['pairs://{a*}{b}', 'pairs://a,b,c'],
  ])('%s matches %s as the SDK says', (template, uri) => {
    expect(single(matched(template, uri))).toEqual(new OfSdk(template).match(uri));
  });

  it.each([
    ['orders://find{?q,page}', 'orders://find', {}],
    ['orders://find{?q,page}', 'orders://find?page=2', { page: '2' }],
    ['orders://find{?q,page}', 'orders://find?page=2&q=lamp', { page: '2', q: 'lamp' }],
    ['orders://find{?q,page}', 'orders://find?q=', { q: '' }],
    ['orders://find{?q,page}', 'orders://find?q=a=b', { q: 'a=b' }],
    ['orders://find{?q,page}', 'orders://find?q=a&q=b', null],
    ['orders://find{?q,page}', 'orders://find?q=a&sort=id', null],
    ['orders://find{?q,page}', 'orders://find?q', null],
    ['orders://find{?q,page}', 'orders://find&q=a', null],
    ['orders://find{?q,page}', 'orders://found?q=a', null],
    ['orders://{id}{?page}', 'orders://7?page=2', { id: '7', page: '2' }],
    ['files://{+path}{?page}', 'files://a/b?page=2', { path: 'a/b', page: '2' }],
    ['orders://find?kind=open{&q,page}', 'orders://find?kind=open&page=2&q=a', { page: '2', q: 'a' }],
    ['orders://find?kind=open{&q,page}', 'orders://find?kind=open', {}],
    ['orders://find?kind={kind}&x{&q}', 'orders://find?kind=open&x&q=a', { kind: 'open', q: 'a' }],
    ['orders://find?path={+path}', 'orders://find?path=a%2Fb', { path: 'a/b' }],
    ['tags://find{?tags*}', 'tags://find?tags=a&tags=b', { tags: ['a', 'b'] }],
    ['tags://find{?tags*}', 'tags://find?tags=a', { tags: ['a'] }],
    ['https://example.com{?q}', 'https://EXAMPLE.com?q=a', { q: 'a' }],
  ])('%s reads the query of %s by name', (template, uri, variables) => {
    expect(matched(template, uri)).toEqual(variables);
  });

  it.each([
    ['files://root{/path*}', 'files://root/a/b/c', { path: ['a', 'b', 'c'] }],
    ['files://root{/path*}', 'files://root/a', { path: ['a'] }],
    ['files://root{/path*}', 'files://root/a//b', null],
    ['files://root{/path*}', 'files://root/', null],
    ['files://root{/path*}/info', 'files://root/a/b/info', { path: ['a', 'b'] }],
    ['files://root{/path*}{?page}', 'files://root/a/b?page=2', { path: ['a', 'b'], page: '2' }],
    ['tags://{tags*}', 'tags://a', { tags: ['a'] }],
    ['https://{host}', 'HTTPS://example.com', { host: 'example.com' }],
    ['https://example.com{/path*}', 'https://example.com/a/b', { path: ['a', 'b'] }],
    ['docs://guide{#part}', 'docs://guide#a/b', { part: 'a/b' }],
  ])('%s cuts %s at its separators', (template, uri, variables) => {
    expect(matched(template, uri)).toEqual(variables);
  });

  it.each([
    ['a space', 'notes://a%20b', 'a b'],
    ['what is not ASCII', 'notes://caf%C3%A9', 'café'],
    ['a comma', 'notes://a%2Cb', 'a,b'],
    ['a question mark', 'notes://a%3Fb', 'a?b'],
    ['an escaped escape, once', 'notes://a%2541', 'a%41'],
    ['a % that is no escape', 'notes://100%', '100%'],
  ])('a URI template decodes %s', (_what, uri, id) => {
    expect(matched('notes://{id}', uri)).toEqual({ id });
    expect(matched('notes://{ids*}', uri)).toEqual({ ids: [id] });
    expect(matched('notes://find{?id}', uri.replace('://', '://find?id='))).toEqual({ id });
  });

  it.each([
    ['a slash', 'a%2Fb', 'a/b'],
    ['a backslash', 'a%5Cb', 'a\\b'],
    ['a raw backslash', 'a\\b', 'a\\b'],
    ['a line end', 'a%0Ab', 'a\nb'],
    ['a raw line end', 'a\nb', 'a\nb'],
    ['a zero', 'a%00', 'a\0'],
    ['a control character that is not ASCII', 'a%C2%85b', 'a\u0085b'],
  ])('a value that decodes to a text with %s matches {+name} alone', (_what, written, name) => {
    expect(matched('files://{+name}', `files://${written}`)).toEqual({ name });
    for (const template of ['files://{name}', 'files://{name*}', 'files:/{/name}', 'files:/{/name*}']) {
      expect(matched(template, `files://${written}`)).toBeNull();
    }
    expect(matched('files://find{?name}', `files://find?name=${written}`)).toBeNull();
  });

  it.each([
    'files://..',
    'files://a/../b',
    'files://a/./b',
    'files://a/%2E%2e/b',
    'files://a/..?b',
    'files://a/.#b',
    'files://..%2Fb',
    'files://a%2F..%2Fb',
    'files://a%5C..%5Cb',
    'files://a%2F%2e%2E',
  ])('no template matches the dot segments of %s', (uri) => {
    for (const template of ['{+all}', 'files://{+path}', 'files://{name}', 'files://a/{name}', 'files://a{/path*}']) {
      expect(matched(template, uri)).toBeNull();
    }
  });

  it('no template matches a value that is no UTF-8', () => {
    expect(matched('files://{name}', 'files://a%FF')).toBeNull();
    expect(matched('files://{+name}', 'files://%C3')).toBeNull();
  });

  it.each([
    ['ORDERS://%73ecret/{Id}', 'orders://secret/7'],
    ['notes://caf%c3%a9/{Id}', 'notes://café/7'],
    ['notes://café/{Id}', 'notes://caf%C3%A9/7'],
    ['https://Example.com/{Id}', 'https://example.com/7'],
  ])('%s matches %s: texts of a template are compared as URIs are', (template, uri) => {
    expect(matched(template, uri)).toEqual({ Id: '7' });
    expect(new UriTemplate(template).toString()).toBe(template);
  });

  it.each([
    ['ORDERS://%73ecret/{id}', 'orders://secret/{id}', true],
    ['https://Example.com{?q}', 'https://example.com/{?q}', true],
    ['https://Example.com{/path*}', 'https://example.com{/path*}', true],
    ['orders://{id}', 'orders://{ID}', false],
    ['orders://a/{id}', 'orders://A/{id}', false],
  ])('the templates %s and %s are one: %s', (one, other, same) => {
    expect(keyOf('template', one) === keyOf('template', other)).toBe(same);
  });

  it.each([
    ['orders://find{?q}/lines', '"/lines" stands behind the variables of the query'],
    ['orders://find{?q}{/id}', '{/id} stands behind the variables of the query'],
    ['orders://find{?q,q}', 'the variable "q" occurs twice'],
  ])('%s is refused: the query is at the end, with different names', (template, reason) => {
    expect(() => new UriTemplate(template)).toThrow(reason);
  });

  it('a URI template matches random URIs against random templates as the SDK does', () => {
    const random = seededRandom(15);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    const some = (limit: number, make: () => string): string =>
      Array.from({ length: Math.floor(random() * (limit + 1)) }, make).join('');
    // Few characters, so that texts of the template stand in values too.
    const character = (): string => pick(['a', 'b', '-', ',', '/', '&', '=', 'x', 'é', '😀']);
    let count = 0;
    for (let round = 0; round < 200; round += 1) {
      let last = 0;
      const name = (): string => `x${(last += 1)}`;
      const expression = (): string => {
        const operator = pick(['', '', '', '+', '/']);
        const star = operator === '' && random() < 0.3 ? '*' : '';
        return `{${operator}${name()}${star}}`;
      };
      const text = (): string => pick(['', '', '-', '/', ',', 'a', 'ab', '?', '&', '(b)+', '://']);
      const template = text() + expression() + some(4, () => text() + (random() < 0.7 ? expression() : ''));
      const [ours, theirs] = [new UriTemplate(template), new OfSdk(template)];
      expect(ours.variableNames).toEqual(theirs.variableNames);
      for (let uris = 0; uris < 25; uris += 1) {
        const filled = template.replaceAll(/\{([+/]?)[^{}]*\}/g, (_, operator: string) => {
          return (operator === '/' ? operator : '') + (some(4, character) || 'a');
        });
        // Near misses: a character more, one less, one changed.
        const at = Math.floor(random() * (filled.length + 1));
        const changed =
          random() < 0.4 ? filled.slice(0, at) + some(1, character) + filled.slice(at + pick([0, 1])) : filled;
        const expected = theirs.match(changed);
        if (expected) count += 1;
        const got = single(ours.match(changed));
        if (JSON.stringify(got) !== JSON.stringify(expected))
          expect([template, changed, got]).toEqual([template, changed, expected]);
      }
    }
    // Enough of both.
    expect(count).toBeGreaterThan(1_000);
    expect(count).toBeLessThan(4_500);
  });

  describe('of many variables', () => {
    afterEach(() => vi.restoreAllMocks());

    it.each([
      ['days://{year}-{month}-{day}', 'days://', '-'],
      ['versions://{major}.{minor}.{patch}', 'versions://', '.'],
      ['all://{+a}{+b}{+c}{+d}', 'all://', '\n'],
      ['tags://{a*}-{b*}-{c*}', 'tags://', '-,-'],
      ['search://{?a,b}{&c*}', 'search://?a=', '&b='],
    ])('%s looks at a hostile URI a fixed number of times for each character', (template, start, repeated) => {
      const parsed = new UriTemplate(template);
      const looks = (['charAt', 'startsWith'] as const).map((method) => vi.spyOn(String.prototype, method));
      const stepsFor = (length: number): number => {
        looks.forEach((look) => look.mockClear());
        // What the template needs at the end is missing, so that no cut matches.
        parsed.match(start + repeated.repeat(length).slice(0, length) + '/');
        return looks.reduce((sum, { mock }) => sum + mock.calls.length, 0);
      };
      const [short, long] = [stepsFor(200), stepsFor(2_000)];
      expect(short).toBeGreaterThan(0);
      expect(long).toBeLessThan(11 * short);
      expect(long).toBeLessThan(2_010 * 2 * 8);
    });
  });
});
