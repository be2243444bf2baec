import { describe, expect, it } from 'vitest';
import { changeOf, type EndpointState, type Row, wholeOf } from './live-state.js';

const state = (facts: Record<string, unknown>, ...sessions: Row[]): EndpointState => ({
  facts,
  tables: {
    sessions: new Map(sessions.map((row) => [row.key, row])),
    calls: new Map(),
    tools: new Map(),
    offers: new Map(),
  },
});

describe('what has changed of an endpoint', () => {
  it('what has changed of an endpoint is nothing when all is the same, lists included', () => {
    const [one, other] = [1, 2].map(() => state({ live: 1, rate: [1, 2] }, { key: 'a', calls: 0 }));
    expect(changeOf(one!, other!)).toBeUndefined();
  });

  it('what has changed of an endpoint is fields of rows, new rows, and keys of those that are gone', () => {
    const before = state({ live: 2, node: 'n' }, { key: 'a', calls: 0, client: 'x' }, { key: 'b', calls: 0 });
    const after = state({ live: 2, node: 'n' }, { key: 'a', calls: 1, client: 'x' }, { key: 'c', calls: 0 });
    expect(changeOf(before, after)).toEqual({
      tables: {
        sessions: {
          set: [
            { key: 'a', calls: 1 },
            { key: 'c', calls: 0 },
          ],
          gone: ['b'],
        },
      },
    });
    expect(changeOf(before, state({ live: 1, node: 'n' }, ...before.tables.sessions.values()))).toEqual({
      facts: { live: 1 },
    });
  });

  it('applied to what was there before makes what is there now', () => {
    const before = state({ a: 1, list: [1] }, { key: 'a', x: 1, y: 2 });
    expect(wholeOf(before)).toEqual({
      facts: { a: 1, list: [1] },
      tables: {
        sessions: { set: [{ key: 'a', x: 1, y: 2 }] },
        calls: { set: [] },
        tools: { set: [] },
        offers: { set: [] },
      },
    });
  });
});
