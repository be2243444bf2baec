// #region server
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { OtelInstrumentation } from 'nestjs-mcp-streamable/otel';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      instrumentation: new OtelInstrumentation(),
    }),
  ],
})
export class OrdersModule {}
// #endregion
