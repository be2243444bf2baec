import { Subject } from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import { ChangeFeed, type ChangeHint } from './change-feed.js';

/** Two nodes: what one says, both hear. */
class Hub {
  readonly messages$ = new Subject<unknown>();
  readonly reconnected$ = new Subject<void>();
  readonly nodeId = 'a';
  broadcast(message: unknown): void {
    this.messages$.next(JSON.parse(JSON.stringify(message)));
  }
}

describe('ChangeFeed', () => {
  let hub: Hub;
  let here: ChangeFeed;
  let there: ChangeFeed;
  const hearing = (feed: ChangeFeed) => {
    const heard: ChangeHint[] = [];
    const subscription = feed.changes$.subscribe((change) => heard.push(change));
    return { heard, subscription };
  };

  beforeEach(() => {
    hub = new Hub();
    [here, there] = [new ChangeFeed(hub), new ChangeFeed(hub)];
  });

  it('ChangeFeed publishes a change to every node, its own too', () => {
    const [atHome, abroad] = [hearing(here), hearing(there)];
    here.publish({ list: 'tools' });
    there.publish({ uri: 'orders://terms' });
    for (const { heard } of [atHome, abroad]) expect(heard).toEqual([{ list: 'tools' }, { uri: 'orders://terms' }]);
  });

  it('ChangeFeed reports that changes may have been missed', () => {
    const { heard } = hearing(here);
    hub.reconnected$.next();
    expect(heard).toEqual(['missed']);
  });

  it.each([
    null,
    undefined,
    'changed',
    7,
    { type: 'session-ended', id: 'x', node: 'b' },
    { type: 'changed' },
    { type: 'changed', list: 'sessions' },
    { type: 'changed', list: ['tools'] },
    { type: 'changed', uri: 7 },
    { list: 'tools' },
  ])('ChangeFeed does not pass on what is no change: %j', (message) => {
    const { heard } = hearing(here);
    hub.messages$.next(message);
    expect(heard).toEqual([]);
  });

  it('ChangeFeed passes on only the known fields of a change', () => {
    const { heard } = hearing(here);
    hub.messages$.next({ type: 'changed', uri: 'orders://terms', by: 'version 9' });
    expect(heard).toEqual([{ uri: 'orders://terms' }]);
  });

  it('ChangeFeed counts its listeners', () => {
    const [one, other] = [hearing(here), hearing(here)];
    expect(here.listeners).toBe(2);
    one.subscription.unsubscribe();
    one.subscription.unsubscribe();
    expect([here.listeners, there.listeners]).toEqual([1, 0]);
    hub.messages$.complete();
    expect([here.listeners, other.subscription.closed]).toEqual([0, true]);
    hearing(here);
    expect(here.listeners).toBe(0);
  });
});
