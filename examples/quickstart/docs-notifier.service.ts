import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { filter, Subscription } from 'rxjs';
import { type DocChange, DocsWatcher } from './docs-watcher.service.js';
import { uriOf } from './docs.results.js';

/** Tells the sessions that asked for it what has changed. No request is being handled then: it is the server that begins. */
@Injectable()
export class DocsNotifier implements OnModuleInit, OnModuleDestroy {
  readonly #subscriptions = new Subscription();

  constructor(
    @Inject(DocsWatcher) private readonly watcher: DocsWatcher,
    @Inject(McpSessionService) private readonly sessions: McpSessionService,
  ) {}

  onModuleInit(): void {
    const { listeners, changes$ } = this.watcher;
    const closed$ = this.sessions.events$.pipe(filter(({ type }) => type === 'closed'));
    this.#subscriptions.add(closed$.subscribe(({ sessionId }) => listeners.delete(sessionId)));
    this.#subscriptions.add(changes$.subscribe((change) => void this.#tell(change)));
  }

  onModuleDestroy(): void {
    this.#subscriptions.unsubscribe();
  }

  async #tell(change: DocChange): Promise<void> {
    await this.sessions.notify(({ id }) => this.watcher.listeners.has(id), notificationOf(change));
  }
}

function notificationOf({ type, name }: DocChange): { method: string; params?: Record<string, unknown> } {
  return type === 'changed'
    ? { method: 'notifications/resources/updated', params: { uri: uriOf(name) } }
    : { method: 'notifications/resources/list_changed' };
}
