import type { INestApplication, ModuleMetadata, Provider } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { McpTaskService, McpTasksModule, type McpTasksOptions } from 'nestjs-mcp-streamable/tasks';
import { createAppFetch, expectNothingLeft, ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterAll, afterEach, expect } from 'vitest';
import type { Adapter } from '../support/adapters.js';
import { MODERN, modernMeta } from '../support/modern-client.js';
import { isSame } from '../support/test-apps.js';
import { TaskTools } from './task-tools.js';
import { LIMIT_MS } from '../support/eventually.js';

export const TASKS = 'io.modelcontextprotocol/tasks';

/** How long a task is kept by default, and a tick. */
const LIFE_MS = 610_000;

export interface TasksAppOptions {
  readonly adapter?: Adapter;
  readonly endpoint?: Partial<Parameters<typeof McpStreamableModule.forRoot>[0]>;
  readonly tasks?: McpTasksOptions;
  readonly providers?: Provider[];
  readonly imports?: ModuleMetadata['imports'];
  /** @default a clock that stands still */
  readonly clock?: ManualClock;
}

/** An app whose tools become tasks, without a port, in fake time. */
export interface TasksApp {
  readonly app: INestApplication;
  readonly clock: ManualClock;
  readonly service: McpTaskService;
  /** A caller; without a name the anonymous one. */
  as(user?: string): Promise<TaskCaller>;
}

/**
 * Starts apps; each is closed after its test, with nothing of its tasks left. Those of equal options are one if `shared` says so, and
 * are closed after the last test; their `TaskTools` begin anew.
 */
export function tasksApps({ shared = false } = {}): (options: TasksAppOptions) => Promise<TasksApp> {
  const kept: { readonly options: TasksAppOptions; readonly its: TasksApp }[] = [];
  const used: TasksApp[] = [];
  afterEach(async () => {
    const ending = used.splice(0);
    for (const { service } of ending) {
      // One that was closed by its test has no store any more.
      for (const { id } of await service.list().catch(() => [])) await service.cancel(id);
    }
    for (const { clock } of ending) await clock.advance(10_000);
    for (const { app, service } of ending) {
      await until(() => service.running === 0);
      // Of a clock that several apps share it is not known whose its timers are.
      if (ending.length === 1) await expectNothingLeft(app);
    }
    if (!shared) return closeAll(ending);
    for (const each of ending) {
      const closed = each.app.get(McpSessionService)['sessions'].closing;
      if (closed)
        kept.splice(
          kept.findIndex(({ its }) => its === each),
          1,
        );
      // Its tasks are forgotten.
      else await each.clock.advance(LIFE_MS);
    }
  });
  afterAll(() => closeAll(kept.map(({ its }) => its)));
  return async (options) => {
    const free = kept.find((each) => !used.includes(each.its) && isSame(each.options, options));
    if (free) Object.assign(free.its.app.get(TaskTools), new TaskTools());
    const its = free?.its ?? (await started(options));
    if (shared && !free) kept.push({ options, its });
    used.push(its);
    return its;
  };
}

async function started({
  adapter = 'fastify',
  endpoint,
  tasks,
  providers = [],
  imports = [],
  clock = new ManualClock(),
}: TasksAppOptions): Promise<TasksApp> {
  const testing = await Test.createTestingModule({
    imports: [
      McpStreamableModule.forRoot({
        serverInfo: { name: 'tasks', version: '1.0.0' },
        principal: ({ headers }: { headers: Record<string, string> }) => headers['x-user'],
        ...endpoint,
      }),
      McpTasksModule.forRoot(tasks),
      ...imports,
    ],
    providers,
  })
    .overrideProvider(McpClock)
    .useValue(clock)
    .compile();
  const app =
    adapter === 'express'
      ? testing.createNestApplication(new ExpressAdapter(), { logger: false })
      : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter(), { logger: false });
  await app.init();
  return {
    app,
    clock,
    service: app.get(McpTaskService, { strict: false }),
    as: async (user) => new TaskCaller(await createAppFetch(app), user),
  };
}

