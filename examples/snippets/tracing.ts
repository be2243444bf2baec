import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpClientModule } from 'nestjs-mcp-streamable/client';
import { OtelClientInstrumentation, OtelInstrumentation, traceContextMeta } from 'nestjs-mcp-streamable/otel';

// #region server
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

// #region client
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
