import { type DynamicModule, Inject, Injectable, Module } from '@nestjs/common';
import {
  McpArgs,
  McpCtx,
  type McpContext,
  McpStreamableModule,
  Tool,
  toolProgress,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { concat, map, of, take, timer, type Observable } from 'rxjs';
import { z } from 'zod';

/** What differs between the nodes, and what all of them must agree on. */
export interface NodeSettings {
  readonly name: string;
  readonly redisUrl: string;
  /** Seals what calls know between two rounds of questions; the same on all nodes, secret, at least 32 bytes. */
  readonly requestStateKey: string;
}

const NODE_NAME = Symbol('node name');
const Steps = z.object({ steps: z.number().int().min(1).max(100), everyMs: z.number().int().min(10).default(200) });

@Injectable()
export class ClusterTools {
  constructor(@Inject(NODE_NAME) private readonly node: string) {}

  @Tool({
    name: 'where',
    title: 'Name the node',
    description: 'Says which node has answered',
    annotations: { readOnlyHint: true },
  })
  where(): string {
    return this.node;
  }

  @Tool({
    name: 'count',
    title: 'Count',
    description: 'Counts, and reports each step',
    inputSchema: Steps,
    annotations: { readOnlyHint: true },
  })
  count(@McpArgs() { steps, everyMs }: z.infer<typeof Steps>): Observable<ToolEvent<string>> {
    const reports = timer(everyMs, everyMs).pipe(
      take(steps),
      map((step) => toolProgress(step + 1, steps, `counted by ${this.node}`)),
    );
    return concat(reports, of(`counted to ${steps} by ${this.node}`));
  }

  @Tool({
    name: 'greet',
    title: 'Greet',
    description: 'Asks for a name; the answer may come to another node',
    annotations: { readOnlyHint: true },
  })
  async greet(@McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('name', {
      message: 'What is your name?',
      requestedSchema: z.object({ name: z.string() }),
    });
    return answer.action === 'accept' ? `Hello ${answer.content.name}, from ${this.node}` : 'As you like.';
  }
}

/** One of several processes that serve the same endpoint. */
@Module({})
export class NodeModule {
  static of({ name, redisUrl, requestStateKey }: NodeSettings): DynamicModule {
    return {
      module: NodeModule,
      imports: [
        McpStreamableModule.forRootAsync({
          useFactory: () => ({
            serverInfo: { name: 'cluster', version: '1.0.0' },
            backend: redisBackend(redisUrl),
            requestStateKeys: [requestStateKey],
            // Behind a proxy requests do not arrive on a loopback address: these are the names that clients may use.
            allowedHosts: ['localhost', '127.0.0.1'],
          }),
        }),
      ],
      providers: [ClusterTools, { provide: NODE_NAME, useValue: name }],
    };
  }
}
