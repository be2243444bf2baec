import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { Announcer, Questions } from './announcer.js';
import { UsersModule } from './guarded-app.js';
import { SessionLog } from './session-log.js';
import { SessionsController } from './sessions.controller.js';

@Module({
  imports: [
    UsersModule,
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
  ],
  controllers: [SessionsController],
  providers: [Announcer, Questions, SessionLog],
})
export class AppModule {}
