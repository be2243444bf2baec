import { Module } from '@nestjs/common';
import { McpClientModule } from 'nestjs-mcp-streamable/client';
import { DocsSearch } from './docs-search.service.js';
import { DOCS_URL, docsUrl } from './settings.js';

@Module({ providers: [{ provide: DOCS_URL, useFactory: docsUrl }], exports: [DOCS_URL] })
export class SettingsModule {}

@Module({
  imports: [
    McpClientModule.forRootAsync({
      names: ['docs'],
      imports: [SettingsModule],
      inject: [DOCS_URL],
      useFactory: (url: string) => ({ clients: { docs: { url } } }),
    }),
  ],
  providers: [DocsSearch],
})
export class AppModule {}
