import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpHealthIndicator, McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import { OtelInstrumentation } from 'nestjs-mcp-streamable/otel';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { createMcpTestClient, expectNothingLeft, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Telemetry } from '../otel/telemetry.js';
import { TaskTools } from './task-tools.js';

let app: NestFastifyApplication;
let mcp: McpTestClient;
let telemetry: Telemetry;
let registry: Registry;

beforeEach(async () => {
  telemetry = new Telemetry();
  registry = new Registry();
  const testing = await Test.createTestingModule({
    imports: [
      McpStreamableModule.forRoot({
        serverInfo: { name: 'kit', version: '1.0.0' },
        instrumentation: new OtelInstrumentation(),
      }),
      McpTasksModule.forRoot(),
      McpPrometheusModule.forRoot({ registry }),
    ],
    providers: [TaskTools],
  }).compile();
  app = testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
  mcp = await createMcpTestClient(app, {
    era: 'modern',
    elicit: ({ message }) => ({ action: 'accept', content: { yes: message === 'A?' } }),
  });
});
afterEach(async () => {
  await mcp.close();
  await expectNothingLeft(app);
  await app.close();
  await telemetry.close();
});

it('callTool() of the kit returns the result of a task, and answers what it asks', async () => {
  const { text } = await mcp.callTool('asks');
  expect(text).toBe('[{"yes":true},{"yes":false},{"yes":false}]');
  const reports = mcp.callTool('reports');
  const tools = app.get(TaskTools);
  await expect.poll(() => tools.reports$.observed).toBe(true);
  for (const at of [1, 2, 3]) tools.report(at, `step ${at}`);
  await expect.poll(() => telemetry.named('tasks/get').length).toBeGreaterThan(5);
  tools.reports$.next('the end');
  tools.reports$.complete();
  const { text: end, progress } = await reports;
  expect(end).toBe('the end');
  // Each report as the handler made it, though clients poll the last one alone.
  expect(progress).toMatchObject([1, 2, 3].map((at) => ({ progress: at, message: `step ${at}` })));
});

it('callTool() of the kit returns the progress that a task reports just before it ends', async () => {
  const call = mcp.callTool('reports');
  const tools = app.get(TaskTools);
  await expect.poll(() => tools.reports$.observed).toBe(true);
  tools.report(1, 'the last step');
  tools.reports$.next('the end');
  tools.reports$.complete();
  expect((await call).progress).toMatchObject([{ progress: 1, message: 'the last step' }]);
});

it('the kit without tasks calls a tool as a client does that does not support them', async () => {
  const plain = await createMcpTestClient(app, { era: 'modern', tasks: false });
  const tools = app.get(TaskTools);
  const call = plain.callTool('slow', { label: 'A' });
  await expect.poll(() => app.get(McpSessionService).nodeCounts().inFlight).toBe(1);
  expect(app.get(McpSessionService).nodeCounts().tasks).toBe(0);
  tools.door.open();
  expect((await call).text).toBe('done A');
  expect(telemetry.named('tasks/get')).toEqual([]);
  await plain.close();
});

it('the counts of a node include its tasks, for health checks, Prometheus and expectNothingLeft()', async () => {
  const tools = app.get(TaskTools);
  const call = mcp.callTool('slow', { label: 'A' });
  const service = app.get(McpSessionService);
  await expect.poll(() => service.nodeCounts().tasks).toBe(1);
  expect(await app.get(McpHealthIndicator).check()).toMatchObject({ mcp: { status: 'up', tasks: 1 } });
  expect(await registry.metrics()).toContain('mcp_server_tasks{endpoint="mcp"} 1');
  await expect(expectNothingLeft(app, { withinMs: 10 })).rejects.toThrow(/tasks: 1/);
  tools.door.open();
  expect((await call).text).toBe('done A');
  expect(await registry.metrics()).toContain('mcp_server_tasks{endpoint="mcp"} 0');
});

it('spans and metrics name the methods of tasks, but no task id', async () => {
  app.get(TaskTools).door.open();
  const { text } = await mcp.callTool('slow', { label: 'A' });
  expect(text).toBe('done A');
  const [get] = telemetry.named('tasks/get');
  expect(get!.attributes).toMatchObject({ 'mcp.method.name': 'tasks/get', 'mcp.protocol.version': '2026-07-28' });
  const points = await telemetry.points('mcp.server.operation.duration');
  const labels = points.map(({ attributes }) => attributes['mcp.method.name']);
  expect(labels).toEqual(expect.arrayContaining(['tools/call', 'tasks/get']));
  const id = /[A-Za-z0-9]{22}/;
  expect(JSON.stringify(points)).not.toMatch(id);
  expect((await registry.metrics()).match(/mcp_method_name="tasks\/get"/g)).not.toBeNull();
});
