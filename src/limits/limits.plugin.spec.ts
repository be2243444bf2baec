import { describe, expect, it } from 'vitest';
import { systemClock } from '../core/common/clock.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import { LimitsPlugin } from './limits.plugin.js';

const origin = 'OrderTools.find (OrdersModule)';

function hooksOf(options: Record<string, unknown>, usual?: number) {
  const target: McpHandlerTarget = {
    kind: 'tool',
    key: 'find',
    origin,
    inputSchema: { type: 'object', properties: { id: {} } },
    metadata: [],
    option: (name) => options[name],
  };
  const get = () => ({ maxResultBytes: usual }) as never;
  return new LimitsPlugin().attach({ clock: systemClock, get }).handler!(target);
}

describe('the limits of a handler', () => {
  it.each<[string, Record<string, unknown>, string]>([
    ...[0, -1, Number.NaN, 1.5, Infinity, '5'].map((timeoutMs): [string, Record<string, unknown>, string] => [
      'a time that is no whole number of at least 1',
      { timeoutMs },
      'its "timeoutMs" must be a whole number of at least 1',
    ]),
    ...[0, -1, Number.NaN, 1.5, Infinity, '5', null].map((maxConcurrent): [string, Record<string, unknown>, string] => [
      'a number of places that is no whole number of at least 1',
      { maxConcurrent },
      `its "maxConcurrent" such a number or { max, per: 'principal' }: The option "maxConcurrent" must be`,
    ]),
    ...[{ max: 0, per: 'principal' }, { per: 'principal' }].map(
      (maxConcurrent): [string, Record<string, unknown>, string] => [
        'no places for each caller',
        { maxConcurrent },
        'The option "maxConcurrent.max" must be a whole number of at least 1',
      ],
    ),
    ['places of a user', { maxConcurrent: { max: 1, per: 'user' } }, '"maxConcurrent.per" must be one of "prin'],
    ['misspelt places', { maxConcurrent: { maximum: 1 } }, 'There is no option "maxConcurrent.maximum".'],
    ['a size of 0', { maxResultBytes: 0 }, 'its "maxResultBytes" must be a whole number of at least 1, or Infinity'],
    ['a size that is null', { maxResultBytes: null }, 'its "maxResultBytes" must be a whole number'],
    ['a size in words', { maxResultBytes: '1 MB' }, 'its "maxResultBytes" must be a whole number'],
  ])('the limits of a handler refuse %s, and say why', (_, options, reason) => {
    expect(() => hooksOf(options)).toThrow(McpHandlerDefinitionError);
    expect(() => hooksOf(options)).toThrow(`The MCP handler ${origin} cannot be served: `);
    expect(() => hooksOf(options)).toThrow(reason);
  });

  it('the limits of a handler cost nothing where there are none', () => {
    expect(hooksOf({})).toBeUndefined();
    expect(hooksOf({ maxResultBytes: Infinity }, 10)).toBeUndefined();
    expect(hooksOf({}, 10)).toEqual({ bound: expect.anything() });
  });
});
