// #region transactions
import { AsyncLocalStorage } from 'node:async_hooks';
import { Inject, Injectable } from '@nestjs/common';
import { type Prisma, PrismaClient } from './generated/prisma/client.js';

@Injectable()
export class Transactions {
  readonly #running = new AsyncLocalStorage<Prisma.TransactionClient>();

  constructor(@Inject(PrismaClient) private readonly prisma: PrismaClient) {}

  /** Is that of the running transaction. */
  get client(): Prisma.TransactionClient {
    return this.#running.getStore() ?? this.prisma;
  }

  run<T>(work: () => Promise<T>, signal: AbortSignal, timeout = 30_000): Promise<T> {
    return this.prisma.$transaction(
      (client) =>
        this.#running.run(client, async () => {
          const result = await work();
          signal.throwIfAborted();
          return result;
        }),
      { timeout },
    );
  }
}
// #endregion
