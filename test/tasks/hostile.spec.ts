import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import {
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpRegistry,
  Tool,
} from 'nestjs-mcp-streamable';
import { type OAuthTokenVerifier, RequireScopes } from 'nestjs-mcp-streamable/auth';
import { InMemoryTaskStore, type McpTaskStore } from 'nestjs-mcp-streamable/tasks';
import { createAppFetch, ManualClock } from 'nestjs-mcp-streamable/testing';
import { type Observable, retry } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { NodeBackend } from '../support/node-backend.js';
import { gate } from '../support/app.js';
import { addressGuard, from as fromAddress } from '../support/users.js';
import { question, TaskTools } from './task-tools.js';
import { accept, TaskCaller, someTurns, TASKS, type TasksAppOptions, tasksApps, until } from './tasks-app.js';

const start = tasksApps({ shared: true });
const started = async (options: TasksAppOptions = {}) => {
  const made = await start({ providers: [TaskTools], ...options });
  return { ...made, tools: made.app.get(TaskTools), caller: await made.as() };
};
const METHODS = ['tasks/get', 'tasks/update', 'tasks/cancel'];
const ask = (taskId: unknown) => ({ taskId, inputResponses: { a: accept({ yes: true }) } });

describe('a task of another caller', () => {
  it('T5: a task of another caller is unknown at the path of another tenant, also of the same caller', async () => {
    const { caller } = await started({ endpoint: { path: ':tenant/mcp' } });
    const tenant = (name: string) => new TaskCaller(caller.fetch, 'ann', `http://localhost/${name}/mcp`);
    const [acme, umbrella] = [tenant('acme'), tenant('umbrella')];
    const id = await acme.begin('slow', { label: 'A' });
    for (const method of METHODS) expect((await umbrella.ask(method, ask(id))).error).toMatchObject({ code: -32602 });
    expect((await acme.get(id)).status).toBe('working');
    const heard = await umbrella.listen([id]);
    await until(() => heard().length > 0);
    expect(heard()[0].params.notifications.taskIds ?? []).toEqual([]);
    await heard.close();
  });

  it('T5: a task of another caller is unknown, with the error of a task that does not exist', async () => {
    const { as, tools } = await started();
    const [ann, bob, anonymous] = [await as('ann'), await as('bob'), await as()];
    const id = await ann.begin('slow', { label: 'A' });
    const unknown = 'x'.repeat(22);
    for (const other of [bob, anonymous])
      for (const method of METHODS) {
        const [foreign, none] = [await other.ask(method, ask(id)), await other.ask(method, ask(unknown))];
        expect({
          ...foreign,
          error: { ...foreign.error, message: foreign.error.message.replace(id, unknown) },
        }).toEqual(none);
        expect(none.error.code).toBe(-32602);
      }
    expect((await ann.get(id)).status).toBe('working');
    expect(tools.seen).toHaveLength(1);
  });

  it('T5, T7: a task of another caller is visible to its caller only', async () => {
    const { as, tools } = await started();
    const [ann, bob] = [await as('ann'), await as('bob')];
    const [hers, his] = [await ann.begin('slow', { label: 'A' }), await bob.begin('slow', { label: 'B' })];
    const heard = await bob.listen([hers, his, 'x'.repeat(22), hers]);
    await until(() => heard().length === 1);
    expect(heard()[0].params.notifications).toEqual({ taskIds: [his] });
    tools.door.open();
    await until(() => heard().length === 2);
    expect(heard()[1].params.taskId).toBe(his);
    await until(async () => (await ann.get(hers)).status === 'completed');
    expect(heard()).toHaveLength(2);
    await heard.close();
  });
});

@Injectable()
class Payroll {
  @Tool({ name: 'pay', task: 'optional' })
  @RequireScopes('payroll:run')
  pay(@McpCtx() { signal }: McpContext): Promise<string> {
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  }
}

/** Pays as a plugin does. @param isAway whether its list cannot be made */
function pluginsOf(isAway = () => false) {
  @McpCatalogue()
  @Injectable()
  class Plugins {
    list(): McpCatalogueTool[] {
      if (isAway()) throw new Error('The database is away.');
      return [{ name: 'pay', task: 'optional', scopes: ['payroll:run'] }];
    }
    call(_name: string, _args: object, context: McpContext): Promise<string> {
      return new Payroll().pay(context);
    }
  }
  return Plugins;
}

