import { describe, expect, it, vi } from 'vitest';
import { deferred } from '../common/promises.js';
import { DivertedCalls } from '../calls/diverted-calls.js';
import { type CallingClient, type DivertedClient, McpCall } from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import type { McpCallEnd } from '../calls/mcp-instrumentation.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import type { McpRun, McpRunHooks } from './mcp-plugin.js';
import { PluginRound, PluginRun } from './run-hooks.js';

const TARGET = {
  kind: 'tool',
  key: 'slow',
  origin: 'Tools.slow',
  metadata: [],
  option: () => undefined,
} satisfies McpHandlerTarget;
const REFUSED = 'The call cannot be diverted: only a plugin of the ring "task" can do so';
const identity = { protocolVersion: '2026-07-28', capabilities: {}, clientInfo: { name: 'a', version: '1' } };

class Task implements DivertedClient {
  readonly id = 'x';
  readonly createdAt = 0;
  readonly asks = false;
  readonly asksAtOnce = true;
  readonly handle = { taskId: 'x' };
  readonly over = deferred<McpCallEnd>();
  readonly end = this.over.promise;
  readonly heard: unknown[] = [];
  identity = () => identity;
  wantsLog = () => false;
  progress(report: object): void {
    this.heard.push(report);
  }
  async request(...[{ method }, , , { key }]: Parameters<DivertedClient['request']>): Promise<unknown> {
    this.heard.push([method, key]);
    return { roots: [] };
  }
  cancel = vi.fn(async () => true);
}

/** One run of a handler that is as the test wants, with a plugin that may divert its call. */
function setup(hooks: (run: McpRun) => McpRunHooks = () => ({}), { isMarked = false, diverts = true } = {}) {
  const sent: unknown[] = [];
  const from: CallingClient = {
    identity: () => identity,
    wantsLog: () => true,
    notify: async (message) => void sent.push(message),
    request: async (question) => void sent.push(question),
  };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} } as const;
  const held = { share: vi.fn(), release: vi.fn() };
  const call = new McpCall({ era: 'modern', principal: undefined, request: {}, held }, message, from, {} as never);
  call.place = { leave: vi.fn() };
  const [over, asked] = [vi.fn(), vi.fn()];
  call.hooks = { over, asked } as never;
  const diverted = new DivertedCalls();
  const hooked = {
    target: TARGET,
    aroundRounds: [hooks],
    inRounds: [],
    inResults: [],
    ...(diverts && { diverted }),
  };
  const asking = { isMarked, takeRequestState: () => undefined, ask: async () => ({}) };
  const run = new PluginRun(hooked, call, {}, asking, async () => {});
  const round = new PluginRound(run);
  const handler = deferred<object>();
  const begin = async (): Promise<object> =>
    run.serve(() =>
      round.serve(async () => {
        await round.enter({ validArguments: {}, context: {} as McpContext });
        return handler.promise;
      }),
    );
  /** Answers the client, as the calls of an endpoint do. */
  const answered = (): void => {
    call.answered();
    call.release();
  };
  return {
    call,
    run,
    diverted,
    handler,
    begin,
    sent,
    held,
    over,
    asked,
    place: call.place,
    answered,
    task: new Task(),
  };
}

