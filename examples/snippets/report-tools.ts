// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { ReportTools } from './report-handlers.js';
import { RunningReports } from './running-reports.js';

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'reports', version: '1.0.0' } }),
    McpTasksModule.forRoot({ ttlMs: 3_600_000 }),
  ],
  providers: [ReportTools, RunningReports],
})
export class ReportsModule {}
// #endregion