describe('a task of a tool with scopes, for a token of the same caller', () => {
  const verifier: OAuthTokenVerifier = {
    verifyAccessToken: (token) =>
      Promise.resolve({
        token,
        clientId: 'app',
        scopes: token === 'wide' ? ['payroll:run'] : [],
        extra: { sub: 'ann' },
      }),
  };
  const auth = { resource: 'https://mcp.test/mcp', authorizationServers: ['https://idp.test'], verifier };
  const bearing = (fetch: TaskCaller['fetch'], token: string): TaskCaller =>
    new TaskCaller((input, init) => {
      const headers = { ...(init?.headers as Record<string, string>), authorization: `Bearer ${token}` };
      return fetch(input, { ...init, headers });
    });
  const paying = async (options: TasksAppOptions = {}) => {
    const endpoint = { auth, principal: undefined };
    const { fetch } = (await started({ providers: [TaskTools, Payroll], endpoint, ...options })).caller;
    return { wide: bearing(fetch, 'wide'), narrow: bearing(fetch, 'narrow') };
  };
  const refusal = async (response: Response) => {
    const { error } = (await response.json()) as { error: object };
    return { status: response.status, challenge: response.headers.get('www-authenticate'), error };
  };

  it('T5, A7: what is asked of a task whose scopes the token lacks is refused as the call is', async () => {
    const { wide, narrow } = await paying();
    const id = await wide.begin('pay');
    for (const method of METHODS) {
      const refused = await refusal(await narrow.post(method, ask(id)));
      expect(refused).toEqual(await refusal(await narrow.post('tools/call', { name: 'pay', arguments: {} })));
      expect(refused).toMatchObject({
        status: 403,
        challenge: expect.stringMatching(/error="insufficient_scope".*scope="payroll:run".*resource_metadata=/),
        error: { code: -32000, data: { scopes: ['payroll:run'] } },
      });
      expect((await wide.get(id)).status).toBe('working');
      expect((await wide.ask(method, ask(id))).status).toBe(200);
    }
  });

  it('T5, T7: a task whose scopes the token lacks is left out of a subscription', async () => {
    const { wide, narrow } = await paying();
    const id = await wide.begin('pay');
    for (const [caller, honored] of [
      [wide, [id]],
      [narrow, []],
    ] as const) {
      const heard = await caller.listen([id]);
      await until(() => heard().length > 0);
      expect(heard()[0].params.notifications.taskIds ?? []).toEqual(honored);
      await heard.close();
    }
  });

  it('T5, D44: what is asked of a task of a catalogue is refused for want of scopes, though the list of the token was not known', async () => {
    const { wide, narrow } = await paying({ providers: [TaskTools, pluginsOf()] });
    const id = await wide.begin('pay');
    const refused = await refusal(await narrow.post('tasks/get', ask(id)));
    expect(refused).toMatchObject({ status: 403, error: { code: -32000, data: { scopes: ['payroll:run'] } } });
    for (const method of METHODS) {
      expect(await refusal(await narrow.post(method, ask(id)))).toEqual(refused);
      expect((await wide.ask(method, ask(id))).status).toBe(200);
    }
    const heard = await narrow.listen([id]);
    await until(() => heard().length > 0);
    expect(heard()[0].params.notifications.taskIds ?? []).toEqual([]);
    await heard.close();
  });

  it('T5, D44: what is asked of a task of a catalogue is refused while the list of the token cannot be made', async () => {
    let away = false;
    const { wide, narrow } = await paying({ providers: [TaskTools, pluginsOf(() => away)] });
    const id = await wide.begin('pay');
    away = true;
    for (const method of METHODS) {
      const response = await narrow.post(method, ask(id));
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
      expect((await wide.ask(method, ask(id))).status).toBe(200);
    }
  });

  it('T5: a task is served to a caller without the scopes by an app that no longer has the tool', async () => {
    const clock = new ManualClock();
    const shared = { clock, tasks: { store: new InMemoryTaskStore(clock) } };
    const id = await (await paying(shared)).wide.begin('pay');
    const { narrow } = await paying({ ...shared, providers: [TaskTools] });
    for (const method of METHODS) expect((await narrow.ask(method, ask(id))).status).toBe(200);
  });
});

