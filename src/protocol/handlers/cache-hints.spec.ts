import { inputRequired } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { runInCall, type McpCall } from '../../context/mcp-call.js';
import type { HandlerEntry } from '../../handlers/handler-entry.js';
import { HandlerTable } from '../../handlers/handler-table.js';
import { type CachePolicy, discoveryHints, listHints, withReadHints } from './cache-hints.js';

const PUBLIC = { ttlMs: 60_000, scope: 'public' } as const;
const PRIVATE = { ttlMs: 60_000, scope: 'private' } as const;

const policy = (list: CachePolicy['list'] = PUBLIC, guarded = false): CachePolicy => ({ list, guarded: () => guarded });
const during = <T>(call: Partial<McpCall>, task: () => T): T => runInCall(call as McpCall, task);
const modern = <T>(task: () => T, principal?: string): T => during({ era: 'modern', principal }, task);

function table(...guarded: boolean[]): HandlerTable {
  const made = new HandlerTable();
  for (const [n, is] of guarded.entries()) made.add({ kind: 'tool', key: `t${n}`, guarded: is } as HandlerEntry);
  return made;
}

describe('the hints of a list', () => {
  const hints = (of: CachePolicy, ...guarded: boolean[]) => listHints(table(...guarded), 'tool', of);

  it('are those of the option', () => {
    expect(modern(() => hints(policy(PUBLIC), false))).toEqual({ ttlMs: 60_000, cacheScope: 'public' });
    expect(modern(() => hints(policy(PRIVATE), false))).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
  });

  it.each([
    ['an entry of the list is guarded', () => modern(() => hints(policy(), false, true, false))],
    ['the endpoint or the app is guarded', () => modern(() => hints(policy(PUBLIC, true)))],
    ['the caller is somebody', () => modern(() => hints(policy()), 'ann')],
  ])('are private when %s', (_, asked) => {
    expect(asked()).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
  });

  it('do not care for guards of other kinds', () => {
    expect(modern(() => listHints(table(true), 'prompt', policy()))).toMatchObject({ cacheScope: 'public' });
  });

  it('are none in the legacy era, and outside of calls', () => {
    expect(during({ era: 'legacy' }, () => hints(policy()))).toEqual({});
    expect(hints(policy())).toEqual({});
  });
});

describe('the hints of what was read', () => {
  const contents: never[] = [];
  const read = (
    result: object,
    entry: { cache?: typeof PUBLIC; guarded?: boolean } = {},
    of = policy(),
    repeated = false,
  ) => withReadHints(result, { guarded: false, ...entry }, of, repeated);

  it('are none by default', () => {
    expect(modern(() => read({ contents }))).toEqual({ contents, ttlMs: 0, cacheScope: 'private' });
  });

  it('are those of the resource', () => {
    expect(modern(() => read({ contents }, { cache: PUBLIC }))).toEqual({
      contents,
      ttlMs: 60_000,
      cacheScope: 'public',
    });
  });

  it('are those of the result, field by field, where it has good ones', () => {
    const asked = (own: object) => modern(() => read({ contents, ...own }, { cache: PUBLIC }));
    expect(asked({ ttlMs: 5 })).toEqual({ contents, ttlMs: 5, cacheScope: 'public' });
    expect(asked({ cacheScope: 'private' })).toEqual({ contents, ttlMs: 60_000, cacheScope: 'private' });
    for (const bad of [{ ttlMs: -1 }, { ttlMs: 1.5 }, { ttlMs: 'long' }, { cacheScope: 'all' }, { cacheScope: null }]) {
      expect(asked(bad)).toEqual({ contents, ttlMs: 60_000, cacheScope: 'public' });
    }
  });

  it.each([
    ['the resource is guarded', () => modern(() => read({ contents }, { cache: PUBLIC, guarded: true }))],
    ['the endpoint is guarded', () => modern(() => read({ contents }, { cache: PUBLIC }, policy(PUBLIC, true)))],
    ['the caller is somebody', () => modern(() => read({ contents }, { cache: PUBLIC }), 'ann')],
    ['its handler says public all the same', () => modern(() => read({ cacheScope: 'public' }, { guarded: true }))],
  ])('are private when %s', (_, asked) => {
    expect(asked()).toMatchObject({ cacheScope: 'private' });
  });

  it('are none when the client has answered questions for it, which no cache knows of', () => {
    const repeated = modern(() => read({ contents, ttlMs: 5 }, { cache: PUBLIC }, policy(), true));
    expect(repeated).toEqual({ contents, ttlMs: 0, cacheScope: 'private' });
  });

  it('are not on questions', () => {
    const questions = inputRequired({ requestState: 'x' });
    expect(modern(() => read(questions, { cache: PUBLIC }))).toBe(questions);
  });

  it('do not reach the legacy era, whoever says them', () => {
    const plain = { contents };
    expect(during({ era: 'legacy' }, () => read(plain, { cache: PUBLIC }))).toBe(plain);
    expect(during({ era: 'legacy' }, () => read({ contents, ttlMs: 0, cacheScope: 'public' }))).toEqual({ contents });
  });
});

describe('the hints of server/discover', () => {
  it('are those of lists, and private where guards decide who comes in', () => {
    expect(discoveryHints(policy())).toEqual({ ttlMs: 60_000, cacheScope: 'public' });
    expect(discoveryHints(policy(PUBLIC, true))).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
    expect(discoveryHints(policy(PRIVATE))).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
  });
});
