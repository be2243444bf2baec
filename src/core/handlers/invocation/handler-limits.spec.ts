import { describe, expect, it } from 'vitest';
import { systemClock } from '../../common/clock.js';
import type { McpContext } from '../../calls/mcp-context.js';
import { HandlerLimits, HandlerPlaces } from './handler-limits.js';

describe('the places of a handler', () => {
  const started: string[] = [];
  const take = (places: HandlerPlaces, name: string, { key, max = 1 }: { key?: string; max?: number } = {}) =>
    places.take(key, max, () => started.push(name));

  it('the places of a handler are given in the order in which calls have come, and to none that has left', () => {
    const places = new HandlerPlaces();
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
    const places = new HandlerPlaces();
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

  it('the places of a handler are not taken by a call that was cancelled before its method could run', () => {
    const places = new HandlerPlaces();
    const limits = new HandlerLimits({ places: { max: 1, perPrincipal: false } }, systemClock, places);
    const context = { signal: AbortSignal.abort(), inTurn: () => context } as unknown as McpContext;
    const run = limits.begin('tool', 'find', context);
    expect([run.entering(), places.size]).toEqual([undefined, 0]);
    run.end();
  });

  it('the places of a handler of different callers do not depend on each other, and a caller without calls takes no memory', () => {
    const places = new HandlerPlaces();
    const [anna, bert] = ['anna', 'bert'].map((key) => take(places, key, { key }));
    expect([anna!.taken, bert!.taken, places.size]).toEqual([true, true, 2]);
    anna!.leave();
    bert!.leave();
    expect(places.size).toBe(0);
  });

  it('the places of a handler count calls that began with another limit', () => {
    const places = new HandlerPlaces();
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
