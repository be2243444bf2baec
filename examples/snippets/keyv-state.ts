// #region keyv
import { Module } from '@nestjs/common';
import { Keyv } from 'keyv';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'shop', version: '1.0.0' },
      // Pass the adapter of your database as `store`. `throwOnErrors` is explained
      // below.
      stateStore: new Keyv({ throwOnErrors: true, namespace: 'mcp-state' }),
    }),
  ],
})
export class AppModule {}
// #endregion
