import { Inject, Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { DocsService } from './docs.service.js';

/**
 * Tools that ask the client: its user (elicitation), or its model (sampling). The
 * question travels with the call.
 */
@Injectable()
export class DocsQuestions {
  constructor(@Inject(DocsService) private readonly docs: DocsService) {}

  @Tool({
    name: 'choose_doc',
    title: 'Choose a document',
    description: 'Lets the user choose a document, and reads it',
    annotations: { readOnlyHint: true },
  })
  async choose(@McpCtx() ctx: McpContext): Promise<string> {
    const names = (await this.docs.list()).map(({ name }) => name);
    if (names.length === 0) return 'There are no documents to choose from.';
    const { action, content } = await ctx.elicit('choice', {
      message: 'Which document?',
      requestedSchema: {
        type: 'object',
        properties: { name: { type: 'string', enum: names } },
        required: ['name'],
      },
    });
    return action === 'accept'
      ? this.docs.read(content.name)
      : 'The user chose no document.';
  }

  @Tool({
    name: 'summarize_doc',
    title: 'Summarize a document',
    description: "Has the client's model summarize a document",
    annotations: { readOnlyHint: true },
    inputSchema: z.object({ name: z.string() }),
  })
  async summarize(
    @McpArgs('name') name: string,
    @McpCtx() ctx: McpContext,
  ): Promise<string> {
    const text = `Summarize in two sentences:\n\n${await this.docs.read(name)}`;
    const { content } = await ctx.sample('summary', {
      messages: [{ role: 'user', content: { type: 'text', text } }],
      maxTokens: 500,
    });
    const block = [content].flat().find(({ type }) => type === 'text');
    return block?.type === 'text' ? block.text : 'The model returned no text.';
  }
}
