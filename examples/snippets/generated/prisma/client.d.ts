// The types of client.js that are used here.
import type { PrismaPg } from '@prisma/adapter-pg';

export interface Account {
  readonly id: string;
  readonly cents: number;
}

export declare namespace Prisma {
  interface TransactionClient {
    readonly account: {
      create(args: { data: Account }): Promise<Account>;
      findMany(): Promise<Account[]>;
      update(args: {
        where: { id: string };
        data: { cents: { increment: number } };
      }): Promise<Account>;
    };
    $queryRaw<T>(query: TemplateStringsArray, ...values: unknown[]): Promise<T>;
  }
}

export interface PrismaClient extends Prisma.TransactionClient {
  $transaction<T>(
    work: (client: Prisma.TransactionClient) => Promise<T>,
    options?: { timeout?: number; maxWait?: number },
  ): Promise<T>;
  $disconnect(): Promise<void>;
}

export declare const PrismaClient: new (options: { adapter: PrismaPg }) => PrismaClient;
