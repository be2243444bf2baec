import { Inject, Injectable } from '@nestjs/common';
import { type McpContext, McpCtx, McpToolCaller, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { gate } from '../support/app.js';
import { LineClient } from '../stdio/line-client.js';
import { ONE_ADAPTER } from '../support/adapters.js';
import { TaskTools } from './task-tools.js';
import { accept, TASKS, tasksApps, until } from './tasks-app.js';

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const start = tasksApps({ shared: true });
const started = async (options: Parameters<typeof start>[0] = {}) => {
  const made = await start({ providers: [TaskTools], ...options });
  return { ...made, tools: made.app.get(TaskTools), caller: await made.as() };
};

describe.each(ONE_ADAPTER)('%s: a call that becomes a task', (adapter) => {
  it('T1, T2: a call that becomes a task is answered with the task, whose result the client polls', async () => {
    const { caller, tools } = await started({ adapter });
    const { status, result } = await caller.call('slow', { label: 'A' });
    expect(status).toBe(200);
    expect(result).toEqual({
      resultType: 'task',
      taskId: expect.stringMatching(/^[A-Za-z0-9]{22}$/),
      status: 'working',
      createdAt: expect.stringMatching(ISO),
      lastUpdatedAt: result.createdAt,
      ttlMs: 600_000,
      pollIntervalMs: 1_000,
      _meta: expect.anything(),
    });
    const { resultType: _, ...task } = result;
    expect(await caller.get(task.taskId)).toEqual({ resultType: 'complete', ...task });
    tools.door.open();
    await until(async () => (await caller.get(task.taskId)).status !== 'working');
    expect(await caller.get(task.taskId)).toEqual({
      resultType: 'complete',
      ...task,
      status: 'completed',
      lastUpdatedAt: expect.stringMatching(ISO),
      result: { content: [{ type: 'text', text: 'done A' }] },
    });
    expect(tools.seen).toEqual(['begun as a task']);
  });

  it('T3: a call that becomes a task asks its client through the task, and accepts the answers in parts', async () => {
    const { caller } = await started({ adapter });
    const id = await caller.begin('asks');
    await until(async () => (await caller.get(id)).status === 'input_required');
    const asked = await caller.get(id);
    expect(asked.inputRequests).toMatchObject({
      a: { method: 'elicitation/create', params: { mode: 'form', message: 'A?' } },
      b: { method: 'elicitation/create', params: { message: 'B?' } },
    });
    expect((await caller.update(id, { a: accept({ yes: true }), other: accept({}) })).result).toEqual({
      resultType: 'complete',
      _meta: expect.anything(),
    });
    expect(Object.keys((await caller.get(id)).inputRequests)).toEqual(['b']);
    await caller.update(id, { a: accept({ yes: false }), b: accept({ yes: true }) });
    await until(async () => (await caller.get(id)).inputRequests?.c);
    await caller.update(id, { c: { action: 'decline' } });
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.get(id)).result.content[0].text).toBe('[{"yes":true},{"yes":true},null]');
  });

  it('T4: a call that becomes a task is cancelled, once and for good', async () => {
    const { caller, tools } = await started({ adapter });
    const id = await caller.begin('slow', { label: 'A' });
    for (let n = 0; n < 2; n++) {
      expect((await caller.cancel(id)).result).toEqual({ resultType: 'complete', _meta: expect.anything() });
    }
    await until(() => tools.seen.length === 2);
    expect(tools.seen).toEqual(['begun as a task', `aborted: The task ${id} was cancelled.`]);
    tools.door.open();
    expect(await caller.get(id)).toMatchObject({ status: 'cancelled' });
    expect(await caller.get(id)).not.toHaveProperty('result');
  });

  it('E15: its arguments count until it is over, and those of a task that is cancelled no longer', async () => {
    const { caller, tools } = await started({ adapter, endpoint: { maxHeldBytes: 30_000 } });
    const large = { label: 'x'.repeat(20_000) };
    await caller.cancel(await caller.begin('slow', large));
    await until(() => tools.seen.length === 2);
    const id = await caller.begin('slow', large);
    expect((await caller.call('slow', large)).status).toBe(503);
    tools.door.open();
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.call('slow', large)).status).toBe(200);
  });

  it('E14: a task keeps its place among the calls of its caller until it has ended, and can be read, answered and cancelled meanwhile', async () => {
    const { as } = await started({ adapter, endpoint: { maxRunningCallsPerPrincipal: 2 } });
    const [ann, bob] = [await as('ann'), await as('bob')];
    const [asking, slow] = [await ann.begin('asks'), await ann.begin('slow', { label: 'A' })];
    const refused = await ann.call('plain');
    expect(refused).toMatchObject({
      status: 429,
      error: { code: -32000, message: expect.stringContaining('maximum') },
    });
    expect((await bob.call('plain')).status).toBe(200);
    await until(async () => (await ann.get(asking)).status === 'input_required');
    await ann.update(asking, { a: accept({ yes: true }), b: accept({ yes: true }) });
    await until(async () => 'c' in ((await ann.get(asking)).inputRequests ?? {}));
    expect((await ann.cancel(slow)).status).toBe(200);
    await until(async () => (await ann.call('plain')).status === 200);
    await ann.update(asking, { c: accept({ yes: true }) });
    await until(async () => (await ann.get(asking)).status === 'completed');
  });

  it('E14: a task that is cancelled keeps its place until its handler ends', async () => {
    const { as, tools } = await started({ adapter, endpoint: { maxRunningCallsPerPrincipal: 1 } });
    const ann = await as('ann');
    await ann.cancel(await ann.begin('breaks'));
    expect((await ann.call('plain')).status).toBe(429);
    tools.door.open();
    await until(async () => (await ann.call('plain')).status === 200);
  });

  it('T2: a call that becomes a task fails with the JSON-RPC error of its handler; a result that is an error is completed', async () => {
    const { caller, tools } = await started({ adapter });
    tools.door.open();
    const ids = [await caller.begin('breaks'), await caller.begin('secretly_breaks')];
    const refused = await caller.begin('must', { label: 'no' });
    await until(async () => (await caller.get(refused)).status === 'completed');
    expect((await caller.get(refused)).result).toEqual({ content: [{ type: 'text', text: 'no' }], isError: true });
    const [broken, secret] = [await caller.get(ids[0]!), await caller.get(ids[1]!)];
    expect(broken).toMatchObject({
      status: 'failed',
      statusMessage: 'Broken.',
      error: { code: -32050, message: 'Broken.', data: { part: 7 } },
    });
    expect(broken).not.toHaveProperty('result');
    expect(secret).toMatchObject({ status: 'completed', result: { isError: true } });
  });
});

