import { Module } from '@nestjs/common';
import { DocsWatcher } from './docs-watcher.service.js';
import { DocsServer } from './docs.server.js';
import { DOCS_DIR, DocsService } from './docs.service.js';
import { readSettings } from './settings.js';

@Module({
  providers: [
    { provide: DOCS_DIR, useFactory: () => readSettings(process.env).docsDir },
    DocsService,
    DocsWatcher,
    DocsServer,
  ],
  exports: [DocsServer, DocsWatcher],
})
export class DocsModule {}
