import { describe, expect, it } from 'vitest';
import { changesOf, fieldsOf, pairs, recordOf } from './record-fields.js';

const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
const record = { id: 's', protocolVersion: '2025-06-18', initialize };
const TIMES = ['created', '5', 'seen', '7'];

describe('a record as fields', () => {
  it('comes back as it was', () => {
    const capabilities = { list: [], none: {}, null: null, big: 2 ** 53 - 1, 'a:b': { c: ['\ud800'] } };
    const made = { ...record, principal: 'p', routeParams: { a: ['x'] }, initialize: { ...initialize, capabilities } };
    const fields = pairs([...fieldsOf(made), ...TIMES]);
    expect(recordOf('s', fields)).toEqual({ ...made, subscriptions: [], createdAt: 5, lastSeenAt: 7 });
  });

  it('has no fields for what is not there', () => {
    const fields = pairs([...fieldsOf({ ...record, principal: undefined }), ...TIMES]);
    expect(Object.keys(recordOf('s', fields)!)).not.toContain('principal');
    expect(Object.keys(recordOf('s', fields)!)).not.toContain('routeParams');
  });

  it('that are not there is none', () => {
    expect(recordOf('s', [])).toBeUndefined();
    expect(recordOf('s', [['seen', '5']])).toBeUndefined();
  });

  it('gives subscriptions in the order of their numbers, whatever that of the fields', () => {
    const numbered = ['u:"b"', '2', 'u:"c"', '10', 'u:"seen"', '1', 'count', '10'];
    const fields = pairs([...fieldsOf(record), ...TIMES, ...numbered]);
    expect(recordOf('s', fields)?.subscriptions).toEqual(['seen', 'b', 'c']);
  });
});

describe('a patch as changes', () => {
  it('names what is set, removed and numbered', () => {
    const patch = { protocolVersion: '2025-03-26', logLevel: 'debug', unsubscribe: ['x'], subscribe: ['y'] };
    expect(changesOf(patch)).toEqual(['revision', '2025-03-26', 'level', 'debug', '-', 'u:"x"', '+', 'u:"y"']);
    expect(changesOf({})).toEqual([]);
  });
});
