import { describe, expect, it } from 'vitest';
import { check, McpOptionError } from './option-checks.js';

/** The error that a check throws. */
function refusal(checking: () => unknown): McpOptionError {
  try {
    checking();
  } catch (error) {
    if (error instanceof McpOptionError) return error;
    throw error;
  }
  throw new Error('The value was accepted.');
}

describe('check.count', () => {
  it('takes whole numbers from the least one on', () => {
    expect(check.count('limit', 1)).toBe(1);
    expect(check.count('limit', 0, { min: 0 })).toBe(0);
    expect(check.count('limit', Number.MAX_SAFE_INTEGER)).toBe(Number.MAX_SAFE_INTEGER);
  });

  it.each([0, -1, 1.5, Number.NaN, Infinity, -Infinity, 2 ** 53, '5', null, undefined, {}, 5n])(
    'refuses %s',
    (value) => {
      const error = refusal(() => check.count('eventLog.maxEvents', value));
      expect(error).toMatchObject({ name: 'McpOptionError', code: 'OPTION', option: 'eventLog.maxEvents' });
      expect(error.message).toContain('"eventLog.maxEvents"');
      expect(error.message).toContain('at least 1');
    },
  );

  it('takes Infinity only where it is allowed, and says so', () => {
    expect(check.count('limit', Infinity, { infinite: true })).toBe(Infinity);
    expect(refusal(() => check.count('limit', -Infinity, { infinite: true })).message).toContain('or Infinity');
    expect(refusal(() => check.count('limit', Infinity)).message).not.toContain('or Infinity');
  });

  it('shows the value as it is', () => {
    expect(refusal(() => check.count('limit', '5')).message).toMatch(/got "5"\.$/);
    expect(refusal(() => check.count('limit', Number.NaN)).message).toMatch(/got NaN\.$/);
    expect(refusal(() => check.count('limit', undefined)).message).toMatch(/got undefined\.$/);
  });
});

describe('check.oneOf', () => {
  it('takes one of the names', () => {
    expect(check.oneOf('responseMode', 'sse', ['auto', 'sse'])).toBe('sse');
  });

  it.each(['SSE', '', 'constructor', undefined, null, 0, ['sse']])('refuses %s and lists the names', (value) => {
    const error = refusal(() => check.oneOf('responseMode', value, ['auto', 'sse']));
    expect(error.option).toBe('responseMode');
    expect(error.message).toContain('one of "auto", "sse"');
  });
});

describe('check.fn', () => {
  it('takes a function, or nothing', () => {
    const fn = () => 1;
    expect(check.fn('principal', fn)).toBe(fn);
    expect(check.fn('principal', undefined)).toBeUndefined();
  });

  it.each([null, 'x', {}, 1])('refuses %s', (value) => {
    expect(refusal(() => check.fn('principal', value)).message).toContain('"principal" must be a function');
  });
});

describe('check.text and check.texts', () => {
  it('take texts', () => {
    expect(check.text('name', 'x')).toBe('x');
    expect(check.texts('allowedHosts', [])).toEqual([]);
    expect(check.texts('allowedHosts', ['a', 'b'])).toEqual(['a', 'b']);
  });

  it.each(['', undefined, null, 1, ['x']])('text refuses %s', (value) => {
    expect(refusal(() => check.text('serverInfo.name', value)).option).toBe('serverInfo.name');
  });

  it.each([undefined, null, 'a', [1], ['a', undefined], {}])('texts refuses %s', (value) => {
    expect(refusal(() => check.texts('allowedHosts', value)).message).toContain('an array of strings');
  });
});

describe('check.implementation', () => {
  const methods = ['open', 'close'];

  it('takes an object with the methods, its own or inherited, or nothing', () => {
    class Base {
      open(): void {}
      close(): void {}
    }
    const derived = new (class extends Base {})();
    expect(check.implementation('eventStore', derived, methods)).toBe(derived);
    expect(check.implementation('eventStore', undefined, methods)).toBeUndefined();
  });

  it.each([
    ['an object without one', { open: () => {} }, 'close'],
    ['a method that is none', { open: () => {}, close: true }, 'close'],
    ['null', null, 'open'],
    ['a text', 'store', 'open'],
  ])('refuses %s and names the method', (_, value, missing) => {
    const error = refusal(() => check.implementation('eventStore', value as unknown as object, methods));
    expect(error.option).toBe('eventStore');
    expect(error.message).toContain(`no method "${missing}"`);
  });

  it('a value that cannot be shown as JSON is no obstacle', () => {
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    expect(refusal(() => check.fn('principal', cyclic)).option).toBe('principal');
    expect(refusal(() => check.text('name', 5n)).option).toBe('name');
  });
});

describe('check.timer', () => {
  it('takes what setTimeout can wait, and Infinity where it is allowed', () => {
    expect(check.timer('keepAliveMs', 2 ** 31 - 1)).toBe(2 ** 31 - 1);
    expect(check.timer('sseAfterMs', 0, { min: 0 })).toBe(0);
    expect(check.timer('requestTimeoutMs', Infinity, { infinite: true })).toBe(Infinity);
  });

  it.each([0, 1.5, '5', Infinity, 2 ** 31, Number.MAX_SAFE_INTEGER])('refuses %s', (value) => {
    const error = refusal(() => check.timer('keepAliveMs', value));
    expect(error.option).toBe('keepAliveMs');
    expect(error.message).toContain('"keepAliveMs"');
  });
});

describe('check.flag', () => {
  it('takes true and false', () => {
    expect([check.flag('isGlobal', true), check.flag('isGlobal', false)]).toEqual([true, false]);
  });

  it.each([undefined, null, 0, 1, '', 'true', {}])('refuses %s', (value) => {
    expect(refusal(() => check.flag('isGlobal', value)).message).toContain('"isGlobal"');
  });
});

describe('check.group', () => {
  it('takes an object, or nothing', () => {
    const group = {};
    expect(check.group('eventLog', group)).toBe(group);
    expect(check.group('eventLog', undefined)).toBeUndefined();
  });

  it.each([null, 5, 'x', [], true])('refuses %s', (value) => {
    expect(refusal(() => check.group('eventLog', value)).message).toContain('"eventLog"');
  });
});
