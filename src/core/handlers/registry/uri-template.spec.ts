import { UriTemplate as OfSdk } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { UriTemplate } from './uri-template.js';
import { seededRandom } from '../../../../test/support/share.js';

describe('a URI template', () => {
  it.each([
    ['orders://{id}', 'orders://7'],
    ['orders://{id}', 'others://7'],
    ['orders://{id}', 'orders://'],
    ['{+all}', 'orders://7'],
    ['{scheme}://x', 'a://x'],
    ['orders://{id}/lines{?page}', 'orders://7/lines?page=2'],
    ['orders://{id}/lines{?page}', 'orders://7/lines'],
    ['files://{+path}', 'files://a/b/c.txt'],
    ['tags://{tags*}', 'tags://a,b'],
    ['tags://{tags*}', 'tags://a,,b'],
    ['days://{year}-{month}-{day}', 'days://2026-11-23'],
    ['days://{year}-{month}-{day}', 'days://2026-11-23-1-2'],
    ['pairs://{a}{b}', 'pairs://abc'],
    ['pairs://{a*}{b}', 'pairs://a,b,c'],
    ['lines://{+a}', 'lines://a\nb'],
  ])('%s matches %s as the SDK says', (template, uri) => {
    expect(new UriTemplate(template).match(uri)).toEqual(new OfSdk(template).match(uri));
  });

  it('a URI template matches 100,000 random URIs against random templates as the SDK does', () => {
    const random = seededRandom(15);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    const some = (limit: number, make: () => string): string =>
      Array.from({ length: Math.floor(random() * (limit + 1)) }, make).join('');
    // Few characters, so that texts of the template stand in values too.
    const character = (): string =>
      pick(['a', 'b', '-', '.', ',', '/', '?', '&', '=', 'x', '#', '\n', '\u2028', 'é', '😀']);
    let matched = 0;
    for (let round = 0; round < 2_000; round += 1) {
      let last = 0;
      const name = (): string => `x${(last += 1)}`;
      const expression = (): string => {
        const operator = pick(['', '', '', '+', '#', '.', '/', '?', '&']);
        const star = random() < 0.3 ? '*' : '';
        const more = (operator === '?' || operator === '&') && random() < 0.5 ? `,${name()}` : '';
        return `{${operator}${name()}${star}${more}}`;
      };
      const text = (): string => pick(['', '', '-', '.', '/', ',', 'a', 'ab', '?', '&', '(b)+', '://']);
      const template = text() + expression() + some(4, () => text() + (random() < 0.7 ? expression() : ''));
      const [ours, theirs] = [new UriTemplate(template), new OfSdk(template)];
      expect(ours.variableNames).toEqual(theirs.variableNames);
      for (let uris = 0; uris < 50; uris += 1) {
        const filled = template.replaceAll(/\{([+#./?&]?)([^{}*]*)\*?\}/g, (_, operator: string, names: string) => {
          const value = (): string => some(4, character) || 'a';
          if (operator === '?' || operator === '&') {
            return names
              .split(',')
              .map((each, index) => `${index === 0 ? operator : '&'}${each}=${value()}`)
              .join('');
          }
          return (operator === '.' || operator === '/' ? operator : '') + value();
        });
        // Near misses: a character more, one less, one changed.
        const at = Math.floor(random() * (filled.length + 1));
        const changed =
          random() < 0.4 ? filled.slice(0, at) + some(1, character) + filled.slice(at + pick([0, 1])) : filled;
        const expected = theirs.match(changed);
        if (expected) matched += 1;
        const got = ours.match(changed);
        if (JSON.stringify(got) !== JSON.stringify(expected))
          expect([template, changed, got]).toEqual([template, changed, expected]);
      }
    }
    // Enough of both.
    expect(matched).toBeGreaterThan(20_000);
    expect(matched).toBeLessThan(90_000);
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
      const looks = (['charCodeAt', 'startsWith'] as const).map((method) => vi.spyOn(String.prototype, method));
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
