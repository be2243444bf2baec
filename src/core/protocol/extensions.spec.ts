import { describe, expect, it } from 'vitest';
import { faultOfMethodName, isExtensionId } from './extensions.js';

describe('names of extensions', () => {
  it('a method of an extension has the prefix of its author, and none of the specification', () => {
    for (const name of ['acme/search', 'com.example/search', 'acme/search/all', 'Acme-2/x_y'])
      expect([name, faultOfMethodName(name)]).toEqual([name, undefined]);
    for (const name of [
      'tools/call',
      'tools/mine',
      'Tools/call',
      'tasks/get',
      'notifications/acme',
      'server/discover',
      'rpc.acme/x',
      'io.modelcontextprotocol/x',
      'ping',
      'initialize',
      'search',
      '',
      'acme/',
      '/search',
      'acme//x',
      'a b/c',
      42,
    ])
      expect([name, faultOfMethodName(name as string)]).toEqual([name, expect.any(String)]);
  });

  it('the id of an extension has labels separated by dots, and a name', () => {
    for (const id of ['com.example/search', 'acme/x', 'a-b.c/x.y_z', 'a/1'])
      expect([id, isExtensionId(id)]).toEqual([id, true]);
    for (const id of [
      'search',
      'com.example',
      '/search',
      'com.example/',
      '1com.example/x',
      'com..example/x',
      '-a/x',
      'a/b/c',
      5,
    ])
      expect([id, isExtensionId(id)]).toEqual([id, false]);
  });
});
