import { Injectable } from '@nestjs/common';
import { z } from 'zod';
// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'notes', version: '1.0.0' },
      auth: {
        resource: 'https://api.example.com/mcp', // the endpoint, as clients know it
        authorizationServers: ['https://idp.example.com/'], // where they log in, as it calls itself
        requiredScopes: ['notes:read'],
      },
    }),
  ],
})
export class AppModule {}
// #endregion

// #region scopes
import { type McpContext, McpArgs, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { type AuthInfo, McpAuth, RequireScopes } from 'nestjs-mcp-streamable/auth';

const note = z.object({ text: z.string() });

@Injectable()
export class NotesTools {
  @Tool({ name: 'list_notes' })
  list(@McpCtx() ctx: McpContext) {
    return `The notes of ${ctx.principal}: …`; // https://idp.example.com/|ann
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
