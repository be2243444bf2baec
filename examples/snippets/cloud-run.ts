import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { ShowOrder } from './show-order.js';
import { Orders } from './orders.service.js';

// #region module
@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      sessions: 'off', // or a shared store: any instance serves any request
      allowedHosts: ['orders-123456789.europe-west1.run.app'],
      shutdownDelayMs: 0, // no new requests come after SIGTERM
      drainMs: 8_000, // SIGKILL comes 10 s after it
    }),
  ],
  providers: [Orders, ShowOrder],
})
export class AppModule {}
// #endregion
