import {
  Inject,
  Injectable,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { McpRegistry } from 'nestjs-mcp-streamable';
import type { Subscription } from 'rxjs';
import { type DocChange, DocsWatcher } from './docs-watcher.service.js';
import { DocsService } from './docs.service.js';
import { uriOf } from './docs.uri.js';

/**
 * Lists each document as a resource. The registry notifies clients when the list
 * changes.
 */
@Injectable()
export class DocsCatalog implements OnModuleInit, OnModuleDestroy {
  readonly #listed = new Map<string, { remove(): boolean }>();
  #watching: Subscription | undefined;

  constructor(
    @Inject(DocsService) private readonly docs: DocsService,
    @Inject(DocsWatcher) private readonly watcher: DocsWatcher,
    @Inject(McpRegistry) private readonly registry: McpRegistry,
  ) {}

  /** Settles when the documents of the start are listed. */
  onModuleInit(): Promise<void> {
    return new Promise((resolve, reject) => {
      const follow = (changes: DocChange[]): void => {
        for (const change of changes) this.#follow(change);
        resolve();
      };
      this.#watching = this.watcher.changes$.subscribe({ next: follow, error: reject });
    });
  }

  onModuleDestroy(): void {
    this.#watching?.unsubscribe();
  }

  #follow({ type, name }: DocChange): void {
    if (type === 'removed') this.#listed.get(name)?.remove();
    if (type === 'added') this.#listed.set(name, this.#list(name));
  }

  #list(name: string): { remove(): boolean } {
    const handler = (): Promise<string> => this.docs.read(name);
    return this.registry.registerResource({
      uri: uriOf(name),
      name,
      mimeType: 'text/markdown',
      handler,
    });
  }
}
