import { describe, expect, it } from 'vitest';
import { outlivesItsRequest } from './outgoing-messages.js';

describe('P8: a late notification', () => {
  it.each([
    'notifications/message',
    'notifications/tools/list_changed',
    'notifications/resources/updated',
    'notifications/resources/list_changed',
    'notifications/elicitation/complete',
  ])('a late notification is delivered later when it is %s', (method) => expect(outlivesItsRequest(method)).toBe(true));

  it.each(['notifications/progress', 'notifications/cancelled', 'tools/call', '', 'x/notifications/message'])(
    'a late notification is dropped when it is %s',
    (method) => expect(outlivesItsRequest(method)).toBe(false),
  );

  it('a late notification is recognised by its whole method name', () => {
    expect(outlivesItsRequest('notifications/progressed')).toBe(true);
    expect(outlivesItsRequest('notifications/progress/more')).toBe(true);
  });
});
