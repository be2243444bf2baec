import { Logger } from '@nestjs/common';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { InMemoryTaskStore } from 'nestjs-mcp-streamable/tasks';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER } from '../support/adapters.js';
import { accept, type TaskCaller, tasksApps, until } from '../tasks/tasks-app.js';
import { TaskTools } from '../tasks/task-tools.js';
import { act, LiveReader } from './live-reader.js';

// A store that is away is logged.
Logger.overrideLogger(false);

describe.each(ONE_ADAPTER)('tasks on the live page on %s', (adapter) => {
  const start = tasksApps();
  let clock: ManualClock;
  let store: InMemoryTaskStore;
  let caller: TaskCaller;
  let page: string;
  let reader: LiveReader;

  beforeEach(async () => {
    clock = new ManualClock();
    store = new InMemoryTaskStore(clock);
    const imports = [McpLiveModule.forRoot({ unguarded: 'loopback' })];
    const { app, as } = await start({ adapter, clock, imports, tasks: { store }, providers: [TaskTools] });
    caller = await as('ann');
    await app.listen(0, '127.0.0.1');
    page = `${await app.getUrl()}/mcp-live`;
    reader = await LiveReader.open(page);
  });
  afterEach(() => reader.close());

  async function seen(condition: () => unknown): Promise<void> {
    await clock.advance(500);
    await reader.until(condition);
  }

  it('tasks on the live page are shown while they run, without their id, and what they wait for', async () => {
    const id = await caller.begin('asks');
    await until(async () => (await caller.get(id)).status === 'input_required');
    await seen(() => reader.first.calls.size === 1);
    const row = reader.row('calls');
    expect(row).toMatchObject({ method: 'task, waits for an answer', name: 'asks', principal: 'ann', session: null });
    expect(JSON.stringify([reader.endpoints, reader.events])).not.toContain(id);
    expect(reader.first.facts).toMatchObject({ tasks: 1, calls: 0 });
    await caller.update(id, { a: accept({ yes: true }), b: accept({ yes: true }) });
    await until(async () => 'c' in ((await caller.get(id)).inputRequests ?? {}));
    await caller.update(id, { c: accept({ yes: true }) });
    await until(async () => (await caller.get(id)).status === 'completed');
    await seen(() => reader.first.calls.size === 0);
    expect(reader.first.facts).toMatchObject({ tasks: 0 });
  });

  it('tasks on the live page are cancelled from it', async () => {
    const id = await caller.begin('slow', { label: 'x' });
    await seen(() => reader.first.calls.size === 1);
    const { key, cancellable } = reader.row('calls');
    expect(cancellable).toBe(true);
    expect(await act(page, `calls/${key}/cancel`)).toMatchObject({ status: 200, body: { cancelled: true } });
    expect(await caller.get(id)).toMatchObject({ status: 'cancelled' });
    await seen(() => reader.first.calls.size === 0);
    expect(await act(page, `calls/${key}/cancel`)).toMatchObject({ status: 404, body: { error: 'UNKNOWN_CALL' } });
  });

  it('tasks on the live page continue while their store is unavailable', async () => {
    const id = await caller.begin('slow', { label: 'x' });
    await seen(() => reader.first.calls.size === 1);
    const { key } = reader.row('calls');
    const away = vi.spyOn(store, 'patch').mockRejectedValue(new Error('away'));
    expect(await act(page, `calls/${key}/cancel`)).toMatchObject({ status: 503, body: { error: 'STORE_AWAY' } });
    away.mockRestore();
    expect(await caller.get(id)).toMatchObject({ status: 'working' });
  });
});
