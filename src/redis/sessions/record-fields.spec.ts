import { describe, expect, it } from 'vitest';
import { changesOf, fieldsOf, pairs, recordOf } from './record-fields.js';

const initialize = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
const record = { id: 's', protocolVersion: '2025-11-25', initialize };

describe('a record as fields', () => {
  it('comes back as it was', () => {
    const data = { list: [], none: {}, null: null, big: 2 ** 53 - 1, 'a:b': { c: ['\ud800'] } };
    const fields = pairs(fieldsOf({ ...record, principal: 'p', kind: 'state', data }, 5));
    const expected = { ...record, principal: 'p', kind: 'state', data, subscriptions: [], createdAt: 5, lastSeenAt: 5 };
    expect(recordOf('s', fields)).toEqual(expected);
  });

  it('has no fields for what JSON leaves out', () => {
    const fields = fieldsOf({ ...record, data: { gone: undefined, call: () => {} } }, 5);
    expect(recordOf('s', pairs(fields))?.data).toEqual({});
    expect(Object.keys(recordOf('s', pairs(fields))!)).not.toContain('principal');
  });

  it('that are not there is none', () => {
    expect(recordOf('s', [])).toBeUndefined();
    expect(recordOf('s', [['seen', '5']])).toBeUndefined();
  });

  it('gives subscriptions in the order of their numbers, whatever that of the fields', () => {
    const fields = pairs([...fieldsOf(record, 5), 'u:"b"', '2', 'u:"c"', '10', 'u:"a"', '1', 'count', '10']);
    expect(recordOf('s', fields)?.subscriptions).toEqual(['a', 'b', 'c']);
  });

  it('keeps keys apart from fields of the same name', () => {
    const data = { seen: 1, fixed: 2, level: 3, count: 4, __proto: 5, '': 6 };
    expect(recordOf('s', pairs(fieldsOf({ ...record, data }, 5)))?.data).toEqual(data);
  });
});

describe('a patch as changes', () => {
  it('names what is set, removed and numbered', () => {
    const patch = { logLevel: 'debug', unsubscribe: ['x'], subscribe: ['y'], data: { a: null, b: 0, c: undefined } };
    expect(changesOf(patch)).toEqual(['level', 'debug', '-', 'u:"x"', '+', 'u:"y"', '-', 'd:"a"', 'd:"b"', '0']);
    expect(changesOf({})).toEqual([]);
  });
});
