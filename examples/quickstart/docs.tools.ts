import { Inject, Injectable } from '@nestjs/common';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  Tool,
  type ToolEvent,
  toolProgress,
} from 'nestjs-mcp-streamable';
import { concat, defer, map, type Observable, of, takeWhile, tap } from 'rxjs';
import { z } from 'zod';
import { DocsNotifier } from './docs-notifier.service.js';
import { DocsService } from './docs.service.js';

const Search = z.object({
  query: z.string().min(1),
  limit: z.int().positive().default(20),
});

/** What a model can do with the documents. */
@Injectable()
export class DocsTools {
  constructor(
    @Inject(DocsService) private readonly docs: DocsService,
    @Inject(DocsNotifier) private readonly notifier: DocsNotifier,
  ) {}

  /** Reports each document that is done; a client that cancels unsubscribes. */
  @Tool({
    name: 'search_docs',
    title: 'Search the documents',
    description: 'Finds the lines of all documents that contain a text',
    inputSchema: Search,
    annotations: { readOnlyHint: true },
  })
  search(
    @McpArgs() { query, limit }: z.infer<typeof Search>,
  ): Observable<ToolEvent<string>> {
    const found: string[] = [];
    const progress$ = this.docs.search(query).pipe(
      tap(({ matches }) => found.push(...matches)),
      takeWhile(() => found.length < limit, true),
      map(({ name, done, total }) => toolProgress(done, total, name)),
    );
    return concat(
      progress$,
      defer(() => of(found.slice(0, limit).join('\n') || 'Nothing found.')),
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
