import { describe, expect, it } from 'vitest';
import { jsonOf, ProgressReports, WrittenNotification } from './notification-json.js';

const TOKENS = [0, -7, 2 ** 53 - 1, '', 'token', '"quoted"\\', 'ünï\u2028\n', '}},"progress":9'];
const TOTALS = [undefined, 0, -0, 5, 5, 2.5, 1e21, 1e-7, Number.NaN, Infinity, 5];
const MESSAGES = [undefined, '', 'page', 'line\nline\r\u2028"\\', '}}', '\ud800', null, 5, { of: [1] }, () => {}];

/** What is sent of a report, by JSON.stringify. */
function stringified(progressToken: unknown, progress: number, total: unknown, message: unknown): string {
  const params = { progressToken, progress, ...(Number.isFinite(total) && { total }), message };
  return JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params });
}

describe('the JSON of a notification', () => {
  it('the JSON of a progress notification says what JSON.stringify says, on one line', () => {
    for (const token of TOKENS) {
      const reports = new ProgressReports(token);
      let progress = -1e21;
      for (const message of MESSAGES as (string | undefined)[]) {
        for (const total of TOTALS) {
          progress = progress < 0 ? progress / 1e6 + 1e-7 : progress * 10 + 1;
          const { json, method, params } = reports.next({ progress, total, message })!;
          const expected = stringified(token, progress, total, message);
          expect(JSON.parse(json)).toEqual(JSON.parse(expected));
          expect(json).not.toContain('\n');
          expect(JSON.stringify({ jsonrpc: '2.0', method, params })).toBe(expected);
        }
      }
    }
  });

  it('a report whose message cannot be JSON throws, and the next one is sent', () => {
    const reports = new ProgressReports(1);
    expect(() => reports.next({ progress: 1, message: 5n as unknown as string })).toThrow(TypeError);
    expect(reports.next({ progress: 2 })!.json).toBe(stringified(1, 2, undefined, undefined));
  });

  it('a copy of a notification has the JSON of what it is, and not that of the notification', () => {
    const notification = new WrittenNotification('notifications/x', { a: 1 }, 'its JSON');
    expect(jsonOf(notification)).toBe('its JSON');
    const copy = Object.assign({}, notification, { params: { a: 2 } });
    expect(jsonOf(copy)).toBe('{"jsonrpc":"2.0","method":"notifications/x","params":{"a":2}}');
    expect(jsonOf({ method: 'notifications/y' })).toBe('{"jsonrpc":"2.0","method":"notifications/y"}');
  });
});
