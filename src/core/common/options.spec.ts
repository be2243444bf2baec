import { describe, expect, it } from 'vitest';
import {
  contract,
  count,
  flag,
  functionOf,
  group,
  list,
  McpOptionError,
  object,
  oneOf,
  type OptionTable,
  passing,
  required,
  resolveGroup,
  resolveOptions,
  text,
  texts,
  timer,
} from './options.js';

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

/** A check, as a table calls it. */
type Check = (given: never, option: string) => unknown;
const refusalOf = (check: Check, value: unknown, option = 'limit') => refusal(() => check(value as never, option));
const passed = (check: Check, value: unknown): unknown => check(value as never, 'limit');

describe('a table of options', () => {
  interface Options {
    limit?: number;
    mode?: 'auto' | 'sse';
    log?: { maxBytes?: number };
  }
  const TABLE = {
    limit: count(10),
    mode: oneOf('auto', ['auto', 'sse']),
    log: group({}, { maxBytes: count(1_000) }),
  } satisfies OptionTable<Options>;

  it('a table of options gives the defaults of options that are absent or undefined', () => {
    const defaults = { limit: 10, mode: 'auto', log: { maxBytes: 1_000 } };
    expect(resolveOptions(TABLE, {})).toEqual(defaults);
    expect(resolveOptions(TABLE, { limit: undefined, log: { maxBytes: undefined } })).toEqual(defaults);
  });

  it('a table of options gives what was given, and leaves out what it does not know', () => {
    const given = { limit: 5, mode: 'sse', log: { maxBytes: 7 } };
    expect(resolveOptions(TABLE, { ...given, other: true })).toEqual(given);
  });

  it('a table of options names a wrong option by its path', () => {
    expect(refusal(() => resolveOptions(TABLE, { limit: 0 })).option).toBe('limit');
    expect(refusal(() => resolveOptions(TABLE, { log: { maxBytes: 0 } })).option).toBe('log.maxBytes');
    expect(refusal(() => resolveGroup(TABLE, { mode: 'json' }, 'server')).option).toBe('server.mode');
  });

  it.each([undefined, null, 5, 'x', []])('a table of options takes no options from %j', (given) => {
    expect(refusal(() => resolveOptions(TABLE, given)).message).toContain('The option "options" must be an object');
  });

  it('a table of options that is a group has no other options', () => {
    const { option, message } = refusal(() => resolveOptions(TABLE, { log: { maxByte: 7 } }));
    expect(option).toBe('log.maxByte');
    expect(message).toBe('There is no option "log.maxByte". Did you mean "maxBytes"?');
    expect(refusal(() => resolveGroup(TABLE, { colour: 1 })).message).toContain('The options are: limit, mode, log.');
  });

  it('a table of options does not compile without an option, with another one, or with one of another type', () => {
    // @ts-expect-error -- "log" is missing
    expect({ limit: count(1), mode: TABLE.mode } satisfies OptionTable<Options>).toBeDefined();
    // @ts-expect-error -- the interface has no "size"
    expect({ ...TABLE, size: count(1) } satisfies OptionTable<Options>).toBeDefined();
    // @ts-expect-error -- "limit" is a number
    expect({ ...TABLE, limit: flag(true) } satisfies OptionTable<Options>).toBeDefined();
    // @ts-expect-error -- "mode" may be "sse"
    expect({ ...TABLE, mode: oneOf('auto', ['auto']) } satisfies OptionTable<Options>).toBeDefined();
    // @ts-expect-error -- "mode" cannot be "json"
    expect({ ...TABLE, mode: oneOf('auto', ['auto', 'sse', 'json']) } satisfies OptionTable<Options>).toBeDefined();
    // @ts-expect-error -- nor by default
    expect({ ...TABLE, mode: oneOf('json', ['auto', 'sse']) } satisfies OptionTable<Options>).toBeDefined();
    // @ts-expect-error -- "log.maxBytes" is a number
    expect({ ...TABLE, log: group({}, { maxBytes: text('') }) } satisfies OptionTable<Options>).toBeDefined();
  });
});

describe('an option', () => {
  it('an option that is absent takes its default, or stays undefined, or is refused where it is required', () => {
    expect(passed(text('mcp'), undefined)).toBe('mcp');
    expect(passed(text(undefined), undefined)).toBeUndefined();
    expect(refusalOf(text(required), undefined).message).toBe(
      'The option "limit" must be a non-empty string; got undefined.',
    );
  });

  it('an option that is null counts as given, and is refused', () => {
    expect(refusalOf(text('mcp'), null).message).toContain('got null');
    expect(refusalOf(group({}, {}), null).message).toContain('got null');
  });

  it('an option that is refused is shown in the error as it was given', () => {
    expect(refusalOf(count(1), '5').message).toMatch(/got "5"\.$/);
    expect(refusalOf(count(1), Number.NaN).message).toMatch(/got NaN\.$/);
  });

  it('an option that cannot be shown as JSON is refused by its name all the same', () => {
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    expect(refusalOf(functionOf(undefined), cyclic).option).toBe('limit');
    expect(refusalOf(text(undefined), 5n).option).toBe('limit');
  });
});

