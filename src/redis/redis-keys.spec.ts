import { describe, expect, it } from 'vitest';
import { FORGED_IDS } from '../testing/contract.js';
import { decoded, encoded, RedisKeys } from './redis-keys.js';

const IDS = [
  ...FORGED_IDS,
  '',
  '%',
  '\ud800',
  '\ud801',
  '\ufffd',
  '\0',
  '{}',
  '{',
  '}',
  'a b',
  '"',
  '\\',
  '~',
  "!'()*~",
];

describe('the code of an id', () => {
  it('the code of an id is that of no other id, and leads back', () => {
    expect(new Set(IDS.map(encoded)).size).toBe(IDS.length);
    for (const id of IDS) expect(decoded(encoded(id))).toBe(id);
  });

  it('the code of an id is of letters, digits and little else: no brace, no colon, no space, no pattern; never empty', () => {
    for (const id of IDS) expect(encoded(id)).toMatch(/^[A-Za-z0-9_.%-]+$/);
  });

  it('the code of an id that our own generators make is the id itself', () => {
    expect(encoded('Az09-_.')).toBe('Az09-_.');
  });
});

describe('the keys', () => {
  /** What Redis Cluster hashes. */
  const tagOf = (key: string) => /\{([^}]+)\}/.exec(key)?.[1];
  const keys = new RedisKeys('mcp', 3);

  it('the keys of one session share a tag, which is that of no other session and of nothing else', () => {
    const others = [keys.index(0, 1), keys.index(0, 2), keys.index(1, 2), keys.bus, keys.calls('n')].map(tagOf);
    expect(new Set(others).size).toBe(others.length);
    for (const id of IDS) {
      expect(tagOf(keys.log(id))).toBe(encoded(id));
      expect(tagOf(keys.record(id))).toBe(encoded(id));
      expect(others).not.toContain(tagOf(keys.log(id)));
    }
  });

  it('channels tell databases apart', () => {
    expect(keys.channel('n')).toBe('mcp:3:node:n');
    expect(keys.channel('n').startsWith(keys.nodeChannel)).toBe(true);
    expect(new RedisKeys('mcp', 4).everyone).not.toBe(keys.everyone);
  });
});
