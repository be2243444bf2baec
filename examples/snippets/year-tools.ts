import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

const Year = z.object({ year: z.number().int() });
const Confirmation = z.object({ sure: z.boolean() });

@Injectable()
export class YearTools {
  // #region asks
  @Tool({
    name: 'close_year',
    description: 'Closes the books',
    inputSchema: Year,
    task: 'required',
  })
  async close(@McpArgs('year') year: number, @McpCtx() ctx: McpContext): Promise<string> {
    ctx.task?.update('Waiting for a confirmation');
    const answer = await ctx.elicit('sure', {
      message: `Close ${year}?`,
      requestedSchema: Confirmation,
    });
    return answer.content?.sure === true ? `${year} is closed.` : `${year} stays open.`;
  }
  // #endregion

  // #region manual
  @Tool({
    name: 'archive_year',
    description: 'Moves a year to the archive',
    inputSchema: Year,
    task: 'manual',
  })
  async archive(
    @McpArgs('year') year: number,
    @McpCtx() ctx: McpContext,
  ): Promise<string> {
    const answer = await ctx.elicit('sure', {
      message: `Archive ${year}?`,
      requestedSchema: Confirmation,
    });
    if (answer.content?.sure !== true) return 'Nothing was moved.';
    await ctx.startTask(); // the client has the task from here on, and the handler goes on
    await this.move(year, ctx.signal);
    return `${year} is in the archive.`;
  }
  // #endregion

  private move(_year: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    return Promise.resolve();
  }
}
