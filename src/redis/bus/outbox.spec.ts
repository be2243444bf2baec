import { describe, expect, it } from 'vitest';
import { deferred, type Deferred } from '../../common/promises.js';
import { ManualClock } from '../../testing/index.js';
import type { RedisConnection } from '../connection/redis-connection.js';
import { Outbox } from './outbox.js';

const COMMAND_MS = 2_000;

/** Commands that are answered when the test says so. */
function setup() {
  const clock = new ManualClock();
  const commands: { texts: string[]; answer: Deferred<unknown> }[] = [];
  const connection = {
    clock,
    keys: { bus: 'bus', gaps: 'gaps' },
    options: { commandTimeoutMs: COMMAND_MS },
    run: (_script: unknown, _key: string, ...texts: string[]) => {
      const answer = deferred<unknown>();
      commands.push({ texts, answer });
      return answer.promise;
    },
  } as unknown as RedisConnection;
  return { clock, commands, outbox: new Outbox(connection) };
}

describe('an outbox', () => {
  it('is flushed when what was said so far is sent, whatever is said meanwhile', async () => {
    const { clock, commands, outbox } = setup();
    await outbox.flushed();
    outbox.push('a', '1');
    outbox.push('a', '2');
    let flushed = 0;
    const waiting = [outbox.flushed(), outbox.flushed()].map((done) => done.then(() => flushed++));
    await clock.advance(0);
    outbox.push('a', '3');
    commands[0]!.answer.resolve(0);
    await clock.advance(0);
    expect(commands.map(({ texts }) => texts)).toEqual([
      ['a', '1', 'a', '2'],
      ['a', '3'],
    ]);
    expect(flushed).toBe(2);
    await Promise.all(waiting);
    commands[1]!.answer.resolve(0);
    await outbox.flushed();
    expect(clock.pending).toBe(0);
  });

  it('is flushed when what was said is lost', async () => {
    const { clock, commands, outbox } = setup();
    outbox.push('a', '1');
    let flushed = false;
    const waiting = outbox.flushed().then(() => (flushed = true));
    await clock.advance(COMMAND_MS);
    outbox.push('a', '2');
    expect(flushed).toBe(false);
    commands[0]!.answer.reject(new Error('away'));
    await clock.advance(0);
    expect(flushed).toBe(true);
    await waiting;
    await clock.advance(25);
    commands[1]!.answer.resolve(0);
    await clock.advance(0);
    // That something was lost, all are told.
    expect(commands.map(({ texts }) => texts)).toEqual([
      ['a', '1'],
      ['a', '2'],
      ['gaps', ''],
    ]);
    commands[2]!.answer.resolve(0);
    await outbox.close();
    expect(clock.pending).toBe(0);
  });
});
