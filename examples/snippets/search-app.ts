// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { SearchMethods } from './search.methods.js';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'library', version: '1.0.0' },
      extensions: { 'com.acme/search': { languages: ['en'] } },
    }),
  ],
  providers: [SearchMethods],
})
export class AppModule {}
// #endregion
