import { McpRegistry } from 'nestjs-mcp-streamable';
import { expect, it } from 'vitest';
import { TaskTools } from './task-tools.js';
import { tasksApps, until } from './tasks-app.js';

const start = tasksApps();

it('a tool that is switched off makes no task; tasks that run continue, and can be read', async () => {
  const { app, as, service } = await start({ providers: [TaskTools] });
  const ann = await as('ann');
  const id = await ann.begin('slow', { label: 'x' });
  await app.get(McpRegistry).disable('slow', { reason: 'Too much to do.' });
  const { result } = await ann.call('slow', { label: 'y' });
  expect(result).toMatchObject({
    resultType: 'complete',
    isError: true,
    content: [{ text: 'The tool "slow" is switched off: Too much to do.' }],
  });
  expect(service.running).toBe(1);
  app.get(TaskTools).door.open();
  await until(async () => (await ann.get(id)).status === 'completed');
});