async function closeAll(apps: readonly TasksApp[]): Promise<void> {
  for (const { app } of apps) await app.close();
  for (const { clock } of apps) expect(clock.pending).toBe(0);
}

/** What came of a request. */
interface Answer {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  readonly result: any;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  readonly error: any;
}

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** A client of revision 2026-07-28 that declares tasks, and sends what a test tells it to. */
export class TaskCaller {
  #lastId = 0;
  capabilities: object = { elicitation: { form: {} }, extensions: { [TASKS]: {} } };

  constructor(
    readonly fetch: Fetch,
    readonly user?: string,
    readonly url = 'http://localhost/mcp',
  ) {}

  async ask(method: string, params: Record<string, unknown> = {}): Promise<Answer> {
    const response = await this.post(method, params);
    const text = await response.text();
    const last = text.startsWith('{') ? text : text.slice(text.lastIndexOf('data: ') + 6);
    const { result, error } = JSON.parse(last) as Answer;
    return { status: response.status, result, error };
  }

  post(method: string, params: Record<string, unknown>, signal?: AbortSignal): Promise<Response> {
    const _meta = { ...modernMeta(), 'io.modelcontextprotocol/clientCapabilities': this.capabilities };
    const named = params['taskId'] ?? params['name'];
    return this.fetch(this.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': MODERN,
        'mcp-method': method,
        ...(typeof named === 'string' && { 'mcp-name': named }),
        ...(this.user && { 'x-user': this.user }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++this.#lastId, method, params: { ...params, _meta } }),
      ...(signal && { signal }),
    });
  }

  /** Calls a tool. */
  call(name: string, args: object = {}): Promise<Answer> {
    return this.ask('tools/call', { name, arguments: args });
  }

  /** Calls a tool, which must become a task. @returns its id */
  async begin(name: string, args: object = {}): Promise<string> {
    const { result, error } = await this.call(name, args);
    if (result?.resultType !== 'task') throw new Error(`no task: ${JSON.stringify(result ?? error)}`);
    return result.taskId as string;
  }

  /** What `tasks/get` says. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  async get(taskId: string): Promise<any> {
    const { result, error } = await this.ask('tasks/get', { taskId });
    return result ?? error;
  }

  async update(taskId: string, inputResponses: object): Promise<Answer> {
    return this.ask('tasks/update', { taskId, inputResponses });
  }

  async cancel(taskId: string): Promise<Answer> {
    return this.ask('tasks/cancel', { taskId });
  }

  /** Listens to tasks. @returns the messages that have come so far; `close` goes away */
  async listen(taskIds: unknown, more: object = {}): Promise<Heard> {
    const leaving = new AbortController();
    const params = { notifications: { taskIds, ...more } };
    const response = await this.post('subscriptions/listen', params, leaving.signal);
    if (response.status !== 200) throw new Error(`listen: ${response.status} ${await response.text()}`);
    let text = '';
    const reading = (async () => {
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) text += chunk;
    })().catch(() => {});
    const heard = (): Message[] => [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data!));
    return Object.assign(heard, {
      close: async () => {
        leaving.abort();
        await reading;
      },
    });
  }
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
type Message = any;
/** What a client that listens has heard. */
type Heard = (() => Message[]) & { close(): Promise<void> };

/** The answer to a form. */
export const accept = (content: object): object => ({ action: 'accept', content });

/** Settles when a condition holds; for what happens behind an answer. */
export async function until(holds: () => unknown): Promise<void> {
  // By the clock: how many turns Redis takes depends on the load of the machine.
  for (const deadline = performance.now() + LIMIT_MS; performance.now() < deadline;) {
    if (await holds()) return;
    await new Promise((resolve) => void setImmediate(resolve));
  }
  throw new Error('It does not come to hold.');
}

/** Turns of the event loop in which what was asked for in the process has come to an end. */
export async function someTurns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => void setImmediate(resolve));
}
