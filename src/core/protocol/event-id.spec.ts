import { describe, expect, it } from 'vitest';

import { randomToken } from '../common/random-token.js';
import { formatEventId, parseEventId, STANDALONE_STREAM } from './events.js';

const STREAM = 'abcdefghijklmnopqrstUV';

describe('event ids', () => {
  it.each([
    [STANDALONE_STREAM, 0],
    [STANDALONE_STREAM, 1],
    [STREAM, 0],
    [STREAM, 1000],
    [STREAM, Number.MAX_SAFE_INTEGER],
    [randomToken(), 7],
  ])('come back as they went: %s, %d', (stream, index) => {
    expect(parseEventId(formatEventId(stream, index))).toEqual({ stream, index });
  });

  it.each([
    '',
    '_',
    '1_',
    '_1',
    '_-1',
    '1_a',
    '1_-1',
    '+1_2',
    '007_1',
    '0_007',
    '1_1',
    '00_1',
    '-0_1',
    '0_',
    '0',
    '0_00',
    '0_1_2',
    '0_1 ',
    ' 0_1',
    '0_1\n',
    '0_+1',
    '0_-0',
    '0_1.0',
    '0_1e3',
    '0_0x1',
    '0_١',
    '0-1',
    '0_9007199254740992',
    '0_99999999999999999999',
    `0_${'9'.repeat(100_000)}`,
    `${STREAM}_`,
    `${STREAM}a_1`,
    `${STREAM.slice(1)}_1`,
    `${STREAM.slice(1)}-_1`,
    `${STREAM.slice(1)}é_1`,
    `${STREAM.slice(1)}__1`,
    `${STREAM}_01`,
  ])('parseEventId refuses %j (G3)', (text) => {
    expect(parseEventId(text)).toBeUndefined();
  });
});
