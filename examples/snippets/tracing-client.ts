// #region client
import { Module } from '@nestjs/common';
import { McpClientModule } from 'nestjs-mcp-streamable/client';
import { OtelClientInstrumentation, traceContextMeta } from 'nestjs-mcp-streamable/otel';

@Module({
  imports: [
    McpClientModule.forRoot({
      clients: {
        orders: {
          url: 'https://orders.example.com/mcp',
          instrumentation: new OtelClientInstrumentation(),
          requestMeta: traceContextMeta,
        },
      },
    }),
  ],
})
export class AgentModule {}
// #endregion
