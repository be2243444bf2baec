import { describe, expect, it } from 'vitest';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import { QuestionText } from './question-text.js';

function textFor(template: string, properties: object | undefined = { id: {}, of: {} }): QuestionText {
  const target: McpHandlerTarget = {
    kind: 'tool',
    key: 'remove',
    origin: 'OrderTools.remove (OrdersModule)',
    inputSchema: { type: 'object', ...(properties && { properties }) },
    metadata: [],
    option: () => undefined,
  };
  return new QuestionText(template, target);
}

describe('a text of the option confirm', () => {
  it('D45: a text has what the schema has made of an argument', () => {
    const text = textFor('Remove {id} of {of}?');
    expect(text.of({ id: 'A-1', of: new Date(0) }, { id: 'a-1', of: '1970' })).toBe(
      'Remove "A-1" of "1970-01-01T00:00:00.000Z"?',
    );
    expect(text.of({ id: 12n, of: [1n] }, {})).toBe('Remove "12" of ["1"]?');
    // A default that the client has not sent.
    expect(text.of({ id: 1, of: 'all' }, { id: 1 })).toBe('Remove 1 of "all"?');
  });

  it('D45: a text has an argument as it was sent, if the schema gives it another name, or hides it', () => {
    class Order {
      readonly #id: string;
      constructor(id: string) {
        this.#id = id;
      }
      get id(): string {
        return this.#id;
      }
    }
    const text = textFor('Remove {id}?');
    const sent = { id: 'A' };
    for (const args of [{ order: 'A' }, new Order('A'), 'A', null, undefined, Object.create(sent)]) {
      expect(text.of(args, sent)).toBe('Remove "A"?');
    }
    expect(text.of({}, Object.create(sent) as Record<string, unknown>)).toBe('Remove (nothing)?');
    expect(text.of({ id: () => 'A' }, {})).toBe('Remove (nothing)?');
  });

  it('D45: a text without places is the question', () => {
    for (const template of ['Sure?', '{', 'a } b { c', '}{'])
      expect(textFor(template, undefined).of({}, {})).toBe(template);
  });

  it.each([
    ['{name}', 'the place {name}, and no argument of this name is in its schema. Available: "id", "of".'],
    ['{id} {toString}', 'the place {toString}'],
    ['{ id }', 'the place { id }'],
    ['{{id}} {}', 'the place {}'],
    ['{a\u202eb}', 'the place {a\\u202eb}'],
    ['x'.repeat(4_001), '4001 characters; a question has at most 4000.'],
  ])('D45: a text with a place that no argument has, or that is too long, is refused (%#)', (template, reason) => {
    expect(() => textFor(template)).toThrow(McpHandlerDefinitionError);
    expect(() => textFor(template)).toThrow(reason);
  });

  it('D45: a text that has many places for large values is not made further than its limit', () => {
    const text = textFor('{id}'.repeat(1_000));
    expect(text.of({ id: 'x'.repeat(1_000_000) }, {}).length).toBeLessThan(5_000);
    expect(text.of({ id: Array.from({ length: 10_000 }, () => 'y') }, {}).length).toBeLessThan(5_000);
    expect(text.of({ id: '\u202e'.repeat(2_000) }, {}).length).toBeGreaterThan(4_000);
  });
});
