import { Injectable } from '@nestjs/common';
import { z } from 'zod';
// #region scopes
import { type McpContext, McpArgs, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { type AuthInfo, McpAuth, RequireScopes } from 'nestjs-mcp-streamable/auth';

const note = z.object({ text: z.string() });

@Injectable()
export class NotesTools {
  @Tool({ name: 'list_notes' })
  list(@McpCtx() ctx: McpContext) {
    return `The notes of ${ctx.principal}: …`; // such as https://idp.example.com/|ann
  }

  @Tool({ name: 'add_note', inputSchema: note })
  @RequireScopes('notes:write', { listed: true })
  add(@McpArgs() { text }: z.infer<typeof note>, @McpAuth() auth: AuthInfo) {
    return `${auth.clientId} has added "${text}".`;
  }

  @Tool({ name: 'delete_all' })
  @RequireScopes('notes:write', 'notes:admin')
  clear() {
    return 'There are no notes any more.';
  }
}
// #endregion
