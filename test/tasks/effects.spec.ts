import { Injectable } from '@nestjs/common';
import { Confirm, McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/adapters.js';
import { gate } from '../support/app.js';
import { type TaskCaller, tasksApps, until } from './tasks-app.js';

const Payment = z.object({ requestId: z.string(), amount: z.number() });
type Payment = z.infer<typeof Payment>;

@Injectable()
class Bank {
  readonly effects: string[] = [];
  readonly door = gate();

  @Tool({ name: 'pay', inputSchema: Payment, task: 'optional', idempotency: { argument: 'requestId' } })
  async pay(@McpArgs() { amount }: Payment, @McpCtx() { task }: McpContext): Promise<string> {
    this.effects.push(`pay ${amount}${task ? ' as a task' : ''}`);
    await this.door.promise;
    return `paid ${this.effects.length}`;
  }

  @Tool({ name: 'remove', inputSchema: Payment, task: 'optional' })
  @Confirm(({ amount }: Payment) => `Remove ${amount}?`)
  remove(@McpArgs() { amount }: Payment): string {
    this.effects.push(`remove ${amount}`);
    return `removed ${amount}`;
  }
}

describe.each(ONE_ADAPTER)('%s: tools with effects whose calls become tasks', (adapter) => {
  const start = tasksApps();
  const started = async (tasks = {}) => {
    const { app, as, clock } = await start({ adapter, providers: [Bank], tasks });
    return { caller: await as('anna'), bank: app.get(Bank), clock };
  };
  const endOf = async (caller: TaskCaller, id: string) => {
    await until(async () => !['working', 'input_required'].includes((await caller.get(id)).status));
    return caller.get(id);
  };
  const answer = async (caller: TaskCaller, id: string, action: string): Promise<string> => {
    await until(async () => (await caller.get(id)).status === 'input_required');
    const { inputRequests } = await caller.get(id);
    const [[key, { params }]] = Object.entries(inputRequests) as unknown as [[string, { params: { message: string } }]];
    await caller.update(id, { [key]: { action } });
    return params.message;
  };

  it('repeats of a call that became a task become tasks, which end with its result', async () => {
    const { caller, bank } = await started();
    const args = { requestId: 'r', amount: 1 };
    const ids = [await caller.begin('pay', args), await caller.begin('pay', args)];
    await until(() => bank.effects.length === 1);
    bank.door.open();
    for (const id of ids)
      expect(await endOf(caller, id)).toMatchObject({ status: 'completed', result: { content: [{ text: 'paid 1' }] } });
    expect(await endOf(caller, await caller.begin('pay', args))).toMatchObject({
      result: { content: [{ text: 'paid 1' }] },
    });
    expect(bank.effects).toEqual(['pay 1 as a task']);
  });

  it('the call of a cancelled task that goes on gives its result to a repeat', async () => {
    const { caller, bank } = await started();
    const args = { requestId: 'r', amount: 1 };
    const id = await caller.begin('pay', args);
    await until(() => bank.effects.length === 1);
    await caller.cancel(id);
    const repeat = await caller.begin('pay', args);
    bank.door.open();
    expect(await endOf(caller, repeat)).toMatchObject({ result: { content: [{ text: 'paid 1' }] } });
    expect(bank.effects).toHaveLength(1);
  });

  it.each([
    ['accept', 'removed 1', ['remove 1']],
    ['decline', 'declined', []],
  ])('a task asks before the method runs: %s', async (action, text, effects) => {
    const { caller, bank } = await started();
    const id = await caller.begin('remove', { requestId: 'r', amount: 1 });
    expect(await answer(caller, id, action)).toBe('Remove 1?');
    const { status, result } = await endOf(caller, id);
    expect(status).toBe('completed');
    expect(result.content[0].text).toContain(text);
    expect(bank.effects).toEqual(effects);
  });

  it('two tasks ask separately, and the answer to one is none to the other', async () => {
    const { caller, bank } = await started();
    const args = { requestId: 'r', amount: 1 };
    const [first, second] = [await caller.begin('remove', args), await caller.begin('remove', args)];
    await until(async () => (await caller.get(first)).status === 'input_required');
    const [key] = Object.keys((await caller.get(first)).inputRequests);
    await caller.update(second, { [key!]: { action: 'accept' } });
    await answer(caller, first, 'accept');
    await endOf(caller, first);
    expect((await caller.get(second)).status).toBe('input_required');
    expect(bank.effects).toEqual(['remove 1']);
    await answer(caller, second, 'cancel');
    await endOf(caller, second);
    expect(bank.effects).toEqual(['remove 1']);
  });

  it('a task whose user does not answer in time ends without running its method', async () => {
    const { caller, bank, clock } = await started();
    const id = await caller.begin('remove', { requestId: 'r', amount: 1 });
    await until(async () => (await caller.get(id)).status === 'input_required');
    await clock.advance(300_000);
    expect((await endOf(caller, id)).result.content[0].text).toContain('did not confirm this call in time');
    expect(bank.effects).toEqual([]);
  });
});
