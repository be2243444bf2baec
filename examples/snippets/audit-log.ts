// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
    McpAuditModule.forRoot(),
  ],
})
export class OrdersModule {}
// #endregion
