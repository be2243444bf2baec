import { describe, expect, it } from 'vitest';
import { CancelledRequests, outlivesItsRequest } from './late-messages.js';

describe('P8: a late notification', () => {
  it.each([
    'notifications/message',
    'notifications/tools/list_changed',
    'notifications/resources/updated',
    'notifications/resources/list_changed',
    'notifications/elicitation/complete',
  ])('%s is still worth something', (method) => expect(outlivesItsRequest(method)).toBe(true));

  it.each(['notifications/progress', 'notifications/cancelled', 'tools/call', '', 'x/notifications/message'])(
    '%s is worth nothing any more',
    (method) => expect(outlivesItsRequest(method)).toBe(false),
  );

  it('is known by its whole name', () => {
    expect(outlivesItsRequest('notifications/progressed')).toBe(true);
    expect(outlivesItsRequest('notifications/progress/more')).toBe(true);
  });
});

describe('CancelledRequests', () => {
  it('remembers the latest 256, whatever their ids look like', () => {
    const cancelled = new CancelledRequests();
    for (let id = 0; id < 300; id++) cancelled.add(id);
    expect([cancelled.has(43), cancelled.has(44), cancelled.has(299)]).toEqual([false, true, true]);
    expect([cancelled.has('44'), cancelled.has('__proto__'), cancelled.has('constructor')]).toEqual([
      false,
      false,
      false,
    ]);
    cancelled.add('__proto__');
    expect(cancelled.has('__proto__')).toBe(true);
  });

  it('remembers for longer what is cancelled again', () => {
    const cancelled = new CancelledRequests();
    cancelled.add('again');
    for (let id = 0; id < 255; id++) cancelled.add(id);
    cancelled.add('again');
    cancelled.add('one more');
    expect([cancelled.has('again'), cancelled.has(0), cancelled.has(1)]).toEqual([true, false, true]);
  });

  it('forgets an id that the client uses again', () => {
    const cancelled = new CancelledRequests();
    cancelled.add(1);
    cancelled.delete(1);
    cancelled.delete(2);
    expect(cancelled.has(1)).toBe(false);
  });
});
