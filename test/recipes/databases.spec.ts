import type { INestApplication, ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { PrismaPg } from '@prisma/adapter-pg';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { createMcpTestClient, expectNothingLeft, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { Pool } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Transactions } from '../../examples/crm/src/database/transactions.js';
import { QueryCancels, RevenueTools } from '../../examples/snippets/cancelled-queries.js';
import { PrismaClient } from '../../examples/snippets/generated/prisma/client.js';
import { Transactions as PrismaTransactions } from '../../examples/snippets/prisma-transactions.js';
import { TransferTools as PrismaTransfers } from '../../examples/snippets/prisma-transfers.js';
import { Account, Accounts, TransferTools } from '../../examples/snippets/typeorm-transfers.js';
import { serverInfo } from '../support/app.js';
import { eventually } from '../support/eventually.js';
import { describePostgres, startPostgres } from '../support/postgres.js';

let database: Awaited<ReturnType<typeof startPostgres>>;
let admin: Pool;
let app: INestApplication;
let client: McpTestClient;

/** One connection: a query that goes on after its call would keep the next one waiting. */
const typeOrm = (): ModuleMetadata => ({
  imports: [TypeOrmModule.forRoot({ type: 'postgres', url: database.url, entities: [Account], extra: { max: 1 } })],
});

async function start(metadata: ModuleMetadata): Promise<void> {
  const imports = [McpStreamableModule.forRoot({ serverInfo }), ...(metadata.imports ?? [])];
  const testing = await Test.createTestingModule({ ...metadata, imports }).compile();
  app = testing.createNestApplication({ logger: false });
  await app.init();
  client = await createMcpTestClient(app);
}

/** How many queries wait for a lock that the test holds. */
async function waiting(): Promise<number> {
  const sql = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;
  return (await admin.query<{ count: number }>(sql)).rows[0]!.count;
}

async function balances(): Promise<Record<string, number>> {
  const { rows } = await admin.query<{ id: string; cents: number }>('SELECT * FROM account');
  return Object.fromEntries(rows.map(({ id, cents }) => [id, cents]));
}

/** Calls a tool, which meets a lock of the test, and cancels the call there. @returns releases the lock */
async function cancelAtLock(tool: string, args: object, lock: string): Promise<() => Promise<void>> {
  const holder = await admin.connect();
  await holder.query('BEGIN');
  await holder.query(lock);
  const cancel = new AbortController();
  const failed = client.callTool(tool, { ...args }, { signal: cancel.signal }).catch((error: unknown) => error);
  await eventually(async () => expect(await waiting()).toBe(1));
  cancel.abort();
  expect(await failed).toBeInstanceOf(Error);
  return async () => {
    await holder.query('ROLLBACK');
    holder.release();
  };
}

describePostgres('tools with a database', () => {
  beforeAll(async () => {
    database = await startPostgres();
    process.env['DATABASE_URL'] = database.url;
    admin = new Pool({ connectionString: database.url });
    await admin.query(`
      CREATE TABLE account (id text PRIMARY KEY, cents int NOT NULL CHECK (cents >= 0));
      CREATE FUNCTION revenue_of(year int) RETURNS TABLE (cents int)
        AS 'SELECT year FROM pg_advisory_xact_lock(1)' LANGUAGE sql;`);
  });
  afterAll(async () => {
    delete process.env['DATABASE_URL'];
    await admin.end();
    await database.stop();
  });

  beforeEach(() => admin.query(`TRUNCATE account; INSERT INTO account VALUES ('a', 100), ('b', 0)`));
  afterEach(async () => {
    await client.close();
    await expectNothingLeft(app);
    await app.close();
  });

  const WAYS: readonly { name: string; metadata: () => ModuleMetadata }[] = [
    {
      name: 'TypeORM',
      metadata: () => ({ ...typeOrm(), providers: [Transactions, Accounts, TransferTools] }),
    },
    {
      name: 'Prisma',
      metadata: () => {
        const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: database.url, max: 1 }) });
        const ending = {
          provide: PrismaClient,
          useFactory: () => Object.assign(prisma, { onModuleDestroy: () => prisma.$disconnect() }),
        };
        return { providers: [ending, PrismaTransactions, PrismaTransfers] };
      },
    },
  ];
  describe.each(WAYS)('a transaction with $name', ({ metadata }) => {
    beforeEach(() => start(metadata()));

    it('a call that succeeds keeps all that it has written, and one that fails nothing', async () => {
      const transfer = (cents: number) => client.callTool('transfer', { from: 'a', to: 'b', cents });
      expect((await transfer(30)).text).toBe('Moved 30 cents.');
      expect(await balances()).toEqual({ a: 70, b: 30 });
      expect(await transfer(71)).toMatchObject({ isError: true });
      expect(await balances()).toEqual({ a: 70, b: 30 });
    });

    it('a call that is cancelled keeps nothing', async () => {
      const lock = `SELECT FROM account WHERE id = 'a' FOR UPDATE`;
      const release = await cancelAtLock('transfer', { from: 'a', to: 'b', cents: 30 }, lock);
      await release();
      // It has the connection of the first one: that is over.
      expect((await client.callTool('transfer', { from: 'a', to: 'b', cents: 1 })).isError).toBe(false);
      expect(await balances()).toEqual({ a: 99, b: 1 });
    });
  });

  it('a query of a cancelled call ends at the database, and its connection serves the next call', async () => {
    await start({ ...typeOrm(), providers: [QueryCancels, RevenueTools] });
    const release = await cancelAtLock('revenue', { year: 2025 }, 'SELECT pg_advisory_xact_lock(1)');
    await eventually(async () => expect(await waiting()).toBe(0));
    await release();
    expect((await client.callTool('revenue', { year: 2026 })).text).toBe('[{"cents":2026}]');
  });
});
