import { describe, expect, it } from 'vitest';
import { anyOf, callersText, outcomeText, reasonOf, shortReason } from './details.js';
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

describe('why something did not succeed', () => {
  it.each([
    [{ outcome: 'denied', ms: 1, reason: '403 ForbiddenException' }, 'denied · 403 ForbiddenException'],
    [{ outcome: 'tool error', ms: 1 }, 'tool error'],
    // Its reason is a sentence.
    [{ outcome: '403 · FORBIDDEN_HOST', reason: 'The Host is not allowed.' }, '403 · FORBIDDEN_HOST'],
  ])('a list says of an event why it did not succeed, with the status of a call', (event, text) => {
    expect(shortReason(event)).toBe(text);
  });
});

describe('the callers of a tool', () => {
  it.each([
    [{ callers: ['ann', null], varies: false }, 'ann, anonymous callers'],
    [{ callers: ['ann'], more: true, varies: false }, 'ann and others'],
    [{ callers: ['ann'], varies: true }, 'ann; some of them have another'],
    [{ callers: [], varies: false }, 'no list that this node keeps'],
  ])('the callers of a tool are named, and whether they have the same one', (listed, text) => {
    expect(callersText({ by: 'Plugins', more: false, ...listed })).toContain(text);
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
