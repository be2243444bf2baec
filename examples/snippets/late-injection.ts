import { McpServer } from '@modelcontextprotocol/server';
import { Module } from '@nestjs/common';
// #region late
import { ModuleRef } from '@nestjs/core';
import { McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';

const endpoint = McpStreamableModule.forRootAsync({
  inject: [ModuleRef],
  useFactory: (moduleRef: ModuleRef) => ({
    serverInfo: { name: 'orders', version: '1.0.0' },
    server: () => {
      // The app has started by now; while the options are made there is no service yet.
      const sessions = moduleRef.get(McpSessionService, { strict: false });
      return makeServer(sessions);
    },
  }),
});
// #endregion

function makeServer(sessions: McpSessionService): McpServer {
  const server = new McpServer({ name: 'orders', version: '1.0.0' });
  server.registerTool('count_sessions', {}, async () => ({
    content: [{ type: 'text', text: String((await sessions.list()).length) }],
  }));
  return server;
}

@Module({ imports: [endpoint] })
export class AppModule {}
