import { Inject, Injectable } from '@nestjs/common';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  Tool,
  type ToolEvent,
  toolProgress,
} from 'nestjs-mcp-streamable';
import { concat, defer, map, type Observable, of } from 'rxjs';
import { z } from 'zod';
import { DocsIndex } from './docs-index.js';
import { DocsNotifier } from './docs-notifier.service.js';
import { DocsService } from './docs.service.js';

const Search = z.object({
  query: z.string().min(1).describe('A question, or words that a page must have'),
  limit: z.int().positive().default(10),
});

/** What a model can do with the documents. */
@Injectable()
export class DocsTools {
  constructor(
    @Inject(DocsService) private readonly docs: DocsService,
    @Inject(DocsIndex) private readonly index: DocsIndex,
    @Inject(DocsNotifier) private readonly notifier: DocsNotifier,
  ) {}

  /** Reports each document that is done; a client that cancels unsubscribes. */
  @Tool({
    name: 'search_docs',
    title: 'Search the documents',
    description: 'Finds the sections that answer a question, the best first',
    inputSchema: Search,
    annotations: { readOnlyHint: true },
  })
  search(
    @McpArgs() { query, limit }: z.infer<typeof Search>,
  ): Observable<ToolEvent<string>> {
    const progress$ = this.index
      .update()
      .pipe(map(({ name, done, total }) => toolProgress(done, total, name)));
    const found = (): string => this.index.find(query, limit).join('\n');
    return concat(
      progress$,
      defer(() => of(found() || 'Nothing found.')),
    );
  }

  @Tool({
    name: 'read_doc',
    title: 'Read a document',
    description: 'Reads a document',
    inputSchema: z.object({ name: z.string() }),
    annotations: { readOnlyHint: true },
  })
  read(@McpArgs('name') name: string): Promise<string> {
    return this.docs.read(name);
  }

  @Tool({
    name: 'watch_docs',
    title: 'Watch the documents',
    description: 'Notifies this session of documents that change',
    annotations: { readOnlyHint: false, destructiveHint: false },
  })
  watch(@McpCtx() { session }: McpContext): string {
    if (!session) return 'This call has no session to notify.';
    this.notifier.listeners.add(session.id);
    return 'This session is notified of changes until it ends.';
  }
}
