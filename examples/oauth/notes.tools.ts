import { Injectable } from '@nestjs/common';
import { McpArgs, McpCtx, type McpContext, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { z } from 'zod';

const note = z.object({ text: z.string().min(1) });

/** Notes of each user. */
@Injectable()
export class NotesTools {
  readonly #notes = new Map<string, string[]>();

  @Tool({
    name: 'list_notes',
    title: 'List notes',
    description: 'Lists your notes',
    annotations: { readOnlyHint: true },
  })
  list(@McpCtx() ctx: McpContext): string {
    return this.#of(ctx).join('\n') || 'There are no notes yet.';
  }

  @Tool({
    name: 'add_note',
    title: 'Add a note',
    description: 'Adds a note',
    inputSchema: note,
    annotations: { destructiveHint: false },
  })
  @RequireScopes('notes:write', { listed: true })
  add(@McpArgs() { text }: z.infer<typeof note>, @McpCtx() ctx: McpContext): string {
    return `You have ${this.#of(ctx).push(text)} notes.`;
  }

  #of({ principal }: McpContext): string[] {
    // Every request has a token, so every caller has a principal: its issuer and its subject.
    const notes = this.#notes.get(principal!) ?? [];
    this.#notes.set(principal!, notes);
    return notes;
  }
}
