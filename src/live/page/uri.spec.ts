import { describe, expect, it } from 'vitest';
import { expand, variablesOf } from './uri.js';

describe('a URI template', () => {
  it.each([
    ['shop://orders/{id}', { id: 'a b' }, 'shop://orders/a%20b'],
    ['shop://files/{+path}', { path: 'a/b c' }, 'shop://files/a/b%20c'],
    ['shop://find{?q,page}', { q: 'x&y' }, 'shop://find?q=x%26y'],
    ['shop://find{?q,page}', { q: 'x', page: 2 }, 'shop://find?q=x&page=2'],
    ['shop://a{/b,c}', { b: 'x', c: 'y' }, 'shop://a/x/y'],
    ['shop://a{/b}', {}, 'shop://a'],
  ])('%s with %o is %s', (template, values, uri) => expect(expand(template, values)).toBe(uri));

  it('a URI template names its variables', () => expect(variablesOf('a://{x}/{+y}{?z,x*}')).toEqual(['x', 'y', 'z']));
});
