import { describe, expect, it } from 'vitest';
import { EndpointPlaces } from './places.js';

describe('the places of a handler', () => {
  const started: string[] = [];
  const take = (places: EndpointPlaces, name: string, { key = '', max = 1 }: { key?: string; max?: number } = {}) =>
    places.take(key, max, () => started.push(name));

  it('the places of a handler are given in the order in which calls have come, and to none that has left', () => {
    const places = new EndpointPlaces();
    started.length = 0;
    const [first, ...others] = ['a', 'b', 'c', 'd'].map((name) => take(places, name));
    expect([first!.taken, others.some(({ taken }) => taken), started]).toEqual([true, false, []]);
    others[0]!.leave();
    first!.leave();
    expect(started).toEqual(['c']);
    others[1]!.leave();
    expect(started).toEqual(['c', 'd']);
    others[2]!.leave();
    expect(places.size).toBe(0);
  });

  it('the places of a handler are given to no call before those that wait, though it has a higher limit', () => {
    const places = new EndpointPlaces();
    started.length = 0;
    const [running, waiting] = ['a', 'b'].map((name) => take(places, name));
    const last = take(places, 'c', { max: 2 });
    expect(last.taken).toBe(false);
    running!.leave();
    expect(started).toEqual(['b', 'c']);
    waiting!.leave();
    last.leave();
    expect(places.size).toBe(0);
  });

  it('the places of a handler are kept while it has calls: a handler without calls takes no memory', () => {
    const places = new EndpointPlaces();
    const [first, second] = ['a', 'b'].map((name) => places.take('tool find', 1, () => started.push(name)));
    expect([first!.taken, second!.taken, places.size]).toEqual([true, false, 1]);
    first!.leave();
    expect([started.at(-1), places.size]).toEqual(['b', 1]);
    second!.leave();
    expect(places.size).toBe(0);
  });

  it('the places of a handler of different callers do not depend on each other, and a caller without calls takes no memory', () => {
    const places = new EndpointPlaces();
    const [anna, bert] = ['anna', 'bert'].map((key) => take(places, key, { key }));
    expect([anna!.taken, bert!.taken, places.size]).toEqual([true, true, 2]);
    anna!.leave();
    bert!.leave();
    expect(places.size).toBe(0);
  });

  it('the places of a handler count calls that began with another limit', () => {
    const places = new EndpointPlaces();
    started.length = 0;
    const leave = ['a', 'b', 'c'].map((name) => take(places, name, { max: 3 }).leave);
    leave.push(take(places, 'd', { max: 2 }).leave);
    leave[0]!();
    expect(started).toEqual([]);
    leave[1]!();
    expect(started).toEqual(['d']);
    leave[2]!();
    leave[3]!();
    expect(places.size).toBe(0);
  });
});
