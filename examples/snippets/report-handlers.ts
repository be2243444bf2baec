// #region tool
import { Injectable } from '@nestjs/common';
import { McpArgs, Tool, toolProgress, type ToolEvent } from 'nestjs-mcp-streamable';
import { concat, interval, map, type Observable, of, take } from 'rxjs';
import { z } from 'zod';

const Year = z.object({ year: z.number().int() });

@Injectable()
export class ReportTools {
  /** Clients get the progress of this tool as the status of the task. */
  @Tool({
    name: 'yearly_report',
    description: 'Adds up a year',
    inputSchema: Year,
    task: 'optional',
  })
  report(@McpArgs('year') year: number): Observable<ToolEvent<string>> {
    const months = interval(1_000).pipe(
      take(12),
      map((month) => toolProgress(month + 1, 12, `month ${month + 1}`)),
    );
    return concat(months, of(`The report of ${year} is ready.`));
  }
}
// #endregion
