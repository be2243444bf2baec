import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { HandMadeTools } from './booking-by-hand.js';
import { BookingTools } from './booking-questions.js';
import { Rooms } from './rooms.service.js';

const serverInfo = { name: 'rooms', version: '1.0.0' };

@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      useFactory: () => ({
        serverInfo,
        // `openssl rand -base64 32` makes a key. Write "new,old" while you change keys.
        requestStateKeys: process.env['MCP_REQUEST_STATE_KEYS']?.split(','),
      }),
    }),
  ],
  providers: [BookingTools, HandMadeTools, Rooms],
})
export class AppModule {}
