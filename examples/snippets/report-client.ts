// #region client
import { Module } from '@nestjs/common';
import { McpClientModule } from 'nestjs-mcp-streamable/client';

@Module({
  imports: [
    McpClientModule.forRoot({
      clients: {
        reports: {
          url: 'https://reports.example.com/mcp',
          client: { versionNegotiation: { mode: { pin: '2026-07-28' } } },
        },
      },
    }),
  ],
})
export class OfficeModule {}
// #endregion
