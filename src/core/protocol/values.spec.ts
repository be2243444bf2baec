import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../test/support/share.js';
import { countValues, hasMoreValues, isLarger, shortMembersOf } from './values.js';

/** Counts as the definition says: items and members, and empty lists and objects once more. */
function counted(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const children = Object.values(value);
  return (children.length || 1) + children.reduce((sum: number, child) => sum + counted(child), 0);
}

const random = seededRandom(7);
const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
function anyValue(levels: number): unknown {
  const many = Math.floor(random() * 4);
  const part = (): unknown => anyValue(levels - 1);
  const scalar = pick<unknown>([1, -1.5e10, '', 'a,b', '[{"', '\\', '"\\"', '\\u005b', 'é🏳️', true, null]);
  if (levels === 0 || random() < 0.3) return scalar;
  return random() < 0.5
    ? Array.from({ length: many }, part)
    : Object.fromEntries(Array.from({ length: many }, (_, at) => [`${pick(['a', '{', ',"'])}${at}`, part()]));
}

describe('values', () => {
  it('E16: values of a text are counted as those of what it says, whatever its strings have in them', () => {
    for (let run = 0; run < 500; run++) {
      const value = anyValue(5);
      const text = JSON.stringify(value, undefined, pick([0, 2]));
      const count = counted(value);
      // A text of fewer characters is not counted.
      const padded = text + ' '.repeat(count + 1);
      const seen = {
        count: countValues(value),
        atLimit: [hasMoreValues(padded, count), isLarger(value, count)],
        above: count === 0 || (hasMoreValues(padded, count - 1) && isLarger(value, count - 1)),
      };
      expect({ text, ...seen }).toEqual({ text, count, atLimit: [false, false], above: true });
    }
  });

  it('E16: values of texts that are no JSON are counted to their end', () => {
    for (const text of ['"', '"\\', '{"a', '["a\\', ']'.repeat(50), '\\'.repeat(50)])
      expect([text, hasMoreValues(text.padEnd(60), 5)]).toEqual([text, false]);
    expect(hasMoreValues('['.repeat(60), 5)).toBe(true);
  });

  it('the short members of a text are read without the others, and none of a list or of what is no message', () => {
    const cases: readonly (readonly [text: string, members: object])[] = [
      ['{"id":7,"method":"x"}', { id: 7, method: 'x' }],
      [
        ' { "params" : {"id":1,"list":[1,{"id":2}]} , "jsonrpc":"2.0","id" : "a,\\"b" } ',
        { jsonrpc: '2.0', id: 'a,"b' },
      ],
      ['{"params":{"method":"x"},"id":1}', { id: 1 }],
      ['{"id":1,"long":"0123456789012345678901234567890"}', { id: 1 }],
      ['[{"id":1}]', {}],
      ['"id"', {}],
      ['', {}],
      ['{"id":', {}],
      [`{${'"a":1,'.repeat(1_000)}"id":1}`, {}],
    ];
    for (const [text, members] of cases) expect([text, shortMembersOf(text, 20)]).toEqual([text, members]);
  });
});
