import { type DynamicModule, Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { NotesTools } from './notes.tools.js';

/** An endpoint that only callers with a token of the authorization server may use. */
@Module({})
export class AppModule {
  static protectedBy(issuer: string, resource: string): DynamicModule {
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'notes', version: '1.0.0' },
      auth: {
        resource,
        authorizationServers: [issuer],
        requiredScopes: ['notes:read'],
        implies: { 'notes:write': ['notes:read'] },
        resourceName: 'Notes',
      },
    });
    return { module: AppModule, imports: [endpoint], providers: [NotesTools] };
  }
}
