import { setTimeout as delay } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Greeting = z.object({ name: z.string() });
const Computation = z.object({ seconds: z.number(), label: z.string().optional() });
const Deletion = z.object({ filename: z.string() });

type Property = { type: 'string' } | { type: 'boolean' };
const form = (message: string, properties: Record<string, Property>) => ({
  message,
  requestedSchema: { type: 'object' as const, properties, required: Object.keys(properties) },
});

/** Tools whose calls become tasks, and one whose calls do not. */
@Injectable()
export class EverythingTasks {
  @Tool({ name: 'greet', description: 'Greets at once', inputSchema: Greeting })
  greet(@McpArgs() { name }: z.infer<typeof Greeting>): string {
    return `Hello, ${name}!`;
  }

  @Tool({ name: 'slow_compute', description: 'Takes its time', inputSchema: Computation, task: 'optional' })
  async compute(
    @McpArgs() { seconds, label = 'result' }: z.infer<typeof Computation>,
    @McpCtx() { signal }: McpContext,
  ): Promise<string> {
    await delay(seconds * 1_000, undefined, { signal });
    return `${label}: computed for ${seconds} s`;
  }

  @Tool({ name: 'failing_job', description: 'Fails after a while', task: 'required' })
  async fail(@McpCtx() { signal }: McpContext): Promise<object> {
    await delay(1_000, undefined, { signal });
    return { content: [{ type: 'text', text: 'The job has failed.' }], isError: true };
  }

  @Tool({ name: 'protocol_error_job', description: 'Ends with a JSON-RPC error', task: 'optional' })
  async break(@McpCtx() { signal }: McpContext): Promise<never> {
    await delay(200, undefined, { signal });
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'The job broke.');
  }

  @Tool({ name: 'confirm_delete', description: 'Asks before it deletes', inputSchema: Deletion, task: 'optional' })
  async confirm(@McpArgs() { filename }: z.infer<typeof Deletion>, @McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('confirm', form(`Delete ${filename}?`, { confirm: { type: 'boolean' } }));
    return answer.content?.['confirm'] === true ? `Deleted ${filename}.` : `Kept ${filename}.`;
  }

  @Tool({ name: 'multi_input', description: 'Asks two questions side by side', task: 'optional' })
  async inputs(@McpCtx() ctx: McpContext): Promise<string> {
    const answers = await Promise.all([
      ctx.elicit('first', form('Who confirms?', { name: { type: 'string' }, confirm: { type: 'boolean' } })),
      ctx.elicit('second', form('And who else?', { name: { type: 'string' }, confirm: { type: 'boolean' } })),
    ]);
    return JSON.stringify(answers.map(({ content }) => content));
  }

  @Tool({
    name: 'test_tool_with_task',
    description: 'Asks in a round before it becomes a task',
    task: { support: 'required', afterMs: Infinity },
  })
  async afterRound(@McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('user_name', form('What is your name?', { name: { type: 'string' } }));
    await ctx.startTask();
    await delay(200, undefined, { signal: ctx.signal });
    return `Hello, ${String(answer.content?.['name'])}!`;
  }
}