/** Names of `Object.prototype`, separators, patterns, and texts that are empty, short or long. */
const FORGED_IDS = [
  'constructor',
  '__proto__',
  'hasOwnProperty',
  'toString',
  'a:b',
  'a:b:c',
  'b:c',
  '{a}b',
  '*',
  'line\nbreak',
  'ünï-😀-\u2028',
  'x'.repeat(5_000),
  '',
  'a'.repeat(21),
  '-'.repeat(22),
];

describe('a malformed task id', () => {
  it('a malformed task id is refused, also while the store is unavailable', async () => {
    const store = new InMemoryTaskStore();
    const backend = new NodeBackend();
    const { caller } = await started({ tasks: { store: backend.over(store) } });
    backend.away();
    for (const [id, method] of FORGED_IDS.flatMap((forged) => METHODS.map((each) => [forged, each] as const))) {
      // Headers cannot say everything; what they say is checked elsewhere.
      const answer = await caller.ask(method, ask(id)).catch(() => undefined);
      if (answer) expect([-32602, -32020]).toContain(answer.error.code);
    }
    backend.back();
  });

  it('a malformed task id is refused also when it is no text', async () => {
    const { caller } = await started();
    for (const id of [undefined, null, 7, ['x'], { toString: 'x' }])
      for (const method of METHODS) expect((await caller.ask(method, ask(id))).error.code).toBeLessThan(-32000);
  });
});

@Injectable()
class Again implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(retry(2));
  }
}

@Injectable()
class Retried {
  readonly runs: string[] = [];

  @Tool({ name: 'retried', task: 'optional' })
  @UseInterceptors(Again)
  retried(@McpCtx() ctx: McpContext): string {
    if (this.runs.push(String(ctx.task?.id)) === 1) throw new Error('The first run fails.');
    return `run ${this.runs.length} of ${this.runs.at(-1)}`;
  }
}

describe('the caps of tasks', () => {
  it('T5: the caps of tasks refuse a task above them, and its handler does not run', async () => {
    const { as, caller, tools, service } = await started({
      tasks: { maxTasks: 5, maxTasksPerPrincipal: 2, maxAnonymousTasks: 2 },
    });
    const [ann, bob, carl] = [await as('ann'), await as('bob'), await as('carl')];
    for (let n = 0; n < 2; n++) await ann.begin('slow', { label: 'A' });
    const next = await ann.call('slow', { label: 'A' });
    expect(next).toMatchObject({
      status: 429,
      error: { message: expect.stringContaining('"maxTasksPerPrincipal"') },
    });
    for (let n = 0; n < 2; n++) await caller.begin('slow', { label: 'x' });
    const third = await caller.call('slow', { label: 'x' });
    expect(third).toMatchObject({ status: 429, error: { message: expect.stringContaining('"maxAnonymousTasks"') } });
    await bob.begin('slow', { label: 'B' });
    const last = await carl.call('slow', { label: 'C' });
    expect(last).toMatchObject({ status: 429, error: { message: expect.stringContaining('"maxTasks"') } });
    expect([tools.seen.length, (await service.list()).length]).toEqual([5, 5]);
  });

  it('T5: the anonymous callers of one address have the tasks of a principal, and leave the rest to other addresses', async () => {
    const { app, caller, tools } = await started({
      endpoint: { guards: [addressGuard] },
      tasks: { maxTasksPerPrincipal: 2, maxAnonymousTasks: 9 },
    });
    const fetch = await createAppFetch(app);
    const from = (address: string) =>
      new TaskCaller((input, init) =>
        fetch(input, {
          ...init,
          headers: { ...Object.fromEntries(new Headers(init?.headers)), ...fromAddress(address) },
        }),
      );
    const [one, same, other] = [from('2001:db8::1'), from('2001:db8::2'), from('2001:db8:0:1::1')];
    const id = await one.begin('slow', { label: 'A' });
    await same.begin('slow', { label: 'A' });
    const refused = await one.call('slow', { label: 'A' });
    expect(refused).toMatchObject({ status: 429, error: { message: expect.stringContaining('of one address') } });
    await other.begin('slow', { label: 'B' });
    await caller.begin('slow', { label: 'C' });
    expect(tools.seen).toHaveLength(4);
    // The id alone is the right to a task: its caller may come from another address.
    expect((await other.get(id)).status).toBe('working');
  });

  it('T5: the caps of tasks refuse the task as often as an interceptor tries again', async () => {
    const { app, caller } = await started({ providers: [TaskTools, Retried], tasks: { maxTasks: 1 } });
    const { runs } = app.get(Retried);
    const id = await caller.begin('retried');
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.get(id)).result.content[0].text).toBe(`run 2 of ${id}`);
    expect((await caller.call('retried')).status).toBe(429);
    expect(runs).toHaveLength(2);
  });

  it('the caps of tasks leave a call an ordinary one that would become a task above them', async () => {
    const { caller, tools, clock } = await started({ tasks: { maxTasks: 1 } });
    await caller.begin('slow', { label: 'A' });
    const call = caller.call('late');
    await until(() => clock.pending > 3);
    await clock.advance(500);
    tools.door.open();
    expect((await call).result).toMatchObject({ resultType: 'complete', content: [{ text: 'late' }] });
  });

  it('the caps of tasks make a task fail whose result is too large', async () => {
    const { caller } = await started({ tasks: { maxResultBytes: 1_000 } });
    const [small, large] = [await caller.begin('large', { bytes: 900 }), await caller.begin('large', { bytes: 1_000 })];
    await until(async () => (await caller.get(large)).status === 'failed');
    expect((await caller.get(small)).status).toBe('completed');
    const { error } = await caller.get(large);
    expect(error).toMatchObject({ code: -32603, message: expect.stringContaining('"maxResultBytes"') });
  });

  it('the caps of tasks of results bound the result of a task, and not the answer that creates it', async () => {
    const { caller } = await started({ endpoint: { maxResultBytes: 100 } });
    const id = await caller.begin('large', { bytes: 200 });
    await until(async () => (await caller.get(id)).status === 'completed');
    const { result } = await caller.get(id);
    expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('the maximum is 100') }] });
  });
});