describe('a count', () => {
  it('a count accepts whole numbers from its minimum on', () => {
    expect(passed(count(5), 1)).toBe(1);
    expect(passed(count(5, { min: 0 }), 0)).toBe(0);
    expect(passed(count(5), Number.MAX_SAFE_INTEGER)).toBe(Number.MAX_SAFE_INTEGER);
  });

  it.each([0, -1, 1.5, Number.NaN, Infinity, -Infinity, 2 ** 53, '5', null, {}, 5n])(
    'a count cannot be %s',
    (value) => {
      const error = refusalOf(count(5), value, 'eventLog.maxEvents');
      expect(error).toMatchObject({ name: 'McpOptionError', code: 'OPTION', option: 'eventLog.maxEvents' });
      expect(error.message).toContain('"eventLog.maxEvents"');
      expect(error.message).toContain('at least 1');
    },
  );

  it('a count accepts Infinity only where that is allowed; the error says whether it is', () => {
    expect(passed(count(5, { infinite: true }), Infinity)).toBe(Infinity);
    expect(refusalOf(count(5, { infinite: true }), -Infinity).message).toContain('or Infinity');
    expect(refusalOf(count(5), Infinity).message).not.toContain('or Infinity');
  });
});

describe('milliseconds of a timer', () => {
  it('milliseconds of a timer accept what setTimeout can wait, and Infinity where that is allowed', () => {
    expect(passed(timer(5), 2 ** 31 - 1)).toBe(2 ** 31 - 1);
    expect(passed(timer(5, { min: 0 }), 0)).toBe(0);
    expect(passed(timer(5, { infinite: true }), Infinity)).toBe(Infinity);
  });

  it.each([0, 1.5, '5', Infinity, 2 ** 31, Number.MAX_SAFE_INTEGER])(
    'milliseconds of a timer cannot be %s',
    (value) => {
      expect(refusalOf(timer(5), value, 'keepAliveMs').message).toContain('"keepAliveMs"');
    },
  );
});

describe('a flag', () => {
  it('a flag accepts true and false', () => {
    expect([passed(flag(true), true), passed(flag(true), false)]).toEqual([true, false]);
  });

  it.each([null, 0, 1, '', 'true', {}])('a flag cannot be %s', (value) => {
    expect(refusalOf(flag(true), value).message).toContain('true or false');
  });
});

describe('one of several words', () => {
  it.each(['SSE', '', 'constructor', null, 0, ['sse']])(
    'one of several words cannot be %s; the error lists the words',
    (value) => {
      expect(passed(oneOf('auto', ['auto', 'sse']), 'sse')).toBe('sse');
      expect(refusalOf(oneOf('auto', ['auto', 'sse']), value).message).toContain('one of "auto", "sse"');
    },
  );
});

describe('texts', () => {
  it.each([null, 'a', [1], ['a', undefined], {}])('texts cannot be %s', (value) => {
    expect(passed(texts([]), ['a', 'b'])).toEqual(['a', 'b']);
    expect(refusalOf(texts([]), value).message).toContain('an array of strings');
  });

  it.each(['', null, 1, ['x']])('a text cannot be %s', (value) => {
    expect(refusalOf(text(undefined), value).message).toContain('a non-empty string');
  });
});

describe('a function', () => {
  it.each([null, 'x', {}, 1])('a function cannot be %s', (value) => {
    const fn = () => 1;
    expect(passed(functionOf(undefined), fn)).toBe(fn);
    expect(refusalOf(functionOf(undefined), value, 'principal').message).toContain('"principal" must be a function');
  });
});

describe('an object', () => {
  it.each([null, 5, 'x', [], true])('an object cannot be %s', (value) => {
    const given = {};
    expect(passed(object(undefined), given)).toBe(given);
    expect(refusalOf(object(undefined), value).message).toContain('an object');
  });
});

describe('an object that implements a contract', () => {
  interface Store {
    open(): void;
    close(): void;
  }
  const check = contract<Store>(required, ['open', 'close']);

  it('an object that implements a contract has the methods, its own or inherited ones', () => {
    class Base {
      open(): void {}
      close(): void {}
    }
    const derived = new (class extends Base {})();
    expect(check(derived, 'eventStore')).toBe(derived);
  });

  it.each([
    ['an object without one', { open: () => {} }, 'close'],
    ['a method that is none', { open: () => {}, close: true }, 'close'],
    ['null', null, 'open'],
    ['undefined', undefined, 'open'],
    ['a text', 'store', 'open'],
  ])('an object that implements a contract cannot be %s; the error names the method', (_, value, missing) => {
    const error = refusalOf(check, value, 'eventStore');
    expect(error.option).toBe('eventStore');
    expect(error.message).toContain(`no method "${missing}"`);
  });
});

describe('a value that passes a test', () => {
  const isShort = (value: unknown): boolean => typeof value === 'string' && value.length < 3;

  it('a value that passes a test is not shown in the error, where it may be a secret', () => {
    expect(passed(passing<string, string>('a', isShort, 'short'), 'ab')).toBe('ab');
    expect(refusalOf(passing<string, string>('a', isShort, 'short'), 's3cret').message).toBe(
      'The option "limit" must be short.',
    );
  });

  it('a value that passes a test may be each value of a list', () => {
    const check = list([], isShort, 'a list of short ones');
    expect(passed(check, ['a', 'b'])).toEqual(['a', 'b']);
    for (const wrong of ['a', {}, [undefined], ['a', 'abc']]) {
      expect(refusalOf(check, wrong).message).toContain('must be a list of short ones');
    }
  });
});
