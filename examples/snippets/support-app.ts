import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { UsersModule } from './guarded-app.js';
import { SupportSessionGuard } from './support-session.guard.js';
import { TokenGuard } from './token.guard.js';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      imports: [UsersModule],
      guards: [TokenGuard],
      principal: (request: { user: { id: string } }) => request.user.id,
      sessionGuard: SupportSessionGuard,
    }),
  ],
})
export class AppModule {}
