import { expect, it } from 'vitest';
import { ManualClock } from '../../../testing/manual-clock.js';
import { ListenBudget } from './listen-budget.js';

it('a budget of subscriptions forgets the principals whose bucket is full again', async () => {
  const clock = new ManualClock();
  const budget = new ListenBudget(clock);
  for (let n = 0; n < 50; n++) budget.take(`user ${n}`, 10);
  expect(budget.size).toBe(50);
  await clock.advance(60_000);
  budget.take('user 0', 9_000);
  await clock.advance(60_000);
  budget.take(undefined, 1);
  expect(budget.size).toBe(2);
  expect(() => budget.take('user 0', 9_999)).toThrow('opens subscriptions too often');
});
