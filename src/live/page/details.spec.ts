import { describe, expect, it } from 'vitest';
import { anyOf, outcomeText, reasonOf } from './details.js';
import { treeOf } from './schema.js';

describe('the outcome of an event', () => {
  it('the outcome of an event is said in words, or as it is, also where a client has the name of a property of all objects', () => {
    expect(['tool error', -32602, undefined].map(outcomeText)).toEqual([
      'answered with a tool error',
      'invalid parameters, or no such handler (-32602)',
      'has ended',
    ]);
    for (const name of ['constructor', '__proto__', 'toString', 'my-client']) {
      expect([outcomeText(name), reasonOf(name)]).toEqual([name, name]);
    }
  });
});

describe('a result without properties', () => {
  it('a result without properties has the type of its schema', () => {
    const schemas = [{ type: 'object' }, { type: 'string' }, { type: 'array', items: { type: 'number' } }];
    expect(schemas.map((schema) => anyOf(treeOf(schema)))).toEqual([
      'Any object.',
      'Any value of this type: string.',
      'Any value of this type: number[].',
    ]);
  });
});
