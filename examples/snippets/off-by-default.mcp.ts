// #region endpoint
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'invoices', version: '1.0.0' } }),
  ],
})
export class McpModule {}
// #endregion
