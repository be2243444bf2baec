import { describe, expect, it } from 'vitest';
import { hashOf, type Route, routeOf } from './route.js';

describe('the fragment of the address', () => {
  it.each<Route>([
    { kind: 'tool', key: 'search_docs', endpoint: 0, trying: false },
    { kind: 'resource', key: 'shop://a?b=c&d#e', endpoint: 2, trying: true },
    { kind: 'tool', key: '<script>', endpoint: 0, trying: false },
  ])('the fragment of the address says that %o is open', (route) => expect(routeOf(hashOf(route))).toEqual(route));

  it.each(['', '#', '#tool=', '#other=x', '#__proto__=x'])('%j opens nothing', (hash) =>
    expect(routeOf(hash)).toBeUndefined(),
  );

  it('an endpoint that is no number is the first', () =>
    expect(routeOf('#tool=a&endpoint=x')).toMatchObject({ endpoint: 0 }));
});