const Text = z.object({ text: z.string() });

@Injectable()
class Asker {
  keys: string[] = [];

  @Tool({ name: 'ask_keys', task: 'optional', inputSchema: z.object({ keys: z.array(z.string()) }) })
  async ask(@McpArgs() { keys }: { keys: string[] }, @McpCtx() ctx: McpContext): Promise<string> {
    const answers = await Promise.all(keys.map((key) => ctx.elicit(key, { message: key, requestedSchema: Text })));
    return JSON.stringify(answers.map(({ content }) => content?.['text']));
  }
}

describe('answers to the questions of a task', () => {
  it('answers under names of Object.prototype are accepted like any other', async () => {
    const { app, caller } = await started({ providers: [TaskTools, Asker] });
    expect(app.get(Asker)).toBeDefined();
    const keys = ['constructor', 'toString', 'hasOwnProperty', '0'];
    const id = await caller.begin('ask_keys', { keys });
    await until(async () => (await caller.get(id)).status === 'input_required');
    expect(Object.keys((await caller.get(id)).inputRequests).toSorted()).toEqual(keys.toSorted());
    // Nothing that is inherited is an answer.
    await caller.update(id, {});
    await caller.update(
      id,
      JSON.parse('{"__proto__":{"constructor":{"action":"accept","content":{"text":"x"}}}}') as object,
    );
    expect(Object.keys((await caller.get(id)).inputRequests)).toHaveLength(4);
    for (const key of keys) await caller.update(id, { [key]: accept({ text: key }) });
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.get(id)).result.content[0].text).toBe(JSON.stringify(keys));
  });

  it('answers to the questions of a task are an object', async () => {
    const { caller } = await started();
    const taskId = await caller.begin('asks');
    for (const inputResponses of [undefined, null, 'x', 7, [accept({})]])
      expect((await caller.ask('tasks/update', { taskId, inputResponses })).error).toMatchObject({
        code: -32602,
        message: expect.stringContaining('params.inputResponses'),
      });
  });

  it('T3: answers to the questions of a task that are malformed leave the question open, and those that do not fit make the task ask again under another key', async () => {
    const { caller } = await started({ providers: [TaskTools, Asker] });
    const id = await caller.begin('ask_keys', { keys: ['a'] });
    const open = async () => Object.keys((await caller.get(id)).inputRequests ?? {});
    await until(async () => (await open()).length === 1);
    await caller.update(id, { a: 'x', b: accept({ text: 'b' }) });
    await caller.update(id, { a: { method: 'elicitation/create', result: accept({ text: 'a' }) } });
    expect(await open()).toEqual(['a']);
    await caller.update(id, { a: accept({ text: 7 }) });
    await until(async () => (await open())[0] === 'a-2');
    await caller.update(id, { a: accept({ text: 'late' }), 'a-2': accept({ text: 'right' }) });
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.get(id)).result.content[0].text).toBe('["right"]');
  });

  it('T3: answers to the questions of a task that are too large are refused, and leave the question open', async () => {
    const { caller, service } = await started({ tasks: { maxResultBytes: 1_000 } });
    const id = await caller.begin('asks');
    await until(async () => (await caller.get(id)).status === 'input_required');
    const refused = await caller.update(id, { a: accept({ yes: 'x'.repeat(1_000) }) });
    expect(refused).toMatchObject({ status: 413, error: { message: expect.stringContaining('"maxResultBytes"') } });
    expect(await service.get(id)).toMatchObject({ status: 'input_required', answers: {} });
    await caller.update(id, { a: accept({ yes: true }), other: accept({ large: 'x'.repeat(1_000) }) });
    expect(Object.keys((await caller.get(id)).inputRequests)).toEqual(['b']);
  });

  it('answers to the questions of a task that never fit are requested eight times', async () => {
    const { caller } = await started({ providers: [TaskTools, Asker] });
    const id = await caller.begin('ask_keys', { keys: ['a'] });
    for (let n = 1; n <= 8; n++) {
      const key = n === 1 ? 'a' : `a-${n}`;
      await until(async () => (await caller.get(id)).inputRequests?.[key]);
      await caller.update(id, { [key]: accept({}) });
    }
    await until(async () => (await caller.get(id)).status === 'completed');
    expect((await caller.get(id)).result).toMatchObject({ isError: true });
  });

  it('answers to the questions of a task that a client cannot give are not requested, and the task fails', async () => {
    const { caller } = await started();
    caller.capabilities = { extensions: { [TASKS]: {} } };
    const id = await caller.begin('asks');
    await until(async () => (await caller.get(id)).status === 'failed');
    expect((await caller.get(id)).error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { form: {} } } },
    });
  });
});

