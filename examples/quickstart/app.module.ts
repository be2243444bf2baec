import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { DocsNotifier } from './docs-notifier.service.js';
import { DocsModule } from './docs.module.js';
import { DocsServer, SERVER_INFO } from './docs.server.js';

@Module({
  imports: [
    DocsModule,
    McpStreamableModule.forRootAsync({
      imports: [DocsModule],
      inject: [DocsServer],
      useFactory: (docs: DocsServer) => ({
        serverInfo: SERVER_INFO,
        server: ({ session }) => docs.create(session.id),
      }),
    }),
  ],
  providers: [DocsNotifier],
})
export class AppModule {}
