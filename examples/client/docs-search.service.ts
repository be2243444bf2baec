import { Injectable } from '@nestjs/common';
import { InjectMcp, McpClient } from 'nestjs-mcp-streamable/client';
import { type Observable, of, switchMap } from 'rxjs';
import { type Line, progressBar } from './progress-bar.js';

/** Searches the documents of the quickstart. */
@Injectable()
export class DocsSearch {
  constructor(@InjectMcp(McpClient, 'docs') private readonly docs: McpClient) {}

  /** Unsubscribing cancels the search on the server. */
  search$(query: string): Observable<Line> {
    return this.docs.callTool$('search_docs', { query }).pipe(
      switchMap((event) => {
        if (event.type === 'progress') {
          return of({ text: progressBar(event.progress, event.total, event.message), passing: true });
        }
        const texts = event.result.content.map((part) => (part.type === 'text' ? part.text : `(${part.type})`));
        return of(...texts.map((text) => ({ text, passing: false })));
      }),
    );
  }
}