describe('a subscription to tasks', () => {
  it('a subscription to tasks has an array of ids, not too many', async () => {
    const { caller } = await started();
    for (const taskIds of [7, { 0: 'x' }, [7], Array.from({ length: 1_001 }, (_, n) => `${n}`)])
      await expect(caller.listen(taskIds)).rejects.toThrow(/400 .*-32602/);
  });

  it('T7: a subscription to tasks needs a client that declares tasks', async () => {
    const { caller } = await started();
    caller.capabilities = {};
    await expect(caller.listen(['x'])).rejects.toThrow(/400 .*-32021.*requiredCapabilities/);
  });

  it('T7: a subscription to tasks is notified of a task at most once a second with its current state, and of its end', async () => {
    const { caller, tools, clock } = await started();
    const id = await caller.begin('reports');
    const heard = await caller.listen([id], { toolsListChanged: true });
    await until(() => heard().length === 1 && tools.reports$.observed);
    expect(heard()[0].params.notifications).toEqual({ toolsListChanged: true, taskIds: [id] });
    const said = () =>
      heard()
        .slice(1)
        .map(({ params }: { params: { statusMessage?: string } }) => params.statusMessage);
    for (let n = 0; n < 30; n++) {
      tools.report(n, `${n}`);
      await clock.advance(100);
    }
    await until(() => said().length >= 3);
    expect(said().length).toBeLessThanOrEqual(4);
    tools.reports$.next('the end');
    tools.reports$.complete();
    await until(async () => (await caller.get(id)).status === 'completed');
    await clock.advance(1_000);
    await until(() => heard().at(-1).params.status === 'completed');
    const last = heard().at(-1);
    expect(last).toMatchObject({
      method: 'notifications/tasks',
      params: { taskId: id, status: 'completed', result: { content: [{ text: 'the end' }] } },
    });
    expect(last.params._meta['io.modelcontextprotocol/subscriptionId']).toBeDefined();
    await heard.close();
  });

  it('a subscription to tasks begins with the end of a task that has ended before', async () => {
    const { caller, tools } = await started();
    const id = await caller.begin('slow', { label: 'A' });
    tools.door.open();
    await until(async () => (await caller.get(id)).status === 'completed');
    const heard = await caller.listen([id]);
    await until(() => heard().length === 2);
    expect(heard()[1].params.status).toBe('completed');
    await heard.close();
  });

  it('a subscription to tasks leaves nothing behind when its client leaves', async () => {
    const { caller, clock, service } = await started();
    const id = await caller.begin('slow', { label: 'A' });
    const heard = await caller.listen([id]);
    const pending = clock.pending;
    await service.cancel(id);
    await heard.close();
    await until(() => clock.pending < pending);
  });
});

