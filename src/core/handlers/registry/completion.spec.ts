import { ForbiddenException, Logger } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { McpContext } from '../../calls/mcp-context.js';
import { completionOf } from './entries.js';

const failures = { errorDetails: false, denials: 'result' } as const;
const about = { name: 'review', origin: 'Prompts.languages', failures };
const context = { principal: 'anna' } as McpContext;
const complete = (returned: unknown) => completionOf(() => returned, about)('v', {}, context);
const malformed = [
  { values: ['a'], total: 'many' },
  { values: ['a'], hasMore: 5 },
  Object.assign([], { 1: 'after a hole' }),
];
const texts = (count: number): string[] => Array.from({ length: count }, (_, index) => `v${index}`);

describe('a completion', () => {
  beforeAll(() => Logger.overrideLogger(false));
  afterAll(() => Logger.overrideLogger(['error']));

  it('a completion gets the value, the other arguments and the context', async () => {
    const completion = completionOf((...args) => args.map((arg) => JSON.stringify(arg)), about);
    expect(await completion('v', { x: 'y' }, context)).toMatchObject({
      values: ['"v"', '{"x":"y"}', '{"principal":"anna"}'],
    });
  });

  it.each<[string, unknown, object]>([
    ['texts', ['a', 'b'], { values: ['a', 'b'], total: 2, hasMore: false }],
    ['nothing to propose', [], { values: [], total: 0, hasMore: false }],
    ['a promise', Promise.resolve(['a']), { values: ['a'], total: 1, hasMore: false }],
    ['values alone', { values: ['a'] }, { values: ['a'], hasMore: false }],
    ['a total', { values: ['a'], total: 7 }, { values: ['a'], total: 7, hasMore: true }],
    ['more', { values: ['a'], hasMore: true }, { values: ['a'], hasMore: true }],
    ['100 texts', texts(100), { values: texts(100), total: 100, hasMore: false }],
    ['101 texts', texts(101), { values: texts(100), total: 101, hasMore: true }],
    ['101 values', { values: texts(101) }, { values: texts(100), hasMore: true }],
  ])('a completion may return %s', async (_what, returned, expected) => {
    expect(await complete(returned)).toEqual(expected);
  });

  it.each([undefined, null, 'text', [1], { values: 'text' }, { total: 1 }, ...malformed])(
    'a completion may not return %j',
    async (returned) => {
      await expect(complete(returned)).rejects.toMatchObject({ code: -32603 });
    },
  );

  it('a completion fails as a prompt does', async () => {
    const denied = completionOf(() => {
      throw new ForbiddenException('Not for you');
    }, about);
    await expect(denied('v', {}, context)).rejects.toMatchObject({ code: -32603, message: 'Not for you' });
  });
});
