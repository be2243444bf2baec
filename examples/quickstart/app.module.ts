import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { DocsModule } from './docs.module.js';

@Module({
  imports: [
    DocsModule,
    McpStreamableModule.forRoot({
      isGlobal: true,
      serverInfo: { name: 'quickstart-docs', version: '1.0.0' },
      instructions: 'Serves Markdown documents. Search them first, then read what was found.',
    }),
  ],
})
export class AppModule {}
