import { UriTemplate } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { PrefixedUriTemplate } from './entries.js';

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
  ])('%s matches %s as the SDK says', (template, uri) => {
    expect(new PrefixedUriTemplate(template).match(uri)).toEqual(new UriTemplate(template).match(uri));
  });

  it('does not fail over a URI that is far too long', () => {
    expect(new PrefixedUriTemplate('orders://{id}').match(`orders://${'7'.repeat(2_000_000)}`)).toBeNull();
  });
});
