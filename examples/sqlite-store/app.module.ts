import { Controller, type DynamicModule, Inject, Injectable, Module, Param, Post } from '@nestjs/common';
import {
  McpArgs,
  McpSessionService,
  McpStreamableModule,
  Tool,
  toolProgress,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { concat, map, of, take, timer, type Observable } from 'rxjs';
import { z } from 'zod';
import { sqliteStores } from './sqlite-stores.js';

const Steps = z.object({ steps: z.number().int().min(1).max(600), everyMs: z.number().int().min(10).default(500) });

@Injectable()
export class RestartTools {
  @Tool({ name: 'where', description: 'Says which process has answered' })
  where(): string {
    return `process ${process.pid}`;
  }

  @Tool({
    name: 'count',
    description: 'Counts, and reports each step; restart the server meanwhile',
    inputSchema: Steps,
  })
  count(@McpArgs() { steps, everyMs }: z.infer<typeof Steps>): Observable<ToolEvent<string>> {
    const reports = timer(everyMs, everyMs).pipe(
      take(steps),
      map((step) => toolProgress(step + 1, steps)),
    );
    return concat(reports, of(`counted to ${steps}`));
  }
}

/** Tells all sessions something; those that do not listen find it later, also after a restart. */
@Controller('announcements')
export class AnnouncementsController {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  @Post(':text')
  async announce(@Param('text') text: string): Promise<{ sessions: number }> {
    const params = { level: 'notice', data: text };
    return { sessions: await this.sessions.notify(() => true, { method: 'notifications/message', params }) };
  }
}

@Module({})
export class AppModule {
  /** @param file of the sessions; made if there is none */
  static over(file: string): DynamicModule {
    return {
      module: AppModule,
      imports: [
        McpStreamableModule.forRootAsync({
          useFactory: () => ({
            serverInfo: { name: 'sqlite-store', version: '1.0.0' },
            ...sqliteStores(file),
            // A restart waits for no call; by default calls have 10 s where sessions stay.
            drainMs: 0,
          }),
        }),
      ],
      controllers: [AnnouncementsController],
      providers: [RestartTools],
    };
  }
}
