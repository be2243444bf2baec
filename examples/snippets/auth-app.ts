// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'notes', version: '1.0.0' },
      auth: {
        resource: 'https://api.example.com/mcp', // the endpoint, as clients know it
        // where clients log in: the issuer, exactly as that server's metadata has it
        authorizationServers: ['https://idp.example.com/'],
        requiredScopes: ['notes:read'],
      },
    }),
  ],
})
export class AppModule {}
// #endregion
