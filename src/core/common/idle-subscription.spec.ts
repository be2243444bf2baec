import { Observable, type Observer, Subscription } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { IdleSubscription } from './idle-subscription.js';

describe('an idle subscription', () => {
  it('an idle subscription runs each teardown once, as one of rxjs does', () => {
    for (const subscription of [new IdleSubscription(), new Subscription()]) {
      const ran: string[] = [];
      const teardown = (name: string) => () => void ran.push(name);
      subscription.add(undefined);
      subscription.add(subscription);
      subscription.add(teardown('a'));
      subscription.add(new Subscription(teardown('b')));
      subscription.add({ unsubscribe: teardown('c') });
      subscription.unsubscribe();
      subscription.unsubscribe();
      subscription.add(teardown('late'));
      expect(ran.toSorted()).toEqual(['a', 'b', 'c', 'late']);
      expect(subscription.closed).toBe(true);
    }
  });

  it('an idle subscription runs no teardown that was removed', () => {
    const ran: string[] = [];
    const [first, second, third] = ['a', 'b', 'c'].map((name) => new Subscription(() => void ran.push(name)));
    const subscription = new IdleSubscription();
    for (const one of [first, second]) subscription.add(one);
    for (const one of [first!, second!]) subscription.remove(one);
    subscription.add(third);
    subscription.unsubscribe();
    expect(ran).toEqual(['c']);
  });

  it('an idle subscription that observes is not wrapped by rxjs, and frees its source', () => {
    class Listener extends IdleSubscription implements Observer<number> {
      readonly heard: number[] = [];
      next(value: number): void {
        this.heard.push(value);
      }
      error(): void {}
      complete(): void {}
    }
    let freed = 0;
    const listener = new Listener();
    const source = new Observable<number>((subscriber) => {
      subscriber.next(1);
      return () => void freed++;
    });
    expect(source.subscribe(listener)).toBe(listener);
    listener.unsubscribe();
    expect([listener.heard, freed]).toEqual([[1], 1]);
  });
});
