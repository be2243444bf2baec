import { setTimeout as delay } from 'node:timers/promises';
import { Injectable, UnprocessableEntityException } from '@nestjs/common';
import type { CallToolResult } from '@modelcontextprotocol/server';
import {
  InjectMcp,
  McpArgs,
  type McpContext,
  McpCtx,
  McpRegistry,
  Tool,
  type ToolEvent,
  toolLog,
  toolProgress,
} from 'nestjs-mcp-streamable';
import { concat, concatMap, delay as delayed, of, type Observable } from 'rxjs';
import { z } from 'zod';
import { DEFAULTS, ENUMS, JSON_SCHEMA_2020_12, PNG, WAV } from './everything.data.js';

const image = { type: 'image', data: PNG, mimeType: 'image/png' } as const;
const text = (value: string) => ({ type: 'text', text: value }) as const;

/** Tools that answer at once. */
@Injectable()
export class ContentTools {
  @Tool({ name: 'test_simple_text', description: 'Answers with a text' })
  simpleText(): string {
    return 'This is a simple text response for testing.';
  }

  @Tool({ name: 'test_image_content', description: 'Answers with an image' })
  imageContent(): CallToolResult {
    return { content: [image] };
  }

  @Tool({ name: 'test_audio_content', description: 'Answers with audio' })
  audioContent(): CallToolResult {
    return { content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] };
  }

  @Tool({ name: 'test_embedded_resource', description: 'Answers with an embedded resource' })
  embeddedResource(): CallToolResult {
    const resource = {
      uri: 'test://embedded-resource',
      mimeType: 'text/plain',
      text: 'This is an embedded resource content.',
    };
    return { content: [{ type: 'resource', resource }] };
  }

  @Tool({ name: 'test_multiple_content_types', description: 'Answers with a text, an image and a resource' })
  multipleContentTypes(): CallToolResult {
    const json = JSON.stringify({ test: 'data', value: 123 });
    const resource = { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: json };
    return { content: [text('Multiple content types:'), image, { type: 'resource', resource }] };
  }

  @Tool({ name: 'test_error_handling', description: 'Fails' })
  errorHandling(): never {
    throw new UnprocessableEntityException('This tool intentionally returns an error for testing.');
  }

  @Tool({
    name: 'json_schema_2020_12_tool',
    description: 'Has a schema with everything',
    inputSchema: JSON_SCHEMA_2020_12,
  })
  jsonSchema(@McpArgs() args: Record<string, unknown>): string {
    return `called with ${JSON.stringify(args)}`;
  }
}

/** Tools that talk while they work. */
@Injectable()
export class TalkingTools {
  @Tool({ name: 'test_tool_with_progress', description: 'Reports progress' })
  progress(): Observable<ToolEvent<string>> {
    const reports = of(0, 50, 100).pipe(concatMap((progress) => of(toolProgress(progress, 100)).pipe(delayed(50))));
    return concat(reports, of('Progress is complete.'));
  }

  @Tool({ name: 'test_tool_with_logging', description: 'Logs' })
  async *logging(): AsyncIterable<ToolEvent<string>> {
    yield toolLog('info', 'Tool execution started');
    await delay(50);
    yield toolLog('info', 'Tool processing data');
    await delay(50);
    yield toolLog('info', 'Tool execution completed');
    yield 'Logging is complete.';
  }

  @Tool({ name: 'test_reconnection', description: 'Closes its own stream; the client comes back for the answer' })
  async reconnection(@McpCtx() ctx: McpContext): Promise<string> {
    ctx.closeStream();
    await delay(100);
    return 'The answer after a reconnection.';
  }

  @Tool({ name: 'test_logging_tool', description: 'Logs if the request wants it' })
  async requestLogging(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.log('info', 'A message that only those get who asked for it');
    return 'Logged.';
  }
}

/** Tools that ask the client. */
@Injectable()
export class AskingTools {
  @Tool({ name: 'test_sampling', description: 'Asks the model', inputSchema: z.object({ prompt: z.string() }) })
  async sampling(@McpArgs() { prompt }: { prompt: string }, @McpCtx() ctx: McpContext): Promise<string> {
    const result = await ctx.sample('answer', { messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 });
    const content = Array.isArray(result.content) ? result.content[0] : result.content;
    return `LLM response: ${content?.type === 'text' ? content.text : ''}`;
  }

  @Tool({ name: 'test_elicitation', description: 'Asks the user', inputSchema: z.object({ message: z.string() }) })
  async elicitation(@McpArgs() { message }: { message: string }, @McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('user', {
      message,
      requestedSchema: {
        type: 'object',
        properties: { username: { type: 'string' }, email: { type: 'string' } },
        required: ['username', 'email'],
      },
    });
    return `User response: action=${answer.action}, content=${JSON.stringify(answer.content)}`;
  }

  @Tool({ name: 'test_elicitation_sep1034_defaults', description: 'Asks with defaults' })
  async defaults(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = { type: 'object' as const, properties: DEFAULTS, required: [] };
    const answer = await ctx.elicit('defaults', { message: 'Please check the defaults', requestedSchema });
    return `Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content)}`;
  }

  @Tool({ name: 'test_elicitation_sep1330_enums', description: 'Asks with every kind of enum' })
  async enums(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = { type: 'object' as const, properties: ENUMS, required: [] };
    const answer = await ctx.elicit('enums', { message: 'Please choose', requestedSchema: requestedSchema as never });
    return `Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content)}`;
  }
}

/** Tools that make the lists change. */
@Injectable()
export class ChangingTools {
  constructor(@InjectMcp(McpRegistry) private readonly registry: McpRegistry) {}

  @Tool({ name: 'test_trigger_tool_change', description: 'Makes the list of tools change, and change back' })
  toolChange(): string {
    this.registry.registerTool({ name: 'test_passing_tool', handler: () => 'passing' }).remove();
    return 'The tools have changed.';
  }

  @Tool({ name: 'test_trigger_prompt_change', description: 'Makes the list of prompts change, and change back' })
  promptChange(): string {
    this.registry.registerPrompt({ name: 'test_passing_prompt', handler: () => 'passing' }).remove();
    return 'The prompts have changed.';
  }
}
