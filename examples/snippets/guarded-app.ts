// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { TokenGuard, Users } from './token.guard.js';

@Module({ providers: [Users], exports: [Users] })
export class UsersModule {}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      imports: [UsersModule], // what TokenGuard injects
      guards: [TokenGuard],
      principal: (request: { user: { id: string } }) => request.user.id,
    }),
  ],
})
export class AppModule {}
// #endregion
