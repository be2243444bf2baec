import { describe, expect, it } from 'vitest';
import type { Capabilities } from './client-capabilities.js';
import { assertNotificationOfEra } from './notifications.js';

const assert =
  (method: string, era: 'legacy' | 'modern', declared: Capabilities = {}) =>
  () =>
    assertNotificationOfEra(method, era, () => declared);

const OF_BOTH = [
  'notifications/cancelled',
  'notifications/progress',
  'notifications/message',
  'notifications/resources/updated',
  'notifications/resources/list_changed',
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
];

describe('D26: a notification of the server', () => {
  it.each(OF_BOTH)('%s is sent in both eras', (method) => {
    expect(assert(method, 'legacy')).not.toThrow();
    expect(assert(method, 'modern')).not.toThrow();
  });

  it.each([
    ['notifications/tasks/status', 'legacy', 'modern'],
    ['notifications/subscriptions/acknowledged', 'modern', 'legacy'],
  ] as const)('%s is sent in the %s era, and throws in the %s one', (method, known, unknown) => {
    expect(assert(method, known)).not.toThrow();
    expect(assert(method, unknown)).toThrow(`"${method}" cannot be sent: `);
  });

  it.each(['notifications/initialized', 'notifications/roots/list_changed'])(
    '%s is of clients: it throws',
    (method) => {
      expect(assert(method, 'legacy')).toThrow('the revision of this session has no such server notification');
      expect(assert(method, 'modern')).toThrow('revision 2026-07-28 has no such server notification');
    },
  );

  it.each(['notifications/anything', 'x.example/said', '', '__proto__'])('%j is the application’s own', (method) => {
    expect(assert(method, 'legacy')).not.toThrow();
    expect(assert(method, 'modern')).not.toThrow();
  });

  describe('of a completed elicitation', () => {
    const METHOD = 'notifications/elicitation/complete';

    it('the notification of a completed elicitation is sent to clients that visit URLs', () => {
      expect(assert(METHOD, 'legacy', { elicitation: { url: {} } })).not.toThrow();
    });

    it.each([{}, { elicitation: {} }, { elicitation: { form: {} } }])(
      'the notification of a completed elicitation throws for those that declared %j',
      (declared) => {
        expect(assert(METHOD, 'legacy', declared)).toThrow('did not declare the capability "elicitation.url"');
      },
    );

    it('the notification of a completed elicitation is none of the modern era', () => {
      expect(assert(METHOD, 'modern', { elicitation: { url: {} } })).toThrow('revision 2026-07-28');
    });
  });

  it('a notification of the server does not ask for capabilities that it has no use for', () => {
    const unasked = (): never => {
      throw new Error('asked');
    };
    expect(() => assertNotificationOfEra('notifications/message', 'legacy', unasked)).not.toThrow();
  });
});
