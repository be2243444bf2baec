import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import {
  createMcpHandler,
  type JSONRPCMessage,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { ONE_ADAPTER, gate, TestApp, type TestTool } from '../support/app.js';

/** A running server with the tools of {@link tools}, whoever made it. */
export interface RunningServer {
  readonly url: string;
  /** Calls of `wait` that were cancelled. */
  readonly cancelled: unknown[];
  /** Lets the calls of `held` go on. */
  release(): void;
  /** Sessions that are live. */
  sessions(): Promise<number>;
  /** Tells every session that the list of tools has changed. */
  change(): Promise<void>;
  /** Stops; ours fails if anything is left. */
  close(): Promise<void>;
}

interface ServerKind {
  readonly name: string;
  start(): Promise<RunningServer>;
}

interface Doing {
  signal: AbortSignal;
  progress(n: number): Promise<void>;
  /** Asks the user of the client for a name. */
  ask(): Promise<string>;
}

/** What the calls of one server did, and what they wait for. */
class Doings {
  readonly cancelled: unknown[] = [];
  readonly gate = gate();
}

/** What the tools do: `count` reports progress up to `to`, `held` waits after the third, `wait` waits to be cancelled, `ask` asks the client. */
function tools({
  cancelled,
  gate: { promise },
}: Doings): Record<string, (args: { to?: number }, doing: Doing) => Promise<string>> {
  return {
    count: async ({ to = 3 }, { progress }) => {
      for (let n = 1; n <= to; n++) await progress(n);
      return `counted ${to}`;
    },
    held: async ({ to = 6 }, { progress }) => {
      for (let n = 1; n <= 3; n++) await progress(n);
      await promise;
      for (let n = 4; n <= to; n++) await progress(n);
      return `counted ${to}`;
    },
    wait: async (_, { signal, progress }) => {
      await progress(0);
      await once(signal, 'abort');
      cancelled.push(signal.reason);
      return 'cancelled';
    },
    ask: async (_, { ask }) => `Hello ${await ask()}`,
  };
}

/** The SDK's example sorts events of one millisecond by chance. */
class OrderedEvents {
  readonly #events: { stream: string; message: JSONRPCMessage }[] = [];

  storeEvent(stream: string, message: JSONRPCMessage): Promise<string> {
    return Promise.resolve(`${this.#events.push({ stream, message }) - 1}`);
  }

  getStreamIdForEventId(id: string): Promise<string | undefined> {
    return Promise.resolve(this.#events[Number(id)]?.stream);
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (id: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const after = Number(lastEventId);
    const { stream } = this.#events[after]!;
    for (const [id, event] of this.#events.entries()) {
      if (id > after && event.stream === stream && Object.keys(event.message).length > 0)
        await send(`${id}`, event.message);
    }
    return stream;
  }
}

const INFO = { name: 'peer', version: '1.0.0' };
const QUESTION = { type: 'object' as const, properties: { name: { type: 'string' as const } }, required: ['name'] };
const text = (said: string) => ({ content: [{ type: 'text' as const, text: said }] });

const ours: ServerKind[] = ONE_ADAPTER.map((adapter) => ({
  name: `ours on ${adapter}`,
  start: async () => {
    const doings = new Doings();
    const decorated = Object.entries(tools(doings)).map(([name, run]): [string, TestTool] => [
      name,
      (args, ctx) =>
        run(args, {
          signal: ctx.signal,
          progress: (n) => ctx.progress(n),
          ask: async () => nameOf(await ctx.elicit('who', { message: 'Who?', requestedSchema: QUESTION })),
        }),
    ]);
    const app = await TestApp.start({ adapter, tools: Object.fromEntries(decorated), retryMs: 10 });
    return {
      url: app.url,
      cancelled: doings.cancelled,
      release: () => doings.gate.open(),
      close: () => app.close(),
      sessions: async () => (await app.service.counts()).sessions,
      change: async () => {
        await app.service.announce({ method: 'notifications/tools/list_changed' });
      },
    };
  },
}));

const sdkV1: ServerKind = {
  name: '@modelcontextprotocol/sdk 1.32',
  start: async () => {
    const doings = new Doings();
    const sessions = new Map<string, { transport: StreamableHTTPServerTransport; server: McpServerV1 }>();
    const begin = async (): Promise<StreamableHTTPServerTransport> => {
      const server = new McpServerV1(INFO, { capabilities: { tools: { listChanged: true } } });
      for (const [name, run] of Object.entries(tools(doings))) {
        server.registerTool(name, { inputSchema: { to: z.number().optional() } }, async (args, extra) => {
          const doing: Doing = {
            signal: extra.signal,
            progress: (n) => report(extra._meta?.progressToken, n, (note) => extra.sendNotification(note)),
            ask: async () =>
              nameOf(
                await server.server.elicitInput(
                  { message: 'Who?', requestedSchema: QUESTION },
                  { relatedRequestId: extra.requestId },
                ),
              ),
          };
          return text(await run(args, doing));
        });
      }
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new OrderedEvents(),
        retryInterval: 10,
        onsessioninitialized: (id) => void sessions.set(id, { transport, server }),
        onsessionclosed: (id) => void sessions.delete(id),
      });
      await server.connect(transport);
      return transport;
    };
    return serve(doings, {
      sessions: () => sessions.size,
      change: () => [...sessions.values()].forEach(({ server }) => server.sendToolListChanged()),
      handle: async (request, response) => {
        const id = request.headers['mcp-session-id'] as string | undefined;
        const transport = id === undefined ? await begin() : sessions.get(id)?.transport;
        if (transport) await transport.handleRequest(request, response);
        else response.writeHead(404).end();
      },
    });
  },
};

const sdkV2: ServerKind = {
  name: '@modelcontextprotocol/server 2.4, with sessions',
  start: async () => {
    const doings = new Doings();
    const sessions = new Map<string, { transport: WebStandardStreamableHTTPServerTransport; server: McpServer }>();
    const begin = async (): Promise<WebStandardStreamableHTTPServerTransport> => {
      const server = serverV2(doings);
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new OrderedEvents(),
        retryInterval: 10,
        onsessioninitialized: (id) => void sessions.set(id, { transport, server }),
        onsessionclosed: (id) => void sessions.delete(id),
      });
      await server.connect(transport);
      return transport;
    };
    return serve(doings, {
      sessions: () => sessions.size,
      change: () => [...sessions.values()].forEach(({ server }) => server.sendToolListChanged()),
      handle: async (request, response) => {
        const id = request.headers['mcp-session-id'] as string | undefined;
        const transport = id === undefined ? await begin() : sessions.get(id)?.transport;
        if (transport) await bridge((web) => transport.handleRequest(web), request, response);
        else response.writeHead(404).end();
      },
    });
  },
};

