import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool, toolProgress, type ToolEvent } from 'nestjs-mcp-streamable';
import { concat, delay, map, type Observable, of, range } from 'rxjs';
import { z } from 'zod';

const Year = z.object({ year: z.number().int() });
const Confirmation = z.object({ sure: z.boolean() });

const MONTHS = 12;

@Injectable()
export class ReportTools {
  // #region tool
  /** Takes minutes. Its progress is what clients read of the task meanwhile. */
  @Tool({ name: 'yearly_report', description: 'Adds up a year', inputSchema: Year, task: 'optional' })
  report(@McpArgs('year') year: number): Observable<ToolEvent<string>> {
    return concat(this.monthsOf(year), of(`The report of ${year} is ready.`));
  }
  // #endregion

  // #region asks
  @Tool({ name: 'close_year', description: 'Closes the books', inputSchema: Year, task: 'required' })
  async close(@McpArgs('year') year: number, @McpCtx() ctx: McpContext): Promise<string> {
    ctx.task?.update('Waiting for a confirmation');
    const answer = await ctx.elicit('sure', { message: `Close ${year}?`, requestedSchema: Confirmation });
    return answer.content?.['sure'] === true ? `${year} is closed.` : `${year} stays open.`;
  }
  // #endregion

  // #region manual
  @Tool({ name: 'archive_year', description: 'Moves a year to the archive', inputSchema: Year, task: 'manual' })
  async archive(@McpArgs('year') year: number, @McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('sure', { message: `Archive ${year}?`, requestedSchema: Confirmation });
    if (answer.content?.['sure'] !== true) return 'Nothing was moved.';
    await ctx.startTask(); // the client has the task from here on, and the handler goes on
    await this.move(year, ctx.signal);
    return `${year} is in the archive.`;
  }
  // #endregion

  private monthsOf(_year: number): Observable<ToolEvent<string>> {
    return range(1, MONTHS).pipe(
      delay(1),
      map((month) => toolProgress(month, MONTHS, `month ${month}`)),
    );
  }

  private async move(_year: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
  }
}
