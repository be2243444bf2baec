import { describe, expect, it } from 'vitest';
import { isLogLevel, LOG_LEVELS, reachesLevel } from './log-levels.js';

describe('D27: log levels', () => {
  it('log levels grow from debug to emergency: a client has those from the level that it wants', () => {
    for (const [threshold, wanted] of LOG_LEVELS.entries()) {
      expect(LOG_LEVELS.filter((level) => reachesLevel(level, wanted))).toEqual(LOG_LEVELS.slice(threshold));
    }
  });

  it('log levels are all wanted by a client that has not said which', () => {
    expect(LOG_LEVELS.filter((level) => reachesLevel(level, undefined))).toEqual(LOG_LEVELS);
  });

  it('log levels of a name that the specification does not have are as grave as can be', () => {
    expect(reachesLevel('fatal', 'emergency')).toBe(true);
    expect(reachesLevel('__proto__', 'emergency')).toBe(true);
  });

  it('log levels are eight names, and nothing else', () => {
    expect(LOG_LEVELS).toHaveLength(8);
    for (const level of LOG_LEVELS) expect(isLogLevel(level)).toBe(true);
    for (const other of ['', 'Debug', 'warn', 'toString', 0, null, undefined]) expect(isLogLevel(other)).toBe(false);
  });
});