/** Servers with sessions, that is of the 2025 revisions. */
export const SESSION_SERVERS: readonly ServerKind[] = [...ours, sdkV1, sdkV2];

/** Our own, with decorated handlers, as a server of 2026-07-28. */
const oursModern: ServerKind[] = ONE_ADAPTER.map((adapter) => ({
  name: `ours on ${adapter}, 2026-07-28`,
  start: async () => {
    const doings = new Doings();
    const run = tools(doings);
    @Injectable()
    class Decorated {
      @Tool({ name: 'count', inputSchema: z.object({ to: z.number().optional() }) })
      count(@McpArgs() args: { to?: number }, @McpCtx() ctx: McpContext): Promise<string> {
        return run.count!(args, { signal: ctx.signal, progress: (progress) => ctx.progress(progress), ask: never });
      }
      @Tool({ name: 'wait' })
      wait(@McpCtx() ctx: McpContext): Promise<string> {
        return run.wait!({}, { signal: ctx.signal, progress: (progress) => ctx.progress(progress), ask: never });
      }
    }
    const app = await TestApp.start({ adapter, server: undefined, module: { providers: [Decorated] } });
    return {
      url: app.url,
      cancelled: doings.cancelled,
      release: () => doings.gate.open(),
      close: () => app.close(),
      sessions: async () => (await app.service.counts()).sessions,
      change: async () => {
        await app.service.announce({ method: 'notifications/tools/list_changed' });
      },
    };
  },
}));

const never = (): Promise<string> => new Promise(() => {});

/** The SDK's server of 2026-07-28. */
const sdkModern: ServerKind = {
  name: '@modelcontextprotocol/server 2.4, 2026-07-28',
  start: () => {
    const doings = new Doings();
    const handler = createMcpHandler(() => serverV2(doings), { legacy: 'reject' });
    return serve(doings, {
      sessions: () => 0,
      change: () => handler.notify.toolsChanged(),
      handle: (request, response) => bridge((web) => handler.fetch(web), request, response),
    });
  },
};

/** Servers without sessions. */
export const MODERN_SERVERS: readonly ServerKind[] = [...oursModern, sdkModern];

function serverV2(doings: Doings): McpServer {
  const server = new McpServer(INFO, { capabilities: { tools: { listChanged: true } } });
  for (const [name, run] of Object.entries(tools(doings))) {
    server.registerTool(name, { inputSchema: z.object({ to: z.number().optional() }) }, async (args, ctx) =>
      text(
        await run(args, {
          signal: ctx.mcpReq.signal,
          progress: (n) => report(ctx.mcpReq._meta?.progressToken, n, (note) => ctx.mcpReq.notify(note)),
          ask: async () => nameOf(await ctx.mcpReq.elicitInput({ message: 'Who?', requestedSchema: QUESTION })),
        }),
      ),
    );
  }
  return server;
}

type Progress = { method: 'notifications/progress'; params: { progressToken: string | number; progress: number } };

async function report(
  progressToken: string | number | undefined,
  progress: number,
  notify: (note: Progress) => Promise<void>,
): Promise<void> {
  if (progressToken !== undefined)
    await notify({ method: 'notifications/progress', params: { progressToken, progress } });
}

const nameOf = (answer: unknown): string => (answer as { content?: { name?: string } }).content?.name ?? 'nobody';

interface Served {
  sessions(): number;
  change(): void;
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

async function serve(
  { cancelled, gate: { open } }: Doings,
  { sessions, change, handle }: Served,
): Promise<RunningServer> {
  const server: HttpServer = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    cancelled,
    release: () => open(),
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    sessions: () => Promise.resolve(sessions()),
    change: () => Promise.resolve(change()),
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** A web-standard handler behind `node:http`; who leaves cancels the body. */
async function bridge(
  handler: (request: Request) => Promise<Response>,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const { method = 'GET', headers, url } = incoming;
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const body = chunks.length === 0 ? {} : { body: new Uint8Array(Buffer.concat(chunks)) };
  const init = { method, headers: headers as Record<string, string>, signal: gone.signal, ...body };
  const answer = await handler(new Request(new URL(url!, 'http://127.0.0.1'), init));
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.flushHeaders();
  if (!answer.body) return void response.end();
  const stream = Readable.fromWeb(answer.body);
  stream.on('error', () => response.destroy());
  response.once('close', () => stream.destroy());
  stream.pipe(response);
}