describe('an unavailable store', () => {
  const faulty = async () => {
    const backend = new NodeBackend();
    const clock = new ManualClock();
    const store: McpTaskStore = new InMemoryTaskStore(clock);
    return { ...(await started({ clock, tasks: { store: backend.over(store) } })), backend, store };
  };

  it('an unavailable store makes no task, and no handler runs', async () => {
    const { caller, backend, tools } = await faulty();
    backend.away();
    expect(await caller.call('slow', { label: 'A' })).toMatchObject({ status: 503 });
    expect((await caller.ask('tasks/get', ask('x'.repeat(22)))).status).toBe(503);
    backend.back();
    expect(tools.seen).toEqual([]);
  });

  it('an unavailable store makes each method of McpTaskService reject with a typed error that names its error', async () => {
    const { service, backend } = await faulty();
    backend.away();
    const id = 'x'.repeat(22);
    const calls = [service.list(), service.get(id), service.cancel(id), service.counts()];
    const cause = expect.objectContaining({ message: expect.stringMatching(/backend is away/) }) as Error;
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'McpError', code: 'UNAVAILABLE', cause } });
    }
    backend.back();
  });

  it('an unavailable store gets the end of a task when it is back', async () => {
    const { caller, backend, tools, clock } = await faulty();
    const id = await caller.begin('slow', { label: 'A' });
    await until(() => tools.seen.length === 1);
    backend.away();
    tools.door.open();
    await clock.advance(1_000);
    backend.back();
    expect((await caller.get(id)).status).toBe('working');
    await clock.advance(5_000);
    expect((await caller.get(id)).result).toMatchObject({ content: [{ text: 'done A' }] });
  });

  it('an unavailable store gets the result of a task, and no failure, from a node that stops before it could store it', async () => {
    const { app, caller, backend, store, tools, clock } = await faulty();
    const id = await caller.begin('slow', { label: 'A' });
    await until(() => tools.seen.length === 1);
    backend.refuse('patch');
    const { pending } = clock;
    tools.door.open();
    // The next attempt has a timer.
    await until(() => clock.pending > pending);
    backend.back();
    await app.close();
    expect(await store.get(id)).toMatchObject({ status: 'completed', result: { content: [{ text: 'done A' }] } });
  });

  it('an unavailable store whose answer to the creation was lost keeps no task without a running handler', async () => {
    const { caller, backend, store, tools, clock } = await faulty();
    const running = await caller.begin('slow', { label: 'A' });
    backend.loseAnswers('create');
    expect((await caller.call('slow', { label: 'B' })).status).toBe(503);
    backend.back();
    expect(tools.seen).toHaveLength(1);
    const orphan = (await store.list()).find(({ id }) => id !== running)!;
    expect(orphan.status).toBe('working');
    await clock.advance(5_000);
    expect((await store.get(orphan.id))!.status).toBe('failed');
    expect((await store.get(running))!.status).toBe('working');
  });

  it.each(['slow', 'registered'])(
    'a client that leaves while its task is being stored leaves none behind (%s)',
    async (name) => {
      const { app, caller, backend, store, tools } = await faulty();
      app.get(McpRegistry).registerTool({
        name: 'registered',
        task: 'optional',
        handler: () => {
          tools.seen.push('registered');
          return 'x';
        },
      });
      backend.pause();
      const leaving = new AbortController();
      const call = caller.post('tools/call', { name, arguments: { label: 'A' } }, leaving.signal);
      await until(() => backend.waiting > 0);
      leaving.abort();
      await call.catch(() => {});
      await someTurns();
      const removed = vi.spyOn(store, 'delete');
      backend.back();
      await until(() => removed.mock.results.length === 1);
      await removed.mock.results[0]!.value;
      await someTurns();
      expect([await store.list(), tools.seen]).toEqual([[], []]);
    },
  );
});

