import { Injectable, type OnModuleInit } from '@nestjs/common';
import { inputRequired, ProtocolError } from '@modelcontextprotocol/server';
import type {
  CallToolResult,
  GetPromptResult,
  InputRequiredResult,
  ReadResourceResult,
} from '@modelcontextprotocol/server';
import {
  Complete,
  InjectMcp,
  McpArgs,
  type McpContext,
  McpCtx,
  McpRegistry,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import type { z } from 'zod';
import * as served from './served.js';

type Args = Record<string, unknown>;

/** What needs no method of its own is registered, and stands in the lists behind what is decorated. */
@Injectable()
export class Tables implements OnModuleInit {
  constructor(@InjectMcp(McpRegistry) private readonly registry: McpRegistry) {}

  onModuleInit(): void {
    for (const [name, result] of Object.entries(served.RESULTS)) {
      this.registry.registerTool({ name, description: `The tool ${name}`, handler: () => result });
    }
    for (const { name, schema: outputSchema, result } of served.ANY_TOOLS) {
      this.registry.registerTool({ name, outputSchema, handler: () => result });
    }
    for (const [name, rounds] of Object.entries(served.ASKING)) {
      this.registry.registerTool({ name, handler: (_args: unknown, ctx: McpContext) => ask(ctx, rounds) });
    }
    for (const [uri, result] of Object.entries(served.CONTENTS)) {
      this.registry.registerResource({ uri, name: uri, description: `The resource ${uri}`, handler: () => result });
    }
    for (const [name, error] of Object.entries(served.THROWN)) {
      const handler = () => {
        throw error();
      };
      this.registry.registerPrompt({ name, handler });
    }
  }
}

async function ask(
  ctx: McpContext,
  rounds: readonly (readonly (keyof typeof served.QUESTIONS)[])[],
): Promise<CallToolResult> {
  const answers: Args = {};
  for (const keys of rounds) {
    Object.assign(answers, await ctx.ask(Object.fromEntries(keys.map((key) => [key, served.QUESTIONS[key]]))));
  }
  return served.echoed(answers);
}

@Injectable()
export class OurTools {
  @Tool({ name: 'add', title: 'Adds', description: 'Adds two numbers', inputSchema: served.Numbers })
  add(@McpArgs() { a, b }: z.infer<typeof served.Numbers>): CallToolResult {
    return served.said(String(a + b));
  }

  @Tool({ name: 'strict', inputSchema: served.Strict, annotations: { readOnlyHint: true } })
  strict(@McpArgs() args: Args): CallToolResult {
    return served.echoed(args);
  }

  @Tool({ name: 'optional', inputSchema: served.Optional, _meta: { 'example.com/y': [1] } })
  optional(@McpArgs() args: Args): CallToolResult {
    return served.echoed(args);
  }

  @Tool({ name: 'dialect', inputSchema: served.DIALECT })
  dialect(@McpArgs() args: Args): CallToolResult {
    return served.echoed(args);
  }

  @Tool({ name: 'headers', inputSchema: served.HEADERS })
  headers(@McpArgs() args: Args): CallToolResult {
    return served.echoed(args);
  }

  @Tool({ name: 'sum', inputSchema: served.Numbers, outputSchema: served.Sum })
  sum(@McpArgs() { a, b }: z.infer<typeof served.Numbers>): CallToolResult {
    return { ...served.said(`sum ${a + b}`), structuredContent: { sum: a + b } };
  }

  @Tool({ name: 'wrong_sum', outputSchema: served.Sum })
  wrongSum(): CallToolResult {
    return { ...served.said('wrong'), structuredContent: { sum: 'many' } };
  }

  @Tool({ name: 'no_sum', outputSchema: served.Sum })
  noSum(): CallToolResult {
    return served.said('none');
  }

  @Tool({ name: 'failed_sum', outputSchema: served.Sum })
  failedSum(): CallToolResult {
    return { ...served.said('no sum today'), isError: true };
  }

  @Tool({ name: 'throws' })
  throws(): never {
    throw new Error('internal detail');
  }

  @Tool({ name: 'throws_protocol' })
  throwsProtocol(): never {
    throw new ProtocolError(-32602, 'not like this', { why: 'example' });
  }

  @Tool({ name: 'not_a_result' })
  notAResult(): CallToolResult {
    return { content: [{ type: 'nothing' }] } as never;
  }

  @Tool({ name: 'half_a_result' })
  halfAResult(): CallToolResult {
    return { content: [{ type: 'image', data: 'not base64!', mimeType: 'image/png' }], _meta: 1 } as never;
  }

  @Tool({ name: 'client' })
  client(@McpCtx() { clientCapabilities }: McpContext): CallToolResult {
    return served.echoed(clientCapabilities);
  }

  @Tool({ name: 'steps' })
  async steps(@McpCtx() ctx: McpContext): Promise<CallToolResult> {
    await ctx.progress(1, 2);
    await ctx.progress({ progress: 2, total: 2, message: 'half' });
    return served.said('stepped');
  }

  @Tool({ name: 'talks' })
  async talks(@McpCtx() ctx: McpContext): Promise<CallToolResult> {
    await ctx.log('debug', 'a detail');
    await ctx.log('warning', { code: 1 }, 'talker');
    return served.said('talked');
  }

  @Tool({ name: 'keeps' })
  keeps(@McpCtx() ctx: McpContext): CallToolResult | InputRequiredResult {
    if (ctx.requestState === undefined) return inputRequired({ requestState: 'kept' });
    return served.said(`it was ${ctx.requestState}`);
  }

  @Tool({ name: 'returned' })
  returned(@McpCtx() { inputResponses }: McpContext): CallToolResult | InputRequiredResult {
    return served.returned(inputResponses);
  }

  @Tool({ name: 'throws_page' })
  throwsPage(): never {
    throw served.THROWN['throws_page']!();
  }

  @Tool({ name: 'no_content' })
  noContent(): CallToolResult {
    return { structuredContent: { seen: true } } as never;
  }

  @Tool({ name: 'talks_and_asks' })
  async talksAndAsks(@McpCtx() ctx: McpContext): Promise<CallToolResult> {
    await ctx.progress(1);
    return ask(ctx, [['name']]);
  }
}

@Injectable()
export class OurResources {
  @Resource({ uri: 'app://fails', name: 'fails' })
  fails(): never {
    throw new Error('internal detail');
  }

  @Resource({ uri: 'app://cached', name: 'cached', mimeType: 'text/plain', cache: { ttlMs: 5000, scope: 'public' } })
  cached(): ReadResourceResult {
    return { contents: [{ uri: 'app://cached', mimeType: 'text/plain', text: 'cached' }] };
  }

  @ResourceTemplate({ uriTemplate: 'app://items/{id}', name: 'items', title: 'Items', mimeType: 'application/json' })
  item(@McpArgs() { uri, id }: { uri: string; id: string }): ReadResourceResult {
    return served.itemContents(uri, id);
  }

  @Complete({ template: 'app://items/{id}', argument: 'id' })
  completeItem(): string[] {
    return served.manyCompleted();
  }

  @ResourceTemplate({ uriTemplate: 'app://asked/{id}', name: 'asked' })
  async asked(
    @McpArgs() { uri, id }: { uri: string; id: string },
    @McpCtx() ctx: McpContext,
  ): Promise<ReadResourceResult> {
    await ctx.ask({ name: served.QUESTIONS.name });
    return served.itemContents(uri, id);
  }
}

@Injectable()
export class OurPrompts {
  @Prompt({ name: 'simple', description: 'A simple prompt' })
  simple(): GetPromptResult {
    return served.SIMPLE_PROMPT;
  }

  @Prompt({ name: 'greet', title: 'Greets', inputSchema: served.Greeting })
  greet(@McpArgs() args: z.infer<typeof served.Greeting>): GetPromptResult {
    return served.greeting(args);
  }

  @Complete({ prompt: 'greet', argument: 'name' })
  completeName(value: string): string[] {
    return served.completed(value);
  }

  @Prompt({ name: 'fails' })
  fails(): never {
    throw new Error('internal detail');
  }

  @Prompt({ name: 'ask_prompt' })
  async askPrompt(@McpCtx() ctx: McpContext): Promise<GetPromptResult> {
    const { name } = await ctx.ask({ name: served.QUESTIONS.name });
    return { messages: [{ role: 'user', content: served.text(JSON.stringify(name)) }] };
  }
}

export const OUR_PROVIDERS = [Tables, OurTools, OurResources, OurPrompts];
