import { describe, expect, it } from 'vitest';
import { LiveState, type Update } from './state.js';

const update = (type: Update['type'], more: object): Update => ({
  type,
  at: 1_000,
  endpoints: [],
  events: [],
  ...more,
});
const event = (n: number): object => ({ n, at: n, endpoint: 0, tone: 'ok', what: 'x', outcome: 'ok', who: '' });

describe('LiveState', () => {
  it('a delta changes fields of facts and rows, and removes rows', () => {
    const state = new LiveState();
    const tools = {
      set: [
        { key: 'a', calls: 1, errors: 0 },
        { key: 'b', calls: 2 },
      ],
    };
    state.apply(update('snapshot', { endpoints: [{ facts: { live: 1, calls: 2 }, tables: { tools } }] }), 1_000);
    const change = { set: [{ key: 'a', calls: 5 }], gone: ['b'] };
    state.apply(update('delta', { endpoints: [{ index: 0, facts: { live: 3 }, tables: { tools: change } }] }), 1_000);
    expect(state.endpoints[0]!.facts).toMatchObject({ live: 3, calls: 2 });
    expect([...state.endpoints[0]!.tools.values()]).toEqual([{ key: 'a', calls: 5, errors: 0 }]);
  });

  it('a snapshot replaces everything', () => {
    const state = new LiveState();
    state.apply(update('snapshot', { endpoints: [{}, {}], events: [event(1)] }), 1_000);
    state.apply(update('snapshot', { endpoints: [{}], events: [event(2)] }), 1_000);
    expect(state.endpoints).toHaveLength(1);
    expect(state.events).toEqual([event(2)]);
  });

  it('LiveState keeps the latest 200 events', () => {
    const state = new LiveState();
    for (let n = 1; n <= 250; n++) state.apply(update('delta', { events: [event(n)] }), 1_000);
    expect(state.events).toHaveLength(200);
    expect(state.events[0]).toEqual(event(51));
  });

  it('LiveState translates times of a server whose clock is behind', () => {
    const state = new LiveState();
    state.apply(update('snapshot', {}), 4_000);
    expect(state.here(1_500)).toBe(4_500);
  });
});
