import { inputRequired } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { type HandlerEntry, HandlerTable } from '../handlers/registry/handler-table.js';
import { type CachePolicy, discoveryHints, listHints, withReadHints } from './cache-hints.js';

const PUBLIC = { ttlMs: 60_000, scope: 'public' } as const;
const PRIVATE = { ttlMs: 60_000, scope: 'private' } as const;

const policy = (list: CachePolicy['list'] = PUBLIC, guarded = false): CachePolicy => ({ list, guarded: () => guarded });
const modern = (principal?: string) => ({ era: 'modern', principal }) as const;
const LEGACY = { era: 'legacy', principal: undefined } as const;

type Caller = Parameters<typeof listHints>[0];

function sources(...guarded: boolean[]): EndpointSources {
  const made = new HandlerTable();
  for (const [n, is] of guarded.entries()) made.add({ kind: 'tool', key: `t${n}`, guarded: is } as HandlerEntry);
  return new EndpointSources(made);
}

describe('the hints of a list', () => {
  const hints = (call: Caller, of: CachePolicy, ...guarded: boolean[]) =>
    listHints(call, sources(...guarded), 'tool', of);

  it('the hints of a list are those of the option', () => {
    expect(hints(modern(), policy(PUBLIC), false)).toEqual({ ttlMs: 60_000, cacheScope: 'public' });
    expect(hints(modern(), policy(PRIVATE), false)).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
  });

  it.each([
    ['an entry of the list is guarded', () => hints(modern(), policy(), false, true, false)],
    ['the endpoint or the app is guarded', () => hints(modern(), policy(PUBLIC, true))],
    ['the caller is known by name', () => hints(modern('ann'), policy())],
  ])('the hints of a list are private when %s', (_, asked) => {
    expect(asked()).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
  });

  it('the hints of a list do not care for guards of other kinds', () => {
    expect(listHints(modern(), sources(true), 'prompt', policy())).toMatchObject({ cacheScope: 'public' });
  });

  it('the hints of a list are none in the legacy era', () => {
    expect(hints(LEGACY, policy())).toEqual({});
  });
});

describe('the hints of what was read', () => {
  const contents: never[] = [];
  const read = (
    call: Caller,
    result: object,
    entry: { cache?: typeof PUBLIC; guarded?: boolean } = {},
    of = policy(),
    repeated = false,
  ) => withReadHints(call, result, { guarded: false, ...entry }, of, repeated);

  it('the hints of what was read are none by default', () => {
    expect(read(modern(), { contents })).toEqual({ contents, ttlMs: 0, cacheScope: 'private' });
  });

  it('the hints of what was read are those of the resource', () => {
    expect(read(modern(), { contents }, { cache: PUBLIC })).toEqual({
      contents,
      ttlMs: 60_000,
      cacheScope: 'public',
    });
  });

  it('D15: the hints of what was read are those of the result, field by field, where it has good ones', () => {
    const asked = (own: object) => read(modern(), { contents, ...own }, { cache: PUBLIC });
    expect(asked({ ttlMs: 5 })).toEqual({ contents, ttlMs: 5, cacheScope: 'public' });
    expect(asked({ cacheScope: 'private' })).toEqual({ contents, ttlMs: 60_000, cacheScope: 'private' });
    for (const bad of [{ ttlMs: -1 }, { ttlMs: 1.5 }, { ttlMs: 'long' }, { cacheScope: 'all' }, { cacheScope: null }]) {
      expect(asked(bad)).toEqual({ contents, ttlMs: 60_000, cacheScope: 'public' });
    }
  });

  it.each([
    ['the resource is guarded', () => read(modern(), { contents }, { cache: PUBLIC, guarded: true })],
    ['the endpoint is guarded', () => read(modern(), { contents }, { cache: PUBLIC }, policy(PUBLIC, true))],
    ['the caller is known by name', () => read(modern('ann'), { contents }, { cache: PUBLIC })],
    ['its handler says public all the same', () => read(modern(), { cacheScope: 'public' }, { guarded: true })],
  ])('the hints of what was read are private when %s', (_, asked) => {
    expect(asked()).toMatchObject({ cacheScope: 'private' });
  });

  it('the hints of what was read are none when the client has answered questions for it, which no cache knows of', () => {
    const repeated = read(modern(), { contents, ttlMs: 5 }, { cache: PUBLIC }, policy(), true);
    expect(repeated).toEqual({ contents, ttlMs: 0, cacheScope: 'private' });
  });

  it('the hints of what was read are not on questions', () => {
    const questions = inputRequired({ requestState: 'x' });
    expect(read(modern(), questions, { cache: PUBLIC })).toBe(questions);
  });

  it('the hints of what was read do not reach the legacy era, whatever sets them', () => {
    const plain = { contents };
    expect(read(LEGACY, plain, { cache: PUBLIC })).toBe(plain);
    expect(read(LEGACY, { contents, ttlMs: 0, cacheScope: 'public' })).toEqual({ contents });
  });
});

describe('the hints of server/discover', () => {
  it('the hints of server/discover are those of lists, and private where guards decide who comes in', () => {
    expect(discoveryHints(policy())).toEqual({ ttlMs: 60_000, cacheScope: 'public' });
    expect(discoveryHints(policy(PUBLIC, true))).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
    expect(discoveryHints(policy(PRIVATE))).toEqual({ ttlMs: 60_000, cacheScope: 'private' });
  });
});
