// #region watch
import { Injectable } from '@nestjs/common';
import { InjectMcp, McpClient } from 'nestjs-mcp-streamable/client';
import { map, type Observable } from 'rxjs';

@Injectable()
export class ReportWatcher {
  constructor(@InjectMcp(McpClient, 'reports') private readonly reports: McpClient) {}

  /** Emits the status of the task, then the result. Unsubscribing cancels the task. */
  report$(year: number): Observable<string> {
    return this.reports
      .callTool$('yearly_report', { year })
      .pipe(
        map((event) =>
          event.type === 'progress'
            ? (event.message ?? '')
            : JSON.stringify(event.result.content),
        ),
      );
  }
}
// #endregion
