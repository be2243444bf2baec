import type { Server as HttpServer } from 'node:http';
// #region serve
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/server';
import { createMcpSession, serveMcpSession } from 'nestjs-mcp-streamable/standalone';

export async function serveOneSession(port: number): Promise<HttpServer> {
  const server = new McpServer({ name: 'single', version: '1.0.0' });
  server.registerTool('ping', {}, () => ({ content: [{ type: 'text', text: 'pong' }] }));

  const session = await createMcpSession(server, {
    onEvent: (event) => console.log(event.type),
  });
  const http = createServer(serveMcpSession(session)).listen(port, '127.0.0.1');
  session.closed$.subscribe(() => http.close());
  return http;
}
// #endregion
