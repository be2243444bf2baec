import 'reflect-metadata';
import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { Server, type CallToolResult, type ServerContext } from '@modelcontextprotocol/server';
import {
  Clock,
  LEGACY_REVISIONS,
  MODERN_REVISIONS,
  McpSessionService,
  McpStreamableModule,
  type McpCounts,
  type McpServerContext,
  type McpStreamableExtras,
  type McpStreamableOptions,
} from 'nestjs-mcp-streamable';
import { expect } from 'vitest';
import { McpResponder } from '../../src/http/responder.js';
import { RawClient } from './raw-client.js';
import { TrackedClock } from './tracked-clock.js';

export type Adapter = 'express' | 'fastify';
export const ADAPTERS: readonly Adapter[] = ['express', 'fastify'];

/** What a tool of a test does. */
export type ScriptedTool = (
  args: Record<string, unknown>,
  ctx: ServerContext,
  here: { server: Server; context: McpServerContext },
) => CallToolResult | string | undefined | Promise<CallToolResult | string | undefined>;

export interface TestAppOptions extends Partial<McpStreamableOptions>, McpStreamableExtras {
  adapter: Adapter;
  tools?: Record<string, ScriptedTool>;
  /** Called with each server that is made. */
  onServer?: (server: Server, context: McpServerContext) => void;
  clock?: Clock & { readonly pending: number };
  /** More of the app around the endpoint. */
  module?: ModuleMetadata;
  /** Before `listen()`. */
  configure?: (app: INestApplication) => void | Promise<void>;
  /** The address to listen on. @default 127.0.0.1 */
  address?: string;
}

/** A Nest app with one endpoint whose tools are functions of the test. */
export class TestApp {
  private constructor(
    readonly app: INestApplication,
    readonly url: string,
    readonly service: McpSessionService,
    readonly clock: Clock & { readonly pending: number },
  ) {}

  static async start(options: TestAppOptions): Promise<TestApp> {
    const { adapter, tools = {}, onServer, clock = new TrackedClock(), module = {}, configure, ...rest } = options;
    const { address = '127.0.0.1', ...moduleOptions } = rest;
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'test', version: '1.0.0' },
      server: (context) => {
        const server = scriptedServer(tools, context);
        onServer?.(server, context);
        return server;
      },
      ...moduleOptions,
    });
    const testing = await Test.createTestingModule({ ...module, imports: [...(module.imports ?? []), endpoint] })
      .overrideProvider(Clock)
      .useValue(clock)
      .compile();
    const app =
      adapter === 'express'
        ? testing.createNestApplication(new ExpressAdapter())
        : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
    await configure?.(app);
    await app.listen(0, address);
    const base = (await app.getUrl()).replace('[::1]', '127.0.0.1');
    const url = `${base}/${moduleOptions.path ?? 'mcp'}`;
    return new TestApp(app, url, app.get(McpSessionService, { strict: false }), clock);
  }

  /** Open responses that are streams. */
  get openResponses(): number {
    return this.app.get(McpResponder, { strict: false }).open;
  }

  client(headers?: Record<string, string>): RawClient {
    return new RawClient(this.url, headers);
  }

  /** Waits until the counts are as wanted. */
  async settled(expected: Partial<McpCounts & { openResponses: number; timers: number }>): Promise<void> {
    await expect.poll(() => this.#state(), { timeout: 5_000, interval: 5 }).toMatchObject(expected);
  }

  /** Ends what is there, and expects that nothing at all is left of it. */
  async expectNothingLeft(): Promise<void> {
    await this.service.terminateAll();
    await this.settled({ ...NOTHING, openResponses: 0, timers: 0 });
  }

  /** Expects that nothing is left, then stops the app. */
  async close(): Promise<void> {
    await this.expectNothingLeft();
    await this.app.close();
    expect(this.clock.pending).toBe(0);
  }

  async #state(): Promise<McpCounts & { openResponses: number; timers: number }> {
    const counts = await this.service.counts();
    return { ...counts, openResponses: this.openResponses, timers: this.clock.pending };
  }
}

const NOTHING: McpCounts = {
  sessions: 0,
  states: 0,
  live: 0,
  inFlight: 0,
  outbound: 0,
  streams: 0,
  readers: 0,
  subscriptions: 0,
  logs: 0,
  loggedStreams: 0,
  events: 0,
  bytes: 0,
};

/** A low-level SDK server whose tools are the given functions; `tools/list` names them. */
export function scriptedServer(tools: Record<string, ScriptedTool>, context: McpServerContext): Server {
  const capabilities = {
    tools: { listChanged: true },
    logging: {},
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
  };
  const supportedProtocolVersions = [...LEGACY_REVISIONS, ...MODERN_REVISIONS];
  const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities, supportedProtocolVersions });
  server.setRequestHandler('tools/list', () => ({
    tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' as const } })),
  }));
  server.setRequestHandler('resources/list', () => ({ resources: [] }));
  server.setRequestHandler('prompts/list', () => ({ prompts: [] }));
  server.setRequestHandler('resources/subscribe', () => ({}));
  server.setRequestHandler('resources/unsubscribe', () => ({}));
  server.setRequestHandler('tools/call', async (request, ctx) => {
    const { name, arguments: args = {} } = request.params;
    const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
    if (!tool) throw new Error(`no tool ${name}`);
    const result = await tool(args, ctx, { server, context });
    return typeof result === 'object' ? result : { content: [{ type: 'text', text: result ?? 'done' }] };
  });
  return server;
}

/** Something a test lets happen when it wants. */
export function gate<T = void>(): { promise: Promise<T>; open: (value: T) => void; fail: (error: Error) => void } {
  let open!: (value: T) => void;
  let fail!: (error: Error) => void;
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  promise.catch(() => {});
  return { promise, open, fail };
}
