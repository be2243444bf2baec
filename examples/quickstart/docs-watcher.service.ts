import { existsSync, watch } from 'node:fs';
import { join } from 'node:path';
import { Inject, Injectable, Logger } from '@nestjs/common';
import {
  auditTime,
  catchError,
  concatMap,
  defer,
  EMPTY,
  map,
  merge,
  Observable,
  of,
  pairwise,
  share,
  startWith,
} from 'rxjs';
import { DocsService, FOLDERS } from './docs.service.js';

/** Milliseconds in which changes are gathered: saving a file is often several of them. */
const SETTLE_MS = 50;

export interface DocChange {
  readonly type: 'added' | 'changed' | 'removed';
  readonly name: string;
}

/** Watches the folder, once for all sessions. */
@Injectable()
export class DocsWatcher {
  /**
   * Emits all documents as `added`, then changes. Never errors. The folder is watched
   * while there are subscribers; a later
   * subscriber gets changes only.
   */
  readonly changes$: Observable<DocChange[]> = defer(() =>
    merge(this.#touched$(), of(undefined)),
  ).pipe(
    concatMap(() => this.#versions()),
    startWith(new Map<string, string>()),
    pairwise(),
    map(([before, after]) => changesBetween(before, after)),
    share(),
  );

  constructor(@Inject(DocsService) private readonly docs: DocsService) {}

  #touched$(): Observable<void> {
    const folders = FOLDERS.map((folder) => join(this.docs.root, folder)).filter(
      (folder) => existsSync(folder),
    );
    return merge(...folders.map(touched$)).pipe(
      auditTime(SETTLE_MS),
      catchError((error) => {
        new Logger(DocsWatcher.name).warn(
          `Changes of documents are no longer detected: ${error}`,
        );
        return EMPTY;
      }),
    );
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

function changesBetween(
  before: Map<string, string>,
  after: Map<string, string>,
): DocChange[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names
    .filter((name) => before.get(name) !== after.get(name))
    .map((name) => ({
      type: !before.has(name) ? 'added' : after.has(name) ? 'changed' : 'removed',
      name,
    }));
}
