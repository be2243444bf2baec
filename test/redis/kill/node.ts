import 'reflect-metadata';
import { Inject, Injectable } from '@nestjs/common';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpArgs, McpCtx, type McpContext, McpSessionService, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { z } from 'zod';
import { Proxy } from '../../support/proxy.js';

/** Short, so that a world lasts seconds; the promise is made of their sum. */
export const KEEP_ALIVE_MS = 500;
export const RETRY_MS = 150;
export const DEAD_AFTER_MS = 1_500;
const HEARTBEAT_MS = 350;
const COMMAND_TIMEOUT_MS = 400;
const SSE_AFTER_MS = 40;

const Work = z.object({ key: z.string(), steps: z.number(), askAt: z.number(), everyMs: z.number() });
const Answer = z.object({ name: z.string() });
export type Work = z.infer<typeof Work>;

/** What the world hears of a node. */
interface NodeWitness {
  /** A call has begun what must not be done twice. */
  ran(key: string): void;
}

const WITNESS = Symbol('witness');

@Injectable()
class WorldTools {
  constructor(@Inject(WITNESS) private readonly witness: NodeWitness) {}

  @Tool({ name: 'work', inputSchema: Work })
  async work(@McpArgs() { key, steps, askAt, everyMs }: Work, @McpCtx() ctx: McpContext) {
    this.witness.ran(key);
    let name: unknown;
    for (let step = 1; step <= steps; step++) {
      // Real time: the node is a process of its own, and its calls must last until some of them are hit by a fault.
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      await ctx.progress(step, steps);
      if (step !== askAt) continue;
      const answer = await ctx.elicit('name', { message: key, requestedSchema: Answer });
      name = answer.content?.['name'];
    }
    return `${key} for ${String(name)}`;
  }
}

/**
 * A node of a world: an app of its own, whose only ways to clients and to Redis are two proxies. Cut off by both at once and for ever, it
 * is dead for all others: no goodbye of it gets through.
 */
export class WorldNode {
  private constructor(
    private readonly app: NestFastifyApplication,
    readonly service: McpSessionService,
    /** Between clients and the app. */
    readonly front: Proxy,
    /** Between the app and Redis. */
    readonly back: Proxy,
  ) {}

  static async start(redisPort: number, witness: NodeWitness): Promise<WorldNode> {
    const back = await Proxy.start(new URL(`redis://127.0.0.1:${redisPort}`));
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'world', version: '1.0.0' },
      backend: redisBackend(back.url.href, {
        commandTimeoutMs: COMMAND_TIMEOUT_MS,
        heartbeatMs: HEARTBEAT_MS,
        deadAfterMs: DEAD_AFTER_MS,
      }),
      requestStateKeys: ['a secret that all nodes of a world know'],
      allowedHosts: ['127.0.0.1'],
      keepAliveMs: KEEP_ALIVE_MS,
      retryMs: RETRY_MS,
      sseAfterMs: SSE_AFTER_MS,
      drainMs: 0,
      serverRequestTimeoutMs: 60_000,
    });
    const providers = [WorldTools, { provide: WITNESS, useValue: witness }];
    const testing = await Test.createTestingModule({ imports: [endpoint], providers }).compile();
    const adapter = new FastifyAdapter({ forceCloseConnections: true });
    const app = testing.createNestApplication<NestFastifyApplication>(adapter, { logger: false });
    await app.listen(0, '127.0.0.1');
    const front = await Proxy.start(new URL('/mcp', await app.getUrl()));
    return new WorldNode(app, app.get(McpSessionService, { strict: false }), front, back);
  }

  get url(): string {
    return this.front.url.href;
  }

  /** @returns settles when this process has let go of what is left of it, of which no other side hears */
  kill(): Promise<void> {
    void this.front.close();
    void this.back.close();
    return this.app.close();
  }

  async close(): Promise<void> {
    await this.app.close();
    await Promise.all([this.front.close(), this.back.close()]);
  }
}
