import {
  Inject,
  Injectable,
  Logger,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { concatMap, filter, mergeAll, Subscription } from 'rxjs';
import { type DocChange, DocsWatcher } from './docs-watcher.service.js';
import { uriOf } from './docs.uri.js';

/**
 * Notifies sessions of changes, as they asked. Runs outside of requests: the server
 * begins.
 */
@Injectable()
export class DocsNotifier implements OnModuleInit, OnModuleDestroy {
  /**
   * Ids of the sessions that are notified of every document; others subscribe to single
   * ones (`resources/subscribe`).
   */
  readonly listeners = new Set<string>();
  readonly #logger = new Logger(DocsNotifier.name);
  readonly #subscriptions = new Subscription();

  constructor(
    @Inject(DocsWatcher) private readonly watcher: DocsWatcher,
    @Inject(McpSessionService) private readonly sessions: McpSessionService,
  ) {}

  onModuleInit(): void {
    const closed$ = this.sessions.events$.pipe(filter(({ type }) => type === 'closed'));
    const changed$ = this.watcher.changes$.pipe(
      mergeAll(),
      filter(({ type }) => type === 'changed'),
    );
    this.#subscriptions.add(
      closed$.subscribe(({ sessionId }) => this.listeners.delete(sessionId)),
    );
    this.#subscriptions.add(
      changed$.pipe(concatMap((change) => this.#tell(change))).subscribe(),
    );
  }

  onModuleDestroy(): void {
    this.#subscriptions.unsubscribe();
  }

  async #tell({ name }: DocChange): Promise<void> {
    const uri = uriOf(name);
    try {
      await this.sessions.resourceUpdated(uri);
      const updated = { method: 'notifications/resources/updated', params: { uri } };
      await this.sessions.notify(({ id }) => this.listeners.has(id), updated);
    } catch (error) {
      this.#logger.warn(`Some sessions were not notified of ${name}: ${String(error)}`);
    }
  }
}
