import { ManualClock } from '../testing/manual-clock.js';
import { describe, expect, it } from 'vitest';
import { RefusalCounts, type RefusedRequest } from './refusal-counts.js';

describe('the counts of refused requests', () => {
  /** Counts whose records have so many places. */
  const counting = (places = Infinity) => {
    const clock = new ManualClock();
    const records: [RefusedRequest, number][] = [];
    const counts = new RefusalCounts((...record) => records.length < places && records.push(record) > 0, clock);
    return { clock, records, counts };
  };

  it('the counts of refused requests have the first of a kind at once, and what the others of a second have in common', async () => {
    const { clock, records, counts } = counting();
    counts.add({ status: 401, ip: 'a', method: 'ping' });
    counts.add({ status: 401, ip: 'a', method: 'ping', principal: 'ann' });
    counts.add({ status: 401, ip: 'a', method: 'ping', principal: 'bob' });
    counts.add({ status: 403, ip: 'a', reason: 'FORBIDDEN_HOST' });
    expect(records.splice(0)).toEqual([
      [{ status: 401, ip: 'a', method: 'ping' }, 1],
      [{ status: 403, ip: 'a', reason: 'FORBIDDEN_HOST' }, 1],
    ]);
    await clock.advance(1_000);
    expect(records.splice(0)).toEqual([[{ status: 401, ip: 'a', method: 'ping' }, 2]]);
    expect(clock.pending).toBe(0);
  });

  it('the counts of refused requests tell 100 kinds apart, whatever the number of addresses', async () => {
    const { clock, records, counts } = counting();
    // Kinds of a second that is over leave their places to others.
    for (let n = 0; n < 100; n++) counts.add({ status: 401, ip: `address ${n}` });
    expect(records.splice(0)).toHaveLength(100);
    await clock.advance(1_000);
    for (let n = 0; n < 10_000; n++) counts.add({ status: 429, ip: `address ${n}`, reason: 'TOO_MANY_REQUESTS' });
    expect(records).toHaveLength(101);
    await clock.advance(1_000);
    expect(records.slice(101)).toEqual([[{ status: 429, reason: 'TOO_MANY_REQUESTS' }, 9_899]]);
  });

  it('the counts of refused requests wait for a place, and are recorded at the end', async () => {
    const { clock, counts } = counting(48);
    for (let n = 0; n < 60; n++) counts.add({ status: 415, ip: `address ${n}` });
    expect(clock.pending).toBe(1);
    const last: number[] = [];
    counts.close((_, count) => last.push(count));
    expect(last).toEqual(Array.from({ length: 12 }, () => 1));
    expect(clock.pending).toBe(0);
  });

  it('the counts of refused requests record a request as soon as there is a place for it', async () => {
    const recorded: number[] = [];
    let isFull = true;
    const clock = new ManualClock();
    const waiting = new RefusalCounts((_, count) => !isFull && recorded.push(count) > 0, clock);
    waiting.add({ status: 401, ip: 'a' });
    await clock.advance(2_000);
    isFull = false;
    await clock.advance(1_000);
    expect(recorded).toEqual([1]);
    expect(clock.pending).toBe(0);
  });
});
