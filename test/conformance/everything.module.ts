import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { EverythingPrompts, EverythingResources } from './everything.resources.js';
import { EverythingRounds } from './everything.rounds.js';
import { AskingTools, ChangingTools, ContentTools, TalkingTools } from './everything.tools.js';

/** The server that the official conformance suite calls (shared/conformance-surface.md). */
@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'everything', version: '1.0.0' } })],
  providers: [
    ContentTools,
    TalkingTools,
    AskingTools,
    ChangingTools,
    EverythingResources,
    EverythingPrompts,
    EverythingRounds,
  ],
})
export class EverythingModule {}
