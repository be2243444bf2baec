import 'reflect-metadata';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { Clock } from 'nestjs-mcp-streamable/stores';
import { expect } from 'vitest';
import type { Adapter } from './app.js';
import { RawClient } from './raw-client.js';
import { RecordedLog } from './recorded-log.js';
import { TrackedClock } from './tracked-clock.js';

export const serverInfo = { name: 'test', version: '1.0.0' };

/** A Nest app made as an application makes it, with any modules in it. */
export class NestApp {
  private constructor(
    readonly app: INestApplication,
    readonly base: string,
    readonly log: RecordedLog,
    private readonly clock: Clock & { readonly pending: number },
  ) {}

  static async start(
    adapter: Adapter,
    module: ModuleMetadata,
    configure?: (app: INestApplication) => void | Promise<void>,
    clock: Clock & { readonly pending: number } = new TrackedClock(),
  ): Promise<NestApp> {
    const log = new RecordedLog();
    const compiling = Test.createTestingModule(module).overrideProvider(Clock).useValue(clock).setLogger(log);
    const app = (await compiling.compile()).createNestApplication(
      adapter === 'express' ? new ExpressAdapter() : new FastifyAdapter(),
    );
    try {
      await configure?.(app);
      await app.listen(0, '127.0.0.1');
    } catch (error) {
      await app.close();
      throw error;
    }
    return new NestApp(app, (await app.getUrl()).replace('[::1]', '127.0.0.1'), log, clock);
  }

  client(path = 'mcp', headers?: Record<string, string>): RawClient {
    return new RawClient(`${this.base}/${path}`, headers);
  }

  get service(): McpSessionService {
    return this.app.get(McpSessionService, { strict: false });
  }

  /** Stops the app as it is, and expects that nothing is left. */
  async close(...services: McpSessionService[]): Promise<void> {
    const all = services.length > 0 ? services : [this.service];
    await this.app.close();
    this.log.release();
    for (const service of all) {
      expect(await service.counts()).toEqual({
        sessions: 0,
        live: 0,
        inFlight: 0,
        outbound: 0,
        streams: 0,
        readers: 0,
        subscriptions: 0,
        tasks: 0,
        heldBytes: 0,
        logs: 0,
        loggedStreams: 0,
        events: 0,
        bytes: 0,
      });
    }
    expect(this.clock.pending).toBe(0);
  }
}

/** Why an app with these modules does not start. */
export async function startFailure(
  adapter: Adapter,
  module: () => ModuleMetadata,
  configure?: (app: INestApplication) => void,
): Promise<Error> {
  let app: NestApp;
  try {
    app = await NestApp.start(adapter, module(), configure);
  } catch (error) {
    return error as Error;
  }
  await app.close();
  throw new Error('The app started.');
}

/** A server with one tool, `whoami`, that says what the test wants to know. */
export function serverSaying(say: () => unknown): McpServer {
  const server = new McpServer(serverInfo, { capabilities: { logging: {} } });
  server.registerTool('whoami', {}, () => ({ content: [{ type: 'text', text: String(say()) }] }));
  return server;
}

/** What the tool said. */
export async function whoami(client: RawClient): Promise<string> {
  const response = await client.call('whoami');
  const body = await response.json();
  if (response.status !== 200) throw new Error(`${response.status} ${JSON.stringify(body)}`);
  return body.result.content[0].text as string;
}
