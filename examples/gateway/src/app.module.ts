import { Logger, Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { ApiKeyGuard, TICKET_TOKENS } from './accounts.js';
import { GatewayPlugin, REMOTES } from './gateway/gateway.plugin.js';
import type { RemoteOptions } from './gateway/remote.options.js';

const { WEATHER_URL = 'http://127.0.0.1:3001/mcp', TICKETS_URL = 'http://127.0.0.1:3002/mcp' } = process.env;

const remotes: RemoteOptions[] = [
  { name: 'weather', url: WEATHER_URL, tool: () => ({ timeoutMs: 20_000, maxConcurrent: 10 }) },
  {
    name: 'tickets',
    url: TICKETS_URL,
    // Each user has its own session and its own token there.
    token: ({ principal }) => TICKET_TOKENS.get(principal),
    tool: ({ annotations }) => (annotations?.destructiveHint ? { confirm: 'Close the ticket {id} for good?' } : {}),
  },
];

const audit = new Logger('Audit');

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'gateway', version: '1.0.0' },
      guards: [ApiKeyGuard],
    }),
    McpAuditModule.forRoot({
      sink: { write: (record) => audit.log(JSON.stringify(record)) },
    }),
  ],
  providers: [ApiKeyGuard, GatewayPlugin, { provide: REMOTES, useValue: remotes }],
})
export class AppModule {}
