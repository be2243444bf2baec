// #region module
import { Injectable, Module } from '@nestjs/common';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';

@Injectable()
export class NoteTools {
  @Tool({ name: 'last_note', description: 'Reads the last note' })
  last(): string {
    return 'Call Bo.';
  }
}

@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      useFactory: () => ({
        serverInfo: { name: 'notes', version: '1.0.0' },
        auth: {
          resource: 'https://api.example.com/mcp',
          authorizationServers: ['https://idp.example.com/'],
          jwt: { jwksUri: process.env.JWKS_URI },
        },
      }),
    }),
  ],
  providers: [NoteTools],
})
export class NotesModule {}
// #endregion
