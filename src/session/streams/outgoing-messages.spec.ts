import { describe, expect, it } from 'vitest';
import { outlivesItsRequest } from './outgoing-messages.js';

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
