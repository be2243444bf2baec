import { describe, expect, it } from 'vitest';
import { deferred } from '../core/common/promises.js';
import type { Passed } from '../core/plugins/mcp-plugin.js';
import type { RunningTask } from './running-task.js';
import { TaskCall } from './task-call.js';

describe('a call that may become a task', () => {
  it('a call whose work is done in the turn in which its task was stored ends the task', async () => {
    const [made, work, settled] = [deferred<RunningTask | undefined>(), deferred<Passed>(), deferred<unknown>()];
    const run = { call: { state: 'open' }, isMarked: false };
    const call = new TaskCall(run as never, { make: () => made.promise } as never, { afterMs: Infinity } as never);
    const answer = call.enclose(() => work.promise);
    await call.entering();
    const starting = call.start();
    const result = {} as Passed;
    work.resolve(result);
    await answer;
    made.resolve({ settle: settled.resolve } as never);
    await starting;
    expect(await settled.promise).toEqual({ status: 'fulfilled', value: result });
  });
});
