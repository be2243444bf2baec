import { randomBytes } from 'node:crypto';
import { ProtocolError } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { McpOptionError, resolveOptions } from '../common/options.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { REQUEST_STATE_TABLE, secretsFor } from './request-state.options.js';
import {
  type RequestStateOptions,
  RequestStates,
  RequestStateTooLargeError,
  type StateBinding,
} from './request-state.js';

const SECRET = randomBytes(32);
const OTHER_SECRET = randomBytes(32);

function states(options: Partial<RequestStateOptions> = {}, clock = new ManualClock()): RequestStates {
  const endpoint = { name: undefined, path: 'mcp' };
  const defaults = { secrets: [SECRET], ttlMs: 60_000, clockToleranceMs: 0, maxBytes: 65_536, endpoint };
  return new RequestStates({ ...defaults, ...options }, clock);
}

const BINDING: StateBinding = {
  principal: 'ann',
  method: 'tools/call',
  target: 'remove',
  params: { name: 'remove', arguments: { id: '1', deep: { a: 1, b: 2 } } },
};

/** A client reads this, whatever is wrong. */
const REFUSAL = { code: -32602, message: 'Invalid or expired requestState', data: { reason: 'invalid_request_state' } };

function refusal(task: () => unknown): unknown {
  try {
    task();
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError);
    const { code, message, data } = error as ProtocolError;
    return { code, message, data };
  }
  return 'nothing was thrown';
}

describe('a sealed state', () => {
  it.each(['', '{}', 'ä€😀\ufffd', 'x'.repeat(10_000), ' leading', '1 2 3'])(
    'a sealed state opens to the text that was sealed: %j',
    (payload) => {
      const some = states();
      expect(some.open(some.seal(payload, BINDING), BINDING)).toBe(payload);
    },
  );

  it('a sealed state does not reveal its content, and differs each time', () => {
    const some = states();
    const sealed = some.seal('the answer', BINDING);
    expect(sealed).toMatch(/^[\w-]+$/);
    expect(Buffer.from(sealed, 'base64url').includes('answer')).toBe(false);
    expect(some.seal('the answer', BINDING)).not.toBe(sealed);
  });

  it('a sealed state does not open when any of its bytes was changed', () => {
    const some = states();
    const bytes = Buffer.from(some.seal('payload', BINDING), 'base64url');
    for (const index of bytes.keys()) {
      for (const flipped of [0x01, 0x80]) {
        const tampered = Buffer.from(bytes);
        tampered[index]! ^= flipped;
        expect(refusal(() => some.open(tampered.toString('base64url'), BINDING))).toEqual(REFUSAL);
      }
    }
  });

  it('a sealed state has one spelling: texts that a lenient decoder reads alike are refused', () => {
    const some = states();
    // 17 bytes of content: two characters of the last group, whose spare bits say nothing.
    const sealed = ['a', 'bb', 'ccc'].map((text) => some.seal(text, BINDING)).find((text) => text.length % 4 === 2)!;
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet.indexOf(sealed.at(-1)!);
    const twins = [
      ...[1, 2, 3].map((spare) => sealed.slice(0, -1) + alphabet[last ^ spare]!),
      `${sealed}=`,
      `${sealed}==`,
      ` ${sealed}`,
      `${sealed}\n`,
      `${sealed.slice(0, 9)}*${sealed.slice(9)}`,
    ];
    expect(some.open(sealed, BINDING)).toMatch(/^[abc]/);
    for (const twin of twins) {
      expect(Buffer.from(twin, 'base64url').equals(Buffer.from(sealed, 'base64url'))).toBe(true);
      expect(refusal(() => some.open(twin, BINDING))).toEqual(REFUSAL);
    }
  });

  it('a sealed state does not open when it is cut, or when text is appended', () => {
    const some = states();
    const sealed = some.seal('payload', BINDING);
    for (let length = 0; length < sealed.length; length++) {
      expect(refusal(() => some.open(sealed.slice(0, length), BINDING))).toEqual(REFUSAL);
    }
    for (const more of ['A', 'AAAA', sealed]) expect(refusal(() => some.open(sealed + more, BINDING))).toEqual(REFUSAL);
  });

  it.each(['', 'x', '{}', '=', '__proto__', '\u0000', '😀'.repeat(100), 'A'.repeat(200), 'A'.repeat(1_000_000)])(
    'a sealed state is not any text that was never sealed: %j',
    (state) => {
      expect(refusal(() => states().open(state, BINDING))).toEqual(REFUSAL);
    },
  );
});

