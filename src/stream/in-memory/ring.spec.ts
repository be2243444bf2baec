import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../testing/index.js';
import { Ring } from './ring.js';

describe('Ring', () => {
  it('is a queue with two ends, whatever happens in which order', () => {
    const random = seededRandom(1);
    const ring = new Ring<number>();
    let model: number[] = [];
    for (let step = 0; step < 20_000; step++) {
      // Grows and shrinks in turns.
      const dice = random() * (step % 2_000 < 1_000 ? 1 : 1.6);
      if (dice < 0.4) {
        model.push(step);
        ring.push(step);
      } else if (dice < 0.6) {
        model.unshift(step);
        ring.unshift(step);
      } else if (dice < 1.59) expect(ring.shift()).toBe(model.shift());
      else {
        model = model.filter((item) => item % 3 !== 0);
        ring.retain((item) => item % 3 !== 0);
      }
      expect(ring.length).toBe(model.length);
      expect(ring.at(0)).toBe(model[0]);
      expect(ring.at(model.length - 1)).toBe(model.at(-1));
      const middle = Math.floor(random() * model.length);
      expect(ring.at(middle)).toBe(model[middle]);
    }
  });

  it('has nothing beyond its ends', () => {
    const ring = new Ring<string>();
    expect([ring.at(0), ring.at(-1), ring.shift()]).toEqual([undefined, undefined, undefined]);
    ring.push('a');
    expect([ring.at(0), ring.at(1), ring.at(-1)]).toEqual(['a', undefined, undefined]);
    ring.clear();
    expect([ring.length, ring.at(0)]).toEqual([0, undefined]);
  });
});
