import { Module } from '@nestjs/common';
import { McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { McpSkillsModule } from 'nestjs-mcp-streamable/skills';
import { McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import { EverythingPrompts, EverythingResources } from './everything.resources.js';
import { EverythingRounds } from './everything.rounds.js';
import { EverythingTasks } from './everything.tasks.js';
import { AskingTools, ChangingTools, ContentTools, TalkingTools } from './everything.tools.js';

const { REDIS_URL } = process.env;
/** Nodes that share a Redis serve one endpoint. The key protects nothing: what is asked here is known. */
const shared: Partial<McpStreamableOptions> = REDIS_URL
  ? { backend: redisBackend(REDIS_URL), requestStateKeys: ['conformance'.repeat(3)] }
  : {};

/** The server that the official conformance suite calls (shared/conformance-surface.md). */
@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'everything', version: '1.0.0' }, ...shared }),
    McpTasksModule.forRoot(),
    McpSkillsModule.forRoot({ folders: ['test/conformance/skills'] }),
  ],
  providers: [
    ContentTools,
    TalkingTools,
    AskingTools,
    ChangingTools,
    EverythingResources,
    EverythingPrompts,
    EverythingRounds,
    EverythingTasks,
  ],
})
export class EverythingModule {}
