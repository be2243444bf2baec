import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, isInitializeRequest, type JSONRPCMessage, McpServer } from '@modelcontextprotocol/server';
import express, { type Request, type Response } from 'express';
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';
import { report } from '../agent.js';
import { ADD_DESCRIPTION, ADDING_TOOLS, PROGRESS_DESCRIPTION, reportAll, SERVER_INFO, sum } from '../tools.js';
import { SessionEventStore } from './event-store.js';

/**
 * `@modelcontextprotocol/server` on Express, as its documentation does it: at `/mcp` a server and a transport per session, at
 * `/modern` its handler of 2026-07-28, with a server per request.
 */
const { PORT = '3000', ANSWERS = 'json', RESUMABLE } = process.env;

const live = new Map<string, { server: McpServer; transport: NodeStreamableHTTPServerTransport }>();
const Terms = z.object({ a: z.number(), b: z.number() });
const Times = z.object({ n: z.number() });

function createServer(): McpServer {
  const server = new McpServer(SERVER_INFO, { capabilities: { logging: {} } });
  for (const name of ADDING_TOOLS) {
    server.registerTool(name, { description: ADD_DESCRIPTION, inputSchema: Terms }, (args) => sum(args));
  }
  const config = { description: PROGRESS_DESCRIPTION, inputSchema: Times };
  server.registerTool('progress', config, (args, { mcpReq }) =>
    reportAll(args, async (progress, total) => {
      const progressToken = mcpReq._meta?.progressToken;
      if (progressToken === undefined) return;
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
    }),
  );
  return server;
}

async function createSession(): Promise<NodeStreamableHTTPServerTransport> {
  const server = createServer();
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: ANSWERS === 'json',
    ...(RESUMABLE && { eventStore: new SessionEventStore<JSONRPCMessage>() }),
    onsessioninitialized: (id) => void live.set(id, { server, transport }),
    onsessionclosed: (id) => void live.delete(id),
  });
  await server.connect(transport);
  return transport;
}

async function serve(request: Request, response: Response): Promise<void> {
  const id = request.headers['mcp-session-id'];
  const known = typeof id === 'string' ? live.get(id)?.transport : undefined;
  if (!known && (id !== undefined || !isInitializeRequest(request.body))) {
    response.status(id === undefined ? 400 : 404).end();
    return;
  }
  const transport = known ?? (await createSession());
  await transport.handleRequest(request, response, request.body);
}

const modern = toNodeHandler(createMcpHandler(createServer, { legacy: 'reject' }));
const app = express();
app.use(express.json());
app.all('/mcp', serve);
app.all('/modern', (request, response) => modern(request, response, request.body));
const listener = app.listen(Number(PORT), '127.0.0.1', () => {
  report(`http://127.0.0.1:${(listener.address() as AddressInfo).port}`, {
    notify: (data) => {
      const params = { level: 'info' as const, data };
      return Promise.all(
        Array.from(live.values(), ({ server }) =>
          server.server.notification({ method: 'notifications/message', params }),
        ),
      );
    },
  });
});
