// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { UsersModule } from './guarded-app.js';
import { OrderHandlers } from './migrated-orders.js';
import { Orders } from './orders.service.js';
import { TokenGuard } from './token.guard.js';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      instructions: 'Knows all orders.',
      path: 'ai/mcp',
      imports: [UsersModule], // what TokenGuard injects
      guards: [TokenGuard],
    }),
  ],
  providers: [Orders, OrderHandlers],
})
export class AppModule {}
// #endregion