describe('a sealed state expires', () => {
  it('a sealed state expires after ttlMs, and not before', async () => {
    const clock = new ManualClock();
    const some = states({ ttlMs: 1_000 }, clock);
    const sealed = some.seal('payload', BINDING);
    await clock.advance(999);
    expect(some.open(sealed, BINDING)).toBe('payload');
    await clock.advance(1);
    expect(refusal(() => some.open(sealed, BINDING))).toEqual(REFUSAL);
  });

  it('a sealed state is opened for clockToleranceMs longer, by a node whose clock is ahead', async () => {
    const clock = new ManualClock();
    const some = states({ ttlMs: 1_000, clockToleranceMs: 500 }, clock);
    const sealed = some.seal('payload', BINDING);
    await clock.advance(1_499);
    expect(some.open(sealed, BINDING)).toBe('payload');
    await clock.advance(1);
    expect(refusal(() => some.open(sealed, BINDING))).toEqual(REFUSAL);
  });

  it('a sealed state expires by the ttlMs of the node that sealed it, not of the one that opens it', async () => {
    const clock = new ManualClock();
    const sealed = states({ ttlMs: 1_000 }, clock).seal('payload', BINDING);
    await clock.advance(2_000);
    expect(refusal(() => states({ ttlMs: 1_000_000 }, clock).open(sealed, BINDING))).toEqual(REFUSAL);
  });
});

describe('a sealed state belongs', () => {
  const sealed = states().seal('payload', BINDING);

  it.each<[string, Partial<StateBinding>]>([
    ['another principal', { principal: 'bob' }],
    ['nobody', { principal: undefined }],
    ['the empty principal', { principal: '' }],
    ['another method', { method: 'prompts/get' }],
    ['another name', { target: 'remove2' }],
    ['other arguments', { params: { name: 'remove', arguments: { id: '2', deep: { a: 1, b: 2 } } } }],
    ['other arguments deep down', { params: { name: 'remove', arguments: { id: '1', deep: { a: 1, b: 3 } } } }],
    ['more arguments', { params: { name: 'remove', arguments: { id: '1', deep: { a: 1, b: 2, c: null } } } }],
    ['fewer arguments', { params: { name: 'remove', arguments: { id: '1' } } }],
    ['a parameter more', { params: { ...BINDING.params, more: 1 } }],
    [
      'arguments with a name of the prototype',
      {
        params: {
          ...BINDING.params,
          arguments: JSON.parse('{"id":"1","deep":{"a":1,"b":2},"__proto__":{}}') as object,
        },
      },
    ],
  ])('a sealed state does not belong to %s', (_, other) => {
    expect(refusal(() => states().open(sealed, { ...BINDING, ...other }))).toEqual(REFUSAL);
  });

  it.each<[string, Partial<StateBinding>]>([
    ['the order of the arguments', { params: { arguments: { deep: { b: 2, a: 1 }, id: '1' }, name: 'remove' } }],
    [
      'what changes from round to round',
      {
        params: { ...BINDING.params, _meta: { progressToken: 2 }, inputResponses: {}, requestState: 'x' },
      },
    ],
  ])('a sealed state belongs to its caller and request whatever %s', (_, same) => {
    expect(states().open(sealed, { ...BINDING, ...same })).toBe('payload');
  });

  it('a sealed state belongs to one endpoint, and is refused by others', () => {
    for (const endpoint of [
      { name: undefined, path: 'other' },
      { name: 'mcp', path: 'mcp' },
      { name: '', path: 'mcp' },
    ]) {
      expect(refusal(() => states({ endpoint }).open(sealed, BINDING))).toEqual(REFUSAL);
    }
  });

  it('a sealed state belongs to anonymous callers, and is refused for principals such as the empty name', () => {
    const anonymous = { ...BINDING, principal: undefined };
    const some = states();
    const state = some.seal('payload', anonymous);
    expect(some.open(state, anonymous)).toBe('payload');
    for (const principal of ['', 'null', 'undefined', '[]']) {
      expect(refusal(() => some.open(state, { ...BINDING, principal }))).toEqual(REFUSAL);
    }
  });

  it('a sealed state belongs to its parameters, and is refused for others that are nested too deeply to be compared', () => {
    const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) as unknown;
    expect(refusal(() => states().open(sealed, { ...BINDING, params: { deep } }))).toEqual(REFUSAL);
  });
});