describe('a client that did not declare the extension', () => {
  const extensions = (of: object) => ({ extensions: of });

  it('a client that did not declare the extension has its call served as ever', async () => {
    const { caller, tools } = await started();
    tools.door.open();
    const undeclared = [
      {},
      extensions({}),
      extensions({ other: {} }),
      extensions(Object.create({ [TASKS]: {} }) as object),
    ];
    for (const capabilities of undeclared) {
      caller.capabilities = capabilities;
      const { result } = await caller.call('slow', { label: 'A' });
      expect(result).toMatchObject({ resultType: 'complete', content: [{ text: 'done A' }] });
    }
    expect(tools.seen).toEqual(undeclared.map(() => 'begun as a call'));
  });

  it('T1: a client that did not declare the extension is refused by a tool that must be a task: after its guards, and its schema', async () => {
    const { caller, tools, service } = await started();
    caller.capabilities = {};
    const { status, error } = await caller.call('must', { label: 'A' });
    const requiredCapabilities = { extensions: { [TASKS]: {} } };
    expect({ status, error }).toMatchObject({ status: 400, error: { code: -32021, data: { requiredCapabilities } } });
    expect((await caller.call('denied')).status).toBe(401);
    expect((await caller.call('must', { label: 7 })).result.isError).toBe(true);
    expect([tools.seen, await service.list()]).toEqual([[], []]);
  });

  it('a client that did not declare the extension is refused by the methods of tasks', async () => {
    const { caller } = await started();
    const id = await caller.begin('slow', { label: 'A' });
    caller.capabilities = {};
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { status, error } = await caller.ask(method, { taskId: id, inputResponses: {} });
      expect({ status, code: error.code }).toEqual({ status: 400, code: -32021 });
      expect(error.data.requiredCapabilities).toEqual({ extensions: { [TASKS]: {} } });
    }
  });
});

