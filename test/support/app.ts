import 'reflect-metadata';
import type { Server as NetServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { INestApplication, ModuleMetadata, Provider } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import {
  McpSessionService,
  McpStreamableModule,
  type McpStreamableExtras,
  type McpStreamableOptions,
} from 'nestjs-mcp-streamable';
import { McpClock, McpEventStore, type McpStreamHead, MCP_INBOX_STREAM } from 'nestjs-mcp-streamable/stores';
import { expect } from 'vitest';
import { McpAppAgent, type McpLeftovers } from 'nestjs-mcp-streamable/testing';
import { McpResponder } from '../../src/core/http/responder.js';
import { endpointsOf } from '../../src/testing/kit/endpoints.js';
import { leftIn, timersOf } from '../../src/testing/kit/leftovers.js';
import type { Adapter } from './adapters.js';
import { ModernClient } from './modern-client.js';
import { RawClient } from './raw-client.js';
import { RecordedLog } from './recorded-log.js';
import { testTools, type TestTool } from './test-tools.js';
import { TrackedClock } from './tracked-clock.js';
import type { NodesOfOneApp } from './two-nodes.js';
import * as ways from './ways.js';

export { ADAPTERS, ONE_ADAPTER, type Adapter } from './adapters.js';
export type { TestTool } from './test-tools.js';

export interface TestAppOptions extends Partial<McpStreamableOptions>, McpStreamableExtras {
  adapter: Adapter;
  /** Tools that are functions of the test, as decorated handlers. */
  tools?: Record<string, TestTool>;
  /** Where handlers are. */
  providers?: Provider[];
  clock?: McpClock & { readonly pending: number };
  /** More of the app around the endpoint. */
  module?: ModuleMetadata;
  /** Before `listen()`. */
  configure?: (app: INestApplication) => void | Promise<void>;
  /**
   * Whether `RawClient` and its like go over a socket of the system. Where the network plays no part they need none: their
   * connections are pairs of streams (`McpAppAgent`). The app listens in any case, for those that make sockets themselves.
   *
   * @default false
   */
  port?: boolean;
  /** The address to listen on. @default 127.0.0.1 */
  address?: string;
}

export const serverInfo = { name: 'test', version: '1.0.0' };

/** Turns of the event loop in which an app settles when nothing keeps it. */
const SOME_TURNS = 40;
const HELD_TURNS = 8;

/** All nodes on a clock, also of other apps. */
const NODES_OF = new WeakMap<object, TestNode[]>();

/** Timers that are armed on a clock, but for those that look for expired sessions. */
function timersOn(clock: object): number {
  return timersOf((NODES_OF.get(clock) ?? []).flatMap(({ app }) => endpointsOf(app)));
}

/** Starts one process of an app. */
async function listening(
  { adapter, clock, configure, address = '127.0.0.1' }: TestAppOptions & { clock: McpClock },
  module: ModuleMetadata,
  log: RecordedLog,
  path: string,
): Promise<TestNode> {
  const compiling = Test.createTestingModule(module).overrideProvider(McpClock).useValue(clock).setLogger(log);
  const testing = await compiling.compile();
  const app =
    adapter === 'express'
      ? testing.createNestApplication(new ExpressAdapter())
      : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
  try {
    await configure?.(app);
    await app.listen(0, address);
  } catch (error) {
    await app.close();
    throw error;
  }
  const node: TestNode = {
    app,
    url: `${(await app.getUrl()).replace('[::1]', '127.0.0.1')}/${path}`,
    get service() {
      return app.get(McpSessionService, { strict: false });
    },
  };
  NODES_OF.set(clock, [...(NODES_OF.get(clock) ?? []), node]);
  return node;
}

/** One process of an app. */
export interface TestNode {
  readonly app: INestApplication;
  readonly url: string;
  readonly service: McpSessionService;
}

/**
 * A Nest app with one endpoint, which serves decorated handlers: those of its module, and tools that are functions of the
 * test. With `NODES=2` in the environment it is two, with requests spread over them (`npm run x -- test:nodes`).
 */
export class TestApp {
  private constructor(
    readonly nodes: readonly TestNode[],
    readonly url: string,
    readonly clock: McpClock & { readonly pending: number },
    /** What the app logs, instead of the console. */
    readonly log: RecordedLog,
    private readonly cluster?: NodesOfOneApp,
  ) {}

  static async start(options: TestAppOptions): Promise<TestApp> {
    const { clock = new TrackedClock() } = options;
    const log = new RecordedLog();
    const startNode = (more: TestAppOptions) => TestApp.#startNode({ ...more, clock }, log);
    if (process.env['NODES'] !== '2') {
      const node = await startNode(options);
      return new TestApp([node], node.url, clock, log);
    }
    const { skipForOptions } = await import('./one-node.js');
    skipForOptions(options);
    const { NodesOfOneApp } = await import('./two-nodes.js');
    const cluster = await NodesOfOneApp.start(options, startNode);
    return new TestApp(cluster.nodes, cluster.url, clock, log, cluster);
  }

  /** An app of any modules, made as an application makes it; it is one node, whose clients use sockets of the system. */
  static async of(
    adapter: Adapter,
    module: ModuleMetadata,
    configure?: (app: INestApplication) => void | Promise<void>,
    clock: TestApp['clock'] = new TrackedClock(),
  ): Promise<TestApp> {
    const log = new RecordedLog();
    const node = await listening({ adapter, clock, ...(configure && { configure }) }, module, log, 'mcp');
    return new TestApp([node], node.url, clock, log);
  }

  static async #startNode(options: TestAppOptions & { clock: McpClock }, log: RecordedLog): Promise<TestNode> {
    const {
      adapter: _,
      tools = {},
      providers: handlers = [],
      clock: __,
      module = {},
      configure: ___,
      ...rest
    } = options;
    const { port = false, address: ____, ...moduleOptions } = rest;
    const endpoint = McpStreamableModule.forRoot({
      serverInfo,
      // On a machine that stalls for half a second, the default, an answer would begin a stream.
      sseAfterMs: 3_600_000,
      // Nodes that share their sessions must have keys.
      ...(moduleOptions.backend && { requestStateKeys: ['a secret that all nodes of a deployment know'] }),
      ...moduleOptions,
    });
    const imports = [...(module.imports ?? []), endpoint];
    const providers = [...(module.providers ?? []), ...handlers, testTools(tools)];
    const node = await listening(options, { ...module, imports, providers }, log, moduleOptions.path ?? 'mcp');
    if (!port && process.env['NODES'] !== '2') {
      const { app, url } = node;
      ways.open(new URL(url).origin, await McpAppAgent.of(app), app.getHttpServer() as NetServer);
    }
    return node;
  }

  /** The app; of several nodes the first. */
  get app(): INestApplication {
    return this.nodes[0]!.app;
  }

  get service(): McpSessionService {
    return this.nodes[0]!.service;
  }

  /** Open responses that are streams. */
  get openResponses(): number {
    return sum(this.nodes.flatMap(({ app }) => endpointsOf(app).map((each) => each.get(McpResponder).open)));
  }

  /** Open responses that wait for their client to read. */
  get pausedResponses(): number {
    return sum(this.nodes.map(({ app }) => app.get(McpResponder, { strict: false }).paused));
  }

  /** Where the app listens, without a path. */
  get base(): string {
    return new URL(this.url).origin;
  }

  client(headers?: Record<string, string>): RawClient {
    return new RawClient(this.url, headers);
  }

  /** A client of the endpoint at a path. */
  clientAt(path: string, headers?: Record<string, string>): RawClient {
    return new RawClient(`${this.base}/${path}`, headers);
  }

  modern(headers?: Record<string, string>): ModernClient {
    return new ModernClient(this.url, headers);
  }

  /** Waits until the counts are as wanted. */
  async settled({ streams, ...others }: Partial<McpLeftovers>): Promise<void> {
    // What one node writes and another reads is a stream of both: of several nodes only their end tells something.
    const told = streams !== undefined && (streams === 0 || this.nodes.length === 1);
    const expected = told ? { ...others, streams } : others;
    if (others.timers === 0 && this.cluster) {
      const { timers: _, ...all } = expected;
      await this.settled(all);
      await this.cluster.looksAgain();
    }
    // Mostly it is so at once, or some turns later: `poll` waits for its interval first.
    for (let turn = 0, held = 0; turn < SOME_TURNS; turn++) {
      const state: Partial<McpLeftovers> = await this.#state();
      const holds = Object.entries(expected).every(([name, count]) => state[name as keyof McpLeftovers] === count);
      held = holds ? held + 1 : 0;
      // Some more turns, so that what follows from it has been said.
      if (held === HELD_TURNS) return;
      await nextTurn();
    }
    await expect.poll(() => this.#state()).toMatchObject(expected);
  }

  /** Ends what is there, and expects that nothing at all is left of it. */
  async expectNothingLeft(): Promise<void> {
    for (const endpoint of endpointsOf(this.app)) await endpoint.get(McpSessionService).terminateAll();
    await this.settled(NOTHING);
  }

  /** Expects that nothing is left, then stops the app. */
  async close(): Promise<void> {
    await this.expectNothingLeft();
    await this.stop();
  }

  /** Gives up the live copies of a session, and keeps its record. */
  async release(id: string): Promise<void> {
    await Promise.all(this.nodes.map(({ service }) => service.release(id)));
  }

  /** Stops the app as it is. */
  async shutDown(): Promise<void> {
    await Promise.all(this.nodes.map(({ app }) => app.close()));
    for (const { url } of this.nodes) ways.close(new URL(url).origin);
  }

  /** Stops the app, and expects that it leaves nothing behind. */
  async stop(): Promise<void> {
    await this.shutDown();
    this.log.release();
    expect(timersOn(this.clock)).toBe(0);
    await this.cluster?.closed();
  }

  async #state(): Promise<McpLeftovers> {
    const nodes = await Promise.all(this.nodes.map(({ app }) => leftIn(endpointsOf(app))));
    const own = OF_ONE_NODE.map((name) => [name, sum(nodes.map((counts) => counts[name]))]);
    const counts: McpLeftovers = { ...nodes[0]!, ...Object.fromEntries(own), timers: timersOn(this.clock) };
    if (!this.cluster) return counts;
    const live = new Set(
      this.nodes.flatMap(({ service }) => [...service['sessions'].all()].map(({ session }) => session.sessionId)),
    );
    const inboxes = await this.#inboxes();
    counts.live = live.size;
    counts.loggedStreams -= inboxes.length;
    counts.events -= sum(inboxes.map(({ last, oldest }) => last - oldest + 1));
    return { ...counts, states: await this.cluster.states() };
  }

  /** What nodes have handed on to each other: it lies in the log of its session, and no client ever sees it. */
  async #inboxes(): Promise<McpStreamHead[]> {
    const store = this.app.get<McpEventStore>(McpEventStore, { strict: false });
    const sessions = await this.service.list();
    const looks = await Promise.allSettled(sessions.map(async ({ id }) => store.read(id, MCP_INBOX_STREAM, 0, 0)));
    return looks.flatMap((look) => (look.status === 'fulfilled' ? [look.value] : []));
  }
}

/** What each node counts for itself. A session that is live on two nodes counts once. */
const OF_ONE_NODE = [
  'inFlight',
  'outbound',
  'streams',
  'readers',
  'subscriptions',
  'tasks',
  'heldBytes',
  'openResponses',
] as const;

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

/** What `settled()` waits for at the end. */
export const NOTHING: McpLeftovers = {
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
  states: 0,
  openResponses: 0,
  timers: 0,
};

/** Why an app with these modules does not start. */
export async function startFailure(
  adapter: Adapter,
  module: () => ModuleMetadata,
  configure?: (app: INestApplication) => void,
): Promise<Error> {
  let app: TestApp;
  try {
    app = await TestApp.of(adapter, module(), configure);
  } catch (error) {
    return error as Error;
  }
  await app.close();
  throw new Error('The app started.');
}

/** What the tool `whoami` said. */
export async function whoami(client: RawClient): Promise<string> {
  const response = await client.call('whoami');
  const body = await response.json();
  if (response.status !== 200) throw new Error(`${response.status} ${JSON.stringify(body)}`);
  return body.result.content[0].text as string;
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
