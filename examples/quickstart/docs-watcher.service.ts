import { existsSync, watch } from 'node:fs';
import { join } from 'node:path';
import { Inject, Injectable, Logger, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { auditTime, concatMap, merge, Observable, pairwise, startWith, Subject, type Subscription } from 'rxjs';
import { DocsService } from './docs.service.js';

/** Milliseconds in which changes are gathered: saving a file is often several of them. */
const SETTLE_MS = 50;

export interface DocChange {
  readonly type: 'added' | 'changed' | 'removed';
  readonly name: string;
}

/** Watches the folder, once for all sessions, and knows which of them want to hear of it. */
@Injectable()
export class DocsWatcher implements OnModuleInit, OnModuleDestroy {
  /** Ids of the sessions that want to hear of changes. */
  readonly listeners = new Set<string>();

  readonly #changes$ = new Subject<DocChange>();
  readonly changes$ = this.#changes$.asObservable();
  #watching: Subscription | undefined;

  constructor(@Inject(DocsService) private readonly docs: DocsService) {}

  async onModuleInit(): Promise<void> {
    const versions = await this.#versions();
    const folders = [this.docs.root, join(this.docs.root, 'docs')].filter((folder) => existsSync(folder));
    this.#watching = merge(...folders.map(touched$))
      .pipe(
        auditTime(SETTLE_MS),
        concatMap(() => this.#versions()),
        startWith(versions),
        pairwise(),
        concatMap(([before, after]) => changesBetween(before, after)),
      )
      .subscribe({
        next: (change) => this.#changes$.next(change),
        error: (error) => new Logger(DocsWatcher.name).warn(`Changes are no longer noticed: ${error}`),
      });
  }

  onModuleDestroy(): void {
    this.#watching?.unsubscribe();
    this.#changes$.complete();
  }

  async #versions(): Promise<Map<string, string>> {
    return new Map((await this.docs.list()).map(({ name, version }) => [name, version]));
  }
}

/** Emits when something in a folder may have changed. */
function touched$(folder: string): Observable<void> {
  return new Observable((subscriber) => {
    const watcher = watch(folder, () => subscriber.next());
    watcher.on('error', (error) => subscriber.error(error));
    return () => watcher.close();
  });
}

function changesBetween(before: Map<string, string>, after: Map<string, string>): DocChange[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => ({ type: !before.has(name) ? 'added' : after.has(name) ? 'changed' : 'removed', name }));
}
