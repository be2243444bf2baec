import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { OtelInstrumentation } from 'nestjs-mcp-streamable/otel';
import { InMemoryTaskStore } from 'nestjs-mcp-streamable/tasks';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { Telemetry } from '../otel/telemetry.js';
import { TestApp, serverInfo } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { Never } from '../support/users.js';
import { tasksApps, until } from '../tasks/tasks-app.js';
import { TaskTools } from '../tasks/task-tools.js';
import { PaymentTools, Records } from './audit-app.js';

describe('the audit of a call that becomes a task', () => {
  const start = tasksApps();

  it('the audit of a call that becomes a task has a record when the client gets the task, and one of its end with the same id', async () => {
    const records = new Records();
    const imports = [McpAuditModule.forRoot({ sink: records })];
    const { app, as } = await start({ imports, providers: [TaskTools] });
    const ann = await as('ann');
    const id = await ann.begin('slow', { label: 'x' });
    expect(records.all).toMatchObject([{ outcome: 'task', name: 'slow', taskId: id, arguments: { label: 'x' } }]);
    app.get(TaskTools).door.open();
    await until(async () => (await ann.get(id)).status === 'completed');
    await until(() => records.all.length > 1);
    expect(records.gists).toEqual(['task slow', 'served slow']);
    expect(records.all[1]).toMatchObject({ id: records.all[0]!.id, taskId: id, principal: 'ann', durationMs: 0 });
  });

  it('the audit of a call that becomes a task has the failure of a task whose result is too large', async () => {
    const records = new Records();
    const imports = [McpAuditModule.forRoot({ sink: records })];
    const { app, as } = await start({ imports, providers: [TaskTools], tasks: { maxResultBytes: 1_024 } });
    const ann = await as('ann');
    const id = await ann.begin('slow', { label: 'x'.repeat(2_000) });
    app.get(TaskTools).door.open();
    await until(async () => (await ann.get(id)).status === 'failed');
    await until(() => records.all.length > 1);
    expect(records.gists).toEqual(['task slow', 'failed slow -32603']);
  });

  it('the audit of a call that becomes a task has what its record says, if another node has ended it before its handler', async () => {
    const [records, store] = [new Records(), new InMemoryTaskStore(new ManualClock())];
    const imports = [McpAuditModule.forRoot({ sink: records })];
    const { app, as } = await start({ imports, providers: [TaskTools], tasks: { store } });
    const id = await (await as('ann')).begin('slow', { label: 'x' });
    await store.patch(id, ['working'], { status: 'cancelled', statusMessage: '', lastUpdatedAt: 0 });
    app.get(TaskTools).door.open();
    await until(() => records.all.length > 1);
    expect(records.gists).toEqual(['task slow', 'cancelled slow']);
  });

  it('the audit of a call that becomes a task has a cancelled one, and the cancellation', async () => {
    const records = new Records();
    const { as } = await start({ imports: [McpAuditModule.forRoot({ sink: records })], providers: [TaskTools] });
    const ann = await as('ann');
    const id = await ann.begin('slow', { label: 'x' });
    await ann.cancel(id);
    await until(() => records.all.length === 3);
    expect(records.gists.toSorted()).toEqual(['cancelled slow', 'served tasks/cancel', 'task slow']);
  });
});

describe('the audit of a traced call', () => {
  let telemetry: Telemetry;
  afterEach(() => telemetry.close());

  it('the audit of a traced call names the trace of the span, also where that of the client is not taken', async () => {
    telemetry = new Telemetry();
    const records = new Records();
    const instrumentation = new OtelInstrumentation({ acceptContext: false });
    const app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, instrumentation }),
        McpAuditModule.forRoot({ sink: records }),
      ],
      providers: [PaymentTools, Never],
    });
    const meta = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
    await new ModernClient(app.url).ask('tools/call', { name: 'close', arguments: {} }, { meta });
    const [span] = telemetry.named('tools/call close');
    expect(records.all[0]!.traceId).toBe(span!.spanContext().traceId);
    await app.close();
  });
});
