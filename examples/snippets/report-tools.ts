// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { ReportTools } from './report-handlers.js';

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'reports', version: '1.0.0' } }),
    McpTasksModule.forRoot({ ttlMs: 3_600_000 }),
  ],
  providers: [ReportTools],
})
export class ReportsModule {}
// #endregion