describe('a call becomes a task', () => {
  it('T1: a call becomes a task only if its guards and its schema accept it', async () => {
    const { caller, service, tools } = await started();
    expect((await caller.call('denied')).status).toBe(401);
    expect((await caller.call('slow', { label: 7 })).result).toMatchObject({ resultType: 'complete', isError: true });
    expect([await service.list(), tools.seen]).toEqual([[], []]);
  });

  it('a call becomes a task only if its tool has tasks, whatever "params.task" says', async () => {
    const { caller } = await started();
    const { result } = await caller.ask('tools/call', { name: 'plain', arguments: {}, task: { ttl: 1 } });
    expect(result).toMatchObject({ resultType: 'complete', content: [{ text: 'plain' }] });
  });

  it('a call becomes a task when it takes longer than "afterMs"', async () => {
    const { caller, tools, clock } = await started();
    const call = caller.call('late');
    await until(() => clock.pending > 2);
    await clock.advance(499);
    tools.door.open();
    expect((await call).result).toMatchObject({ resultType: 'complete', content: [{ text: 'late' }] });

    const other = await started();
    const slow = other.caller.call('late');
    await until(() => other.clock.pending > 2);
    await other.clock.advance(500);
    expect((await slow).result).toMatchObject({ resultType: 'task', ttlMs: 5_000, pollIntervalMs: 70 });
  });

  it('T1: a call that becomes a task asks in rounds before that, and through the task afterwards', async () => {
    const { caller } = await started();
    const round = await caller.call('asks_first');
    expect(round.result).toMatchObject({ resultType: 'input_required', inputRequests: { first: {} } });
    expect(round.result).not.toHaveProperty('taskId');
    const { result } = await caller.ask('tools/call', {
      name: 'asks_first',
      arguments: {},
      requestState: round.result.requestState,
      inputResponses: { first: accept({ yes: true }) },
    });
    expect(result.resultType).toBe('task');
    expect(result).not.toHaveProperty('requestState');
    const id = result.taskId as string;
    await until(async () => (await caller.get(id)).inputRequests?.second);
    await caller.update(id, { second: accept({ yes: false }) });
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.get(id)).result.content[0].text).toBe('task [{"yes":true},{"yes":false}]');
  });
});

@Injectable()
class Bounded {
  @Tool({ name: 'bounded', task: 'optional', maxResultBytes: 100 })
  bounded(): string {
    return 'x'.repeat(200);
  }
}

@Injectable()
class Agent {
  readonly doors = [gate(), gate()] as const;
  readonly callers: string[] = [];

  constructor(@Inject(McpToolCaller) private readonly tools: McpToolCaller) {}

  @Tool({ name: 'who' })
  who(@McpCtx() ctx: McpContext): string {
    return String(ctx.principal);
  }

  @Tool({ name: 'agent', task: 'optional' })
  async agent(): Promise<void> {
    const [first] = this.doors.map(async ({ promise }) => {
      await promise;
      const { content } = await this.tools.callTool('who');
      this.callers.push((content[0] as { text: string }).text);
    });
    await first;
  }
}

