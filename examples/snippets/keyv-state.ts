// #region keyv
import { Module } from '@nestjs/common';
import { Keyv } from 'keyv';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'shop', version: '1.0.0' },
      // Give it the adapter of your database as its `store`. It must throw errors: see
      // below.
      stateStore: new Keyv({ throwOnErrors: true, namespace: 'mcp-state' }),
    }),
  ],
})
export class AppModule {}
// #endregion
