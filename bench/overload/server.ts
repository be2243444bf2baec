import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { report } from '../agent.js';
import { SERVER_INFO } from '../tools.js';

/** The server of `npm run x -- bench:overload`: its callers name themselves. `LIMITS`: options as JSON. */

const POOL = 10;
const POOL_MS = 50;

/** Like the connections of a database: a fixed number, first come, first served. */
class Pool {
  #free = POOL;
  readonly #waiting: (() => void)[] = [];

  async use(): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    await delay(POOL_MS);
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}

class OverloadTools {
  readonly #pool = new Pool();

  @Tool({ name: 'burn', description: 'Keeps the processor busy', inputSchema: z.object({ ms: z.number() }) })
  burn({ ms }: { ms: number }): string {
    const end = performance.now() + ms;
    while (performance.now() < end);
    return 'done';
  }

  @Tool({ name: 'pool', description: 'Waits for a connection of a pool', inputSchema: z.object({ ms: z.number() }) })
  async pool(): Promise<string> {
    await this.#pool.use();
    return 'done';
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: SERVER_INFO,
      principal: (request: { headers: Record<string, string> }) => request.headers['x-user'],
      ...(JSON.parse(process.env['LIMITS'] ?? '{}') as object),
    }),
  ],
  providers: [OverloadTools],
})
class OverloadModule {}

const app = await NestFactory.create(OverloadModule, new FastifyAdapter(), { logger: ['error'] });
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
report(await app.getUrl());
