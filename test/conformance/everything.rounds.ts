import { Injectable } from '@nestjs/common';
import type { ElicitResult } from '@modelcontextprotocol/server';
import { McpArgs, type McpContext, McpCtx, Prompt, Tool } from 'nestjs-mcp-streamable';

type Properties = Record<string, { type: 'string' } | { type: 'boolean' }>;

/** A form whose fields are all required. */
function form(message: string, properties: Properties) {
  const requestedSchema = { type: 'object' as const, properties, required: Object.keys(properties) };
  return { mode: 'form' as const, message, requestedSchema };
}

const fieldOf = (answer: ElicitResult, name: string): string => String(answer.content?.[name]);
const question = (value: string, maxTokens: number) => ({
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text: value } }],
  maxTokens,
});

/** Tools and a prompt that need answers of the client before they can finish. */
@Injectable()
export class EverythingRounds {
  @Tool({ name: 'test_input_required_result_elicitation', description: 'Asks for a name' })
  async elicitation(@McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('user_name', form('What is your name?', { name: { type: 'string' } }));
    return `Hello, ${fieldOf(answer, 'name')}!`;
  }

  @Tool({ name: 'test_input_required_result_sampling', description: 'Asks the model' })
  async sampling(@McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.sample('capital_question', question('What is the capital of France?', 100));
    return `The model says: ${JSON.stringify(answer.content)}`;
  }

  @Tool({ name: 'test_input_required_result_list_roots', description: 'Asks for the roots' })
  async roots(@McpCtx() ctx: McpContext): Promise<string> {
    const { roots } = await ctx.roots('client_roots');
    return `The client has ${roots.length} roots.`;
  }

  @Tool({ name: 'test_input_required_result_request_state', description: 'Asks and keeps state' })
  async requestState(@McpCtx() ctx: McpContext): Promise<string> {
    const state = await ctx.once('state', () => 'state-ok');
    await ctx.elicit('confirm', form('Is it right?', { ok: { type: 'boolean' } }));
    return `Done: ${state}`;
  }

  @Tool({ name: 'test_input_required_result_multiple_inputs', description: 'Asks three questions at once' })
  async multiple(@McpCtx() ctx: McpContext): Promise<string> {
    const answers = await ctx.ask({
      user_name: { method: 'elicitation/create', params: form('What is your name?', { name: { type: 'string' } }) },
      greeting: { method: 'sampling/createMessage', params: question('Greet somebody', 50) },
      client_roots: { method: 'roots/list' },
    });
    return `Hello, ${fieldOf(answers.user_name, 'name')}: ${JSON.stringify(answers.greeting.content)}`;
  }

  @Tool({ name: 'test_input_required_result_multi_round', description: 'Asks twice' })
  async rounds(@McpCtx() ctx: McpContext): Promise<string> {
    const first = await ctx.elicit('step1', form('What is your name?', { name: { type: 'string' } }));
    const second = await ctx.elicit('step2', form('Which colour?', { color: { type: 'string' } }));
    return `${fieldOf(first, 'name')} likes ${fieldOf(second, 'color')}.`;
  }

  @Tool({ name: 'test_input_required_result_tampered_state', description: 'Asks with state that cannot be changed' })
  async tampered(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.elicit('confirm', form('Is it right?', { ok: { type: 'boolean' } }));
    return 'Confirmed.';
  }

  @Tool({ name: 'test_input_required_result_capabilities', description: 'Asks what the client can be asked' })
  async capabilities(@McpCtx() ctx: McpContext): Promise<string> {
    const { sampling, elicitation } = ctx.clientCapabilities;
    if (elicitation) await ctx.elicit('name', form('What is your name?', { name: { type: 'string' } }));
    if (sampling) await ctx.sample('capital', question('What is the capital of France?', 50));
    return 'Nothing more to ask.';
  }

  @Tool({ name: 'test_missing_capability', description: 'Needs a client that can sample' })
  async missing(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.sample('anything', question('Say something', 10));
    return 'The client can sample.';
  }

  @Tool({ name: 'test_streaming_elicitation', description: 'Answers without asking' })
  streaming(): string {
    return 'Nothing was asked on the stream.';
  }

  @Tool({
    name: 'test_x_mcp_header',
    description: 'Has an argument that is a header too',
    inputSchema: {
      type: 'object',
      properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } },
    },
  })
  header(@McpArgs() args: Record<string, unknown>): string {
    return `called with ${JSON.stringify(args)}`;
  }

  @Prompt({ name: 'test_input_required_result_prompt', description: 'Asks for its context' })
  async prompt(@McpCtx() ctx: McpContext): Promise<string> {
    const properties: Properties = { context: { type: 'string' } };
    const answer = await ctx.elicit('user_context', form('What context should the prompt use?', properties));
    return `Use this context: ${fieldOf(answer, 'context')}`;
  }
}
