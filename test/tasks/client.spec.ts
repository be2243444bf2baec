import { Test, type TestingModule } from '@nestjs/testing';
import {
  getMcpToken,
  McpClient,
  McpClientModule,
  type McpClientOptions,
  type McpToolCallEvent,
} from 'nestjs-mcp-streamable/client';
import { createAppFetch, type ManualClock } from 'nestjs-mcp-streamable/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { afterEach, expect, it } from 'vitest';
import { TaskTools } from './task-tools.js';
import { type TasksApp, type TasksAppOptions, tasksApps, until } from './tasks-app.js';

const start = tasksApps();
const modules: TestingModule[] = [];
afterEach(async () => {
  for (const module of modules.splice(0)) await module.close();
});

/** A client of an app, in the same time. */
const connected = async (options: Partial<McpClientOptions> = {}, of: TasksAppOptions = {}) => {
  const made = await start({ providers: [TaskTools], ...of });
  const fetch = await createAppFetch(made.app);
  const orders: McpClientOptions = {
    url: 'http://localhost/mcp',
    fetch,
    clock: made.clock,
    client: { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    ...options,
  };
  const module = await Test.createTestingModule({
    imports: [McpClientModule.forRoot({ clients: { orders } })],
  }).compile();
  modules.push(module);
  return { ...made, client: module.get<McpClient>(getMcpToken(McpClient, 'orders')), tools: made.app.get(TaskTools) };
};

/** Lets time pass until a promise has settled. */
async function passing<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  const state = { settled: false };
  const end = (): void => void (state.settled = true);
  promise.then(end, end);
  for (let step = 0; step < 200 && !state.settled; step++) await clock.advance(250);
  return promise;
}
const working = ({ service }: TasksApp) => until(async () => (await service.counts()).working === 1);

it('the client waits for the result of a task, however long it takes', async () => {
  const { client, clock, tools, ...app } = await connected();
  const result = client.callTool('slow', { label: 'A' }, { timeout: 5_000 });
  await working({ clock, ...app });
  // Longer than the timeout: each poll begins it anew.
  await clock.advance(20_000);
  tools.door.open();
  expect((await passing(clock, result)).content).toEqual([{ type: 'text', text: 'done A' }]);
});

it('the Observable of callTool() emits the status messages of the task', async () => {
  const { client, clock, tools, ...app } = await connected();
  const events = lastValueFrom(client.callTool$('reports').pipe(toArray()));
  await until(() => tools.reports$.observed);
  await working({ clock, ...app });
  tools.report(1, 'first');
  await clock.advance(3_000);
  tools.report(2, 'second');
  await clock.advance(3_000);
  tools.reports$.next('the end');
  tools.reports$.complete();
  const gist = (event: McpToolCallEvent) => (event.type === 'progress' ? event.message : event.result.content);
  expect((await passing(clock, events)).map(gist)).toEqual(['first', 'second', [{ type: 'text', text: 'the end' }]]);
});

it('the progress of callTool() has the status messages of the task', async () => {
  const { client, clock, tools, ...app } = await connected();
  const said: (string | undefined)[] = [];
  const result = client.callTool('reports', {}, { onprogress: ({ message }) => said.push(message) });
  await until(() => tools.reports$.observed);
  await working({ clock, ...app });
  tools.report(1, 'first');
  await clock.advance(5_000);
  tools.reports$.next('the end');
  tools.reports$.complete();
  expect((await passing(clock, result)).content).toEqual([{ type: 'text', text: 'the end' }]);
  expect(said).toEqual(['first']);
});

it('questions of a task are answered by the handlers of the client', async () => {
  const asked: unknown[] = [];
  const { client, clock } = await connected({
    client: {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
      capabilities: { elicitation: { form: {} } },
    },
    configure: (official) =>
      official.setRequestHandler('elicitation/create', ({ params }) => {
        asked.push(params.message);
        return { action: 'accept', content: { yes: asked.length > 1 } };
      }),
  });
  const { content } = await passing(clock, client.callTool('asks'));
  expect(content).toEqual([{ type: 'text', text: '[{"yes":false},{"yes":true},{"yes":true}]' }]);
  expect(asked).toEqual(['A?', 'B?', 'C?']);
});

it('a client that unsubscribes cancels the task', async () => {
  const { client, clock, tools, service } = await connected();
  const call = client.callTool$('slow', { label: 'A' }).subscribe();
  await working({ clock, service } as TasksApp);
  await clock.advance(1_500);
  call.unsubscribe();
  await until(() => tools.seen.length === 2);
  expect((await service.list())[0]!.status).toBe('cancelled');
});

it('the client throws when the task fails, or is cancelled by another client', async () => {
  const { client, clock, tools, service } = await connected();
  tools.door.open();
  await expect(passing(clock, client.callTool('breaks'))).rejects.toMatchObject({
    code: -32050,
    message: expect.stringContaining('Broken.'),
    data: { part: 7 },
  });
  const other = await connected();
  const slow = other.client.callTool('slow', { label: 'A' });
  await working(other);
  await other.service.cancel((await other.service.list())[0]!.id);
  await expect(passing(other.clock, slow)).rejects.toThrow(/was cancelled/);
  expect(await service.counts()).toMatchObject({ failed: 1, running: 0 });
});

it('a client with tasks turned off gets an ordinary answer', async () => {
  const { client, tools, service } = await connected({ tasks: false });
  tools.door.open();
  expect((await client.callTool('slow', { label: 'A' })).content).toEqual([{ type: 'text', text: 'done A' }]);
  expect([tools.seen, await service.list()]).toEqual([['begun as a call'], []]);
});

it('a client in a session gets no task', async () => {
  const { client, clock, tools, service } = await connected({ client: {} });
  tools.door.open();
  expect((await client.callTool('slow', { label: 'A' })).content).toEqual([{ type: 'text', text: 'done A' }]);
  expect([tools.seen, await service.list()]).toEqual([['begun as a call'], []]);
  await client.close();
  await clock.advance(1_000);
});
