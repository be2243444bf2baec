// #region limits
import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Resource, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Query = z.object({ sql: z.string() });

@Injectable()
export class LimitedReports {
  /** The warehouse takes four queries at a time. */
  @Tool({
    name: 'query',
    description: 'Asks the warehouse',
    inputSchema: Query,
    timeoutMs: 20_000,
    maxConcurrent: 4,
  })
  async query(@McpArgs('sql') sql: string, @McpCtx() ctx: McpContext): Promise<string> {
    const response = await fetch('https://warehouse.example.com', {
      method: 'POST',
      body: sql,
      signal: ctx.signal,
    });
    return response.text();
  }

  @Resource({
    uri: 'reports://today',
    name: 'today',
    timeoutMs: 5_000,
    maxConcurrent: { max: 1, per: 'principal' },
  })
  async today(@McpCtx() ctx: McpContext): Promise<string> {
    return (
      await fetch('https://warehouse.example.com/today', { signal: ctx.signal })
    ).text();
  }
}
// #endregion
