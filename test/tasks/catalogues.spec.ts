import { Injectable } from '@nestjs/common';
import { type McpCaller, McpCatalogue, type McpCatalogueTool, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { afterEach, describe, expect, it } from 'vitest';
import { serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { eventually } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';

@McpCatalogue()
@Injectable()
class Plugins {
  list({ principal }: McpCaller): McpCatalogueTool[] {
    return principal === 'ann' ? [{ name: 'export', task: 'optional' }] : [];
  }
  call(name: string): string {
    return `${name} is done`;
  }
}

const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } };

describe('a tool of a catalogue with the option task', () => {
  let app: TestApp;
  afterEach(() => app.close());

  it('a tool of a catalogue with the option task becomes a task of its caller, and does not exist for others', async () => {
    app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard] }), McpTasksModule.forRoot()],
      providers: [Plugins],
    });
    const [ann, bob] = [new ModernClient(app.url, as('ann')), new ModernClient(app.url, as('bob'))];
    const { result } = await ann.ask('tools/call', { name: 'export' }, { capabilities });
    expect(result.resultType).toBe('task');
    const { taskId } = result;
    await eventually(async () => {
      const { result: task } = await ann.ask(
        'tasks/get',
        { taskId },
        { capabilities, headers: { 'mcp-name': taskId } },
      );
      expect(task).toMatchObject({ status: 'completed', result: { content: [{ text: 'export is done' }] } });
    });
    expect((await bob.ask('tools/call', { name: 'export' }, { capabilities })).error.code).toBe(-32602);
    expect((await bob.ask('tasks/get', { taskId }, { capabilities, headers: { 'mcp-name': taskId } })).error.code).toBe(
      -32602,
    );
  });
});
