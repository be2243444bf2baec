import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { McpSkillsModule } from 'nestjs-mcp-streamable/skills';
import { DocsModule } from './docs.module.js';

@Module({
  imports: [
    DocsModule,
    McpStreamableModule.forRoot({
      isGlobal: true,
      serverInfo: { name: 'quickstart-docs', version: '1.0.0' },
      instructions:
        'Serves Markdown documents. Search them first, then read what was found.',
    }),
    // Models that support skills learn from DocsSkills how to use the tools.
    McpSkillsModule.forRoot(),
    // For callers on this machine. A server for others has guards in its place.
    McpLiveModule.forRoot({ unguarded: 'loopback' }),
  ],
})
export class AppModule {}
