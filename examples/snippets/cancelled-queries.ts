import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { Pool } from 'pg';
import { DataSource } from 'typeorm';
import { z } from 'zod';

// #region cancels
/** Cancels queries when their call is over: cancelled, too late, or without a client. */
@Injectable()
export class QueryCancels implements OnModuleDestroy {
  /** Not that of the app, whose connections may all be busy with such queries. */
  readonly #pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 1 });

  async during<T>(signal: AbortSignal, pid: number, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    let sent: Promise<unknown> | undefined;
    const cancel = (): void => {
      sent = this.#pool.query('SELECT pg_cancel_backend($1)', [pid]).catch(() => {});
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      return await work();
    } finally {
      signal.removeEventListener('abort', cancel);
      await sent; // Only then may another call get the connection.
    }
  }

  onModuleDestroy(): Promise<void> {
    return this.#pool.end();
  }
}
// #endregion

const Year = z.object({ year: z.int() });

// #region use
@Injectable()
export class RevenueTools {
  constructor(
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(QueryCancels) private readonly cancels: QueryCancels,
  ) {}

  @Tool({ name: 'revenue', description: 'Sums up a year', inputSchema: Year })
  revenue(@McpArgs('year') year: number, @McpCtx() ctx: McpContext): Promise<object> {
    return this.dataSource.transaction(async (manager) => {
      const sql = 'SELECT pg_backend_pid() AS pid';
      const [{ pid }] = await manager.query<[{ pid: number }]>(sql);
      return this.cancels.during(ctx.signal, pid, () =>
        manager.query<object>('SELECT * FROM revenue_of($1)', [year]),
      );
    });
  }
}
// #endregion