describe('a call that is diverted', () => {
  const diverted = async () => {
    const made: ReturnType<typeof setup> = setup((run) => ({ entering: () => run.divertTo(made.task) }));
    const result = await made.begin();
    made.answered();
    return { ...made, result };
  };

  it('a call that is diverted is answered with the handle, and its handler goes on', async () => {
    const { result, task, call, diverted: calls } = await diverted();
    expect(result).toBe(task.handle);
    expect([call.handle, call.isServed, call.asksAtOnce, [...calls]]).toEqual([
      task.handle,
      true,
      true,
      [[call, task]],
    ]);
  });

  it('a call that is diverted ends its new client when it is cancelled before it is answered, and not later', async () => {
    const { call, task } = await diverted();
    call.cancelled(new Error('gone'));
    expect(task.cancel).not.toHaveBeenCalled();
    const made: ReturnType<typeof setup> = setup((run) => ({ entering: () => run.divertTo(made.task) }));
    await made.begin();
    made.task.cancel.mockRejectedValue(new Error('The store is away.'));
    made.call.cancelled(new Error('gone'));
    expect(made.task.cancel).toHaveBeenCalledOnce();
  });

  it('a call that is diverted sends questions and progress to the new client, and neither logs nor notifications; plugins hear the questions', async () => {
    const { call, task, sent, asked } = await diverted();
    const question = { key: 'r', embedded: { method: 'roots/list' } as const, accept: () => ({}) };
    expect(await call.ask({ method: 'roots/list' }, {}, question).catch(String)).toEqual({ roots: [] });
    expect(call.progress({ progress: 1 })).toBe(true);
    expect(call.wantsLog('error')).toBe(false);
    await call.notify({ method: 'notifications/message' });
    expect([task.heard, sent]).toEqual([[['roots/list', 'r'], { progress: 1 }], []]);
    expect(asked).toHaveBeenCalledWith({ method: 'roots/list' }, expect.any(Promise));
  });

  it('a call that is diverted holds its body until the new client has ended, and its place until its handler has settled', async () => {
    const { call, task, handler, held, place, over, diverted: calls } = await diverted();
    const end = { outcome: 'cancelled', error: new Error('It was cancelled.') } as McpCallEnd;
    expect([held.release.mock.calls.length, call.aborted]).toEqual([0, false]);
    task.over.resolve(end);
    await task.end;
    expect([held.release.mock.calls.length, call.isServed, calls.count]).toEqual([1, false, 0]);
    expect(call.signal.reason).toBe(end.error);
    expect(over).toHaveBeenCalledWith(end, ['ended']);
    expect(place.leave).not.toHaveBeenCalled();
    handler.resolve({});
    await vi.waitFor(() => expect(place.leave).toHaveBeenCalledOnce());
  });

  it('a call that is diverted aborts only when the new client was cancelled', async () => {
    const { call, task } = await diverted();
    task.over.resolve({ outcome: 'ok' } as McpCallEnd);
    await task.end;
    expect([call.aborted, call.isServed]).toEqual([false, false]);
  });

  it('a call that is diverted in the turn of its result is answered with the handle', async () => {
    const made: ReturnType<typeof setup> = setup((run) => ({
      around: async (next) => {
        const result = await next();
        run.divertTo(made.task);
        return result;
      },
    }));
    made.handler.resolve({ content: [] });
    expect(await made.begin()).toBe(made.task.handle);
  });
});

describe('a call cannot be diverted', () => {
  it.each<[string, (made: ReturnType<typeof setup>) => Promise<unknown>]>([
    ['before its round is entered', async ({ run, task }) => run.divertTo(task)],
    [
      'after its run',
      async ({ run, task, begin, handler }) => {
        handler.resolve({});
        await begin();
        run.divertTo(task);
      },
    ],
    [
      'twice',
      async ({ run, task, begin }) => {
        const result = begin();
        await Promise.resolve();
        run.divertTo(task);
        await result;
        run.divertTo(task);
      },
    ],
    [
      'when its client is gone',
      async ({ run, call, task, begin }) => {
        void begin();
        await Promise.resolve();
        call.cancelled(new Error('gone'));
        run.divertTo(task);
      },
    ],
  ])('a call cannot be diverted %s', async (_, act) => {
    const made = setup();
    await expect(act(made)).rejects.toThrow(REFUSED);
  });

  it('a call cannot be diverted when it ends with questions, and by a plugin of another ring', async () => {
    for (const options of [{ isMarked: true }, { diverts: false }]) {
      const { run, task, begin, diverted } = setup(undefined, options);
      void begin();
      await Promise.resolve();
      expect(() => run.divertTo(task)).toThrow(REFUSED);
      expect(diverted.count).toBe(0);
    }
  });
});