describe('a question and "afterMs"', () => {
  /** A tool asks while its task is being stored, or when it is stored. */
  const asking = async () => {
    const backend = new NodeBackend();
    const clock = new ManualClock();
    const store: McpTaskStore = new InMemoryTaskStore(clock);
    const made = await started({ clock, tasks: { store: backend.over(store) } });
    const { door } = made.tools;
    made.app.get(McpRegistry).registerTool({
      name: 'asks_late',
      task: { afterMs: 500 },
      handler: async (_, ctx) => {
        await door.promise;
        return JSON.stringify((await ctx.elicit('late', question('Late?'))).content);
      },
    });
    const call = made.caller.call('asks_late');
    await until(() => clock.pending > 2);
    backend.pause();
    await clock.advance(500);
    await until(() => backend.waiting > 0);
    return { ...made, backend, clock, store, call, door };
  };

  it('T1: a question that comes while the task is being stored is a round, and no task is left', async () => {
    const { backend, store, call, door } = await asking();
    const removed = vi.spyOn(store, 'delete');
    door.open();
    expect((await call).result).toMatchObject({ resultType: 'input_required', inputRequests: { late: {} } });
    backend.back();
    await until(() => removed.mock.results.length === 1);
    await removed.mock.results[0]!.value;
    expect(await store.list()).toEqual([]);
  });

  it('T1: a question that comes when the task is stored goes through the task', async () => {
    const { caller, backend, call, door } = await asking();
    backend.back();
    const { result } = await call;
    expect(result).toMatchObject({ resultType: 'task' });
    door.open();
    await until(async () => (await caller.get(result.taskId)).inputRequests?.late);
    await caller.update(result.taskId, { late: accept({ yes: true }) });
    await until(async () => (await caller.get(result.taskId)).status === 'completed');
    expect((await caller.get(result.taskId)).result.content[0].text).toBe('{"yes":true}');
  });
});

describe('a change of a task while its record is read', () => {
  const slow = async () => {
    const clock = new ManualClock();
    const store = new InMemoryTaskStore(clock);
    const door = gate();
    const get = store.get.bind(store);
    /** Some of the next reads return what was there when they began, as soon as the test lets them. */
    const hold = (...which: number[]) => {
      let reads = 0;
      return vi.spyOn(store, 'get').mockImplementation(async (id) => {
        const held = which.includes(reads++);
        const record = await get(id);
        if (held) await door.promise;
        return record;
      });
    };
    return { ...(await started({ clock, tasks: { store } })), get, hold, release: () => door.open() };
  };

  it('a change of a task while its record is read is sent to its subscriber', async () => {
    const { caller, tools, clock, get, hold, release } = await slow();
    const id = await caller.begin('reports');
    const heard = await caller.listen([id]);
    await until(() => heard().length === 1 && tools.reports$.observed);
    // The task itself reads first.
    const reads = hold(0, 1);
    tools.report(1);
    await until(() => reads.mock.calls.length === 2);
    tools.reports$.next('the end');
    tools.reports$.complete();
    await until(async () => (await get(id))!.status === 'completed');
    release();
    await until(() => heard().length === 2);
    await clock.advance(1_000);
    await until(() => heard().length === 3);
    expect(heard().map(({ params }) => params.status)).toEqual([undefined, 'working', 'completed']);
    await heard.close();
  });

  it('a change of a task while its record is read reaches the handler that waits for it', async () => {
    const { caller, get, hold, release } = await slow();
    const id = await caller.begin('asks');
    await until(async () => (await get(id))!.status === 'input_required');
    // The request reads first.
    const reads = hold(1);
    await caller.update(id, { a: accept({ yes: true }) });
    await until(() => reads.mock.calls.length === 2);
    await caller.update(id, { b: accept({ yes: true }) });
    release();
    await until(async () => 'c' in (await get(id))!.questions);
  });
});
