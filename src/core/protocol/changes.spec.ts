import { describe, expect, it } from 'vitest';
import { changeOf, isChangedList, notificationOf, type McpChange } from './notifications.js';

const CHANGES: McpChange[] = [
  { list: 'tools' },
  { list: 'prompts' },
  { list: 'resources' },
  { uri: 'orders://terms' },
  { uri: '' },
];

describe('changes', () => {
  it.each(CHANGES)('changes come back from the notification that tells of them: %j', (change) => {
    expect(changeOf(notificationOf(change))).toEqual(change);
  });

  it('changes are told in the words of the specification', () => {
    expect(notificationOf({ list: 'tools' })).toEqual({ method: 'notifications/tools/list_changed' });
    expect(notificationOf({ uri: 'orders://terms' })).toEqual({
      method: 'notifications/resources/updated',
      params: { uri: 'orders://terms' },
    });
  });

  it.each([
    { method: 'notifications/message', params: { uri: 'orders://terms' } },
    { method: 'notifications/resources/updated' },
    { method: 'notifications/resources/updated', params: { uri: 7 } },
    { method: 'constructor' },
    { method: '__proto__' },
    { method: 'tools/list_changed' },
  ])('changes are nothing else: %j', (notification) => {
    expect(changeOf(notification)).toBeUndefined();
  });

  it('changes are of three lists', () => {
    expect(['tools', 'prompts', 'resources', 'templates', '__proto__', 1, undefined].map(isChangedList)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ]);
  });
});
