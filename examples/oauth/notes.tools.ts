import type { AuthInfo } from '@modelcontextprotocol/server';
import { Injectable } from '@nestjs/common';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { McpAuth, RequireScopes } from 'nestjs-mcp-streamable/auth';
import { z } from 'zod';

const note = z.object({ text: z.string().min(1) });

/** Notes of each user. */
@Injectable()
export class NotesTools {
  readonly #notes = new Map<string, string[]>();

  @Tool({ name: 'list_notes', description: 'Lists your notes', annotations: { readOnlyHint: true } })
  list(@McpAuth() auth: AuthInfo): string {
    return this.#of(auth).join('\n') || 'There are no notes yet.';
  }

  @Tool({ name: 'add_note', description: 'Adds a note', inputSchema: note })
  @RequireScopes('notes:write', { listed: true })
  add(@McpArgs() { text }: z.infer<typeof note>, @McpAuth() auth: AuthInfo): string {
    return `You have ${this.#of(auth).push(text)} notes.`;
  }

  #of({ extra, clientId }: AuthInfo): string[] {
    const user = typeof extra?.['sub'] === 'string' ? extra['sub'] : clientId;
    const notes = this.#notes.get(user) ?? [];
    this.#notes.set(user, notes);
    return notes;
  }
}
