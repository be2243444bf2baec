import { Injectable } from '@nestjs/common';
import { McpCtx, type McpContext, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';

/** Reading is for everyone who may come in, writing for few. */
@Injectable()
export class Notes {
  @Tool({ name: 'read' })
  read(@McpCtx() ctx: McpContext) {
    return `${ctx.auth!.scopes.join(' ')} as ${ctx.principal}`;
  }

  @Tool({ name: 'write' })
  @RequireScopes('notes:write', { listed: true })
  write() {
    return 'written';
  }
}

export const textOf = (result: unknown): string => (result as { content: { text: string }[] }).content[0]!.text;
