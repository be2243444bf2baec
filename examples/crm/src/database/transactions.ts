// #region transactions
import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';

@Injectable()
export class Transactions {
  readonly #running = new AsyncLocalStorage<EntityManager>();

  constructor(private readonly dataSource: DataSource) {}

  /** Is that of the running transaction. */
  get manager(): EntityManager {
    return this.#running.getStore() ?? this.dataSource.manager;
  }

  /** Keeps nothing if `work` throws, or if the call has ended meanwhile. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.dataSource.transaction((manager) =>
      this.#running.run(manager, async () => {
        const result = await work();
        signal?.throwIfAborted();
        return result;
      }),
    );
  }
}
// #endregion