describe('the keys of sealed states', () => {
  it('seal with the first, open with all', () => {
    const old = states({ secrets: [SECRET] });
    const rotated = states({ secrets: [OTHER_SECRET, SECRET] });
    const renewed = states({ secrets: [OTHER_SECRET] });
    expect(rotated.open(old.seal('payload', BINDING), BINDING)).toBe('payload');
    expect(renewed.open(rotated.seal('payload', BINDING), BINDING)).toBe('payload');
    expect(refusal(() => renewed.open(old.seal('payload', BINDING), BINDING))).toEqual(REFUSAL);
    expect(refusal(() => old.open(rotated.seal('payload', BINDING), BINDING))).toEqual(REFUSAL);
  });

  it('the keys of sealed states are random by default, and must be given where nodes share sessions', () => {
    const [one] = secretsFor(undefined, false);
    expect(one).toHaveLength(32);
    expect(secretsFor(undefined, false)).not.toEqual([one]);
    expect(secretsFor([SECRET], true)).toEqual([SECRET]);
    expect(() => secretsFor(undefined, true)).toThrow(McpOptionError);
    expect(() => secretsFor(undefined, true)).toThrow(/shared by several nodes.*"requestStateKeys"/);
  });

  it('the keys of sealed states are bytes or text of at least 32 bytes, and are copied', () => {
    const bytes = new Uint8Array(32).fill(7);
    const { requestStateKeys } = resolveOptions(REQUEST_STATE_TABLE, { requestStateKeys: [bytes, 'ä'.repeat(16)] });
    bytes.fill(0);
    expect(requestStateKeys).toEqual([Buffer.alloc(32, 7), Buffer.from('ä'.repeat(16))]);
  });

  it.each<[unknown]>([[[]], [null], ['s3cret'.repeat(10)], [['s3cret']], [[SECRET, 's3cret'.repeat(5)]], [[32]]])(
    'the keys of sealed states of %j stop the start, without being shown',
    (requestStateKeys) => {
      const resolve = () => resolveOptions(REQUEST_STATE_TABLE, { requestStateKeys });
      expect(resolve).toThrow(McpOptionError);
      expect(resolve).not.toThrow(/s3cret/);
    },
  );
});

describe('the size of a state', () => {
  it('the size of a state is bounded when it is sealed', () => {
    const some = states({ maxBytes: 1_024 });
    const random = (bytes: number) => some.seal('x'.repeat(bytes), BINDING);
    expect(random(650).length).toBeLessThanOrEqual(1_024);
    expect(() => random(1_024)).toThrow(RequestStateTooLargeError);
  });

  it('the size of a state is bounded before it is opened', () => {
    const sealed = states().seal('x'.repeat(2_000), BINDING);
    expect(states({ maxBytes: sealed.length }).open(sealed, BINDING)).toHaveLength(2_000);
    expect(refusal(() => states({ maxBytes: sealed.length - 1 }).open(sealed, BINDING))).toEqual(REFUSAL);
  });
});