describe('a task', () => {
  it('a task calls other tools on behalf of its caller, which code that outlives it cannot', async () => {
    const { app, as } = await started({ providers: [TaskTools, Agent] });
    const { doors, callers } = app.get(Agent);
    const ann = await as('ann');
    const id = await ann.begin('agent');
    doors[0].open();
    await until(async () => (await ann.get(id)).status === 'completed');
    doors[1].open();
    await until(() => callers.length === 2);
    expect(callers).toEqual(['ann', 'undefined']);
  });

  it('a task limits its result by the option of the tool, but not the answer with the task', async () => {
    const { caller } = await started({ providers: [TaskTools, Bounded] });
    const id = await caller.begin('bounded');
    await until(async () => (await caller.get(id)).status === 'completed');
    const { result } = await caller.get(id);
    expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('the maximum is 100') }] });
  });

  it('T4: a task continues when its client has disconnected', async () => {
    const { caller, tools } = await started();
    const leaving = new AbortController();
    const response = await caller.post('tools/call', { name: 'slow', arguments: { label: 'A' } }, leaving.signal);
    const { result } = (await response.json()) as { result: { taskId: string } };
    leaving.abort();
    tools.door.open();
    await until(async () => (await caller.get(result.taskId)).status === 'completed');
    expect(tools.seen).toEqual(['begun as a task']);
  });

  it('a task reports its progress as a status message, at most once a second', async () => {
    const { caller, tools, clock } = await started();
    const id = await caller.begin('reports');
    await until(() => tools.reports$.observed);
    tools.report(1);
    await until(async () => (await caller.get(id)).statusMessage === '1 of 10');
    for (let n = 2; n <= 5; n++) tools.report(n, `step ${n}`);
    await clock.advance(900);
    expect((await caller.get(id)).statusMessage).toBe('1 of 10');
    await clock.advance(100);
    expect((await caller.get(id)).statusMessage).toBe('step 5');
    tools.reports$.next('the end');
    tools.reports$.complete();
    await until(async () => (await caller.get(id)).status === 'completed');
    expect(await caller.get(id)).not.toHaveProperty('statusMessage');
  });

  it('T6: a task is deleted after its time to live, and its handler is aborted', async () => {
    const { caller, tools, clock } = await started({ tasks: { ttlMs: 1_000 } });
    const id = await caller.begin('slow', { label: 'A' });
    await until(() => tools.seen.length === 1);
    await clock.advance(1_000);
    expect(tools.seen[1]).toMatch(/^aborted: .* has expired\.$/);
    expect(await caller.get(id)).toMatchObject({ code: -32602 });
  });

  it('T6: a task fails when the server stops', async () => {
    const { caller, tools, app, service } = await started();
    const id = await caller.begin('slow', { label: 'A' });
    await until(() => tools.seen.length === 1);
    await app.close();
    expect(tools.seen[1]).toBe('aborted: The server is shutting down.');
    expect(await service.get(id)).toMatchObject({ status: 'failed', error: { code: -32603 } });
  });
});

it('a call over stdio becomes a task, which the client can poll and subscribe to', async () => {
  const { app, tools, service } = await started();
  const client = await LineClient.of(app);
  const known = { extensions: { [TASKS]: {} } };
  const ask = (method: string, params: object) => client.answer(client.modern(method, params, known));
  const { taskId } = (await ask('tools/call', { name: 'slow', arguments: { label: 'A' } })).result;
  client.modern('subscriptions/listen', { notifications: { taskIds: [taskId] } }, known);
  await client.next({ method: 'notifications/subscriptions/acknowledged' });
  expect((await ask('tasks/get', { taskId })).result.status).toBe('working');
  tools.door.open();
  const { params } = await client.next({ method: 'notifications/tasks' });
  expect(params).toMatchObject({ taskId, status: 'completed', result: { content: [{ text: 'done A' }] } });
  await client.end();
  expect(service.running).toBe(0);
});

it('server/discover declares the extension of tasks', async () => {
  const { caller } = await started();
  const { result } = await caller.ask('server/discover');
  expect(result.capabilities.extensions).toEqual({ [TASKS]: {} });
  expect(result.capabilities).not.toHaveProperty('tasks');
});

it.each(['tasks/list', 'tasks/result'])('there is no method %s (T2)', async (method) => {
  const { caller } = await started();
  expect(await caller.ask(method, { taskId: 'x' })).toMatchObject({ status: 404, error: { code: -32601 } });
});
