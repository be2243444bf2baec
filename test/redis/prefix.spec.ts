import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { redisBackend } from 'nestjs-mcp-streamable/redis';

/** Nothing connects: no Redis is needed. */
const URL = 'redis://127.0.0.1:1';
const serverInfo = { name: 'test', version: '1.0.0' };

describe('a prefix in Redis', () => {
  const backends: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const backend of backends.splice(0)) await backend.close();
  });
  const backend = (prefix: string, url = URL) => {
    const made = redisBackend(url, { prefix });
    backends.push(made);
    return made;
  };
  const endpoint = (name: string, prefix: string) =>
    McpStreamableModule.forRoot({ serverInfo, name, path: name, backend: () => backend(prefix) });
  const shop = { name: 'shop', path: 'mcp' };
  const admin = { name: 'admin', path: 'admin' };

  it('a prefix in Redis that two endpoints of an app use prevents the start, with an error that names both', async () => {
    const starting = Test.createTestingModule({ imports: [endpoint('a', 'app'), endpoint('b', 'app')] }).compile();
    await expect(starting).rejects.toMatchObject({
      option: 'prefix',
      message: expect.stringMatching(/"a" at "a" and "b" at "b", use the prefix "app"/),
    });
  });

  it('a prefix in Redis is free for another endpoint when the backend is closed', async () => {
    const first = backend('one');
    first.claim(shop);
    expect(() => backend('one').claim(admin)).toThrow('"shop" at "mcp" and "admin" at "admin"');
    await first.close();
    expect(() => backend('one').claim(admin)).not.toThrow();
  });

  it('a prefix in Redis is shared by the nodes of one endpoint, and counts for one database of one Redis', () => {
    for (const made of [backend('two'), backend('two')]) made.claim(shop);
    for (const url of [`${URL}/1`, 'redis://127.0.0.1:2']) backend('two', url).claim(admin);
    expect(() => backend('two').claim(admin)).toThrow('prefix');
  });
});
