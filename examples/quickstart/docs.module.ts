import { Module } from '@nestjs/common';
import { DocsCatalog } from './docs-catalog.service.js';
import { DocsIndex } from './docs-index.js';
import { DocsNotifier } from './docs-notifier.service.js';
import { DocsWatcher } from './docs-watcher.service.js';
import { DocsQuestions } from './docs.questions.js';
import { DocsResources } from './docs.resources.js';
import { DOCS_DIR, DocsService } from './docs.service.js';
import { DocsSkills } from './docs.skills.js';
import { DocsTools } from './docs.tools.js';
import { readSettings } from './settings.js';

@Module({
  providers: [
    { provide: DOCS_DIR, useFactory: () => readSettings(process.env).docsDir },
    DocsService,
    DocsIndex,
    DocsWatcher,
    DocsCatalog,
    DocsNotifier,
    DocsTools,
    DocsQuestions,
    DocsResources,
    DocsSkills,
  ],
})
export class DocsModule {}
