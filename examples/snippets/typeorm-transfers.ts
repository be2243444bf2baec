import { Inject, Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { Column, Entity, PrimaryColumn } from 'typeorm';
import { z } from 'zod';
import { Transactions } from '../crm/src/database/transactions.js';

@Entity()
export class Account {
  @PrimaryColumn('text') id!: string;
  @Column('int') cents!: number;
}

const Transfer = z.object({
  from: z.string(),
  to: z.string(),
  cents: z.int().positive(),
});

@Injectable()
export class Accounts {
  constructor(@Inject(Transactions) private readonly transactions: Transactions) {}

  async add(id: string, cents: number): Promise<void> {
    await this.transactions.manager.increment(Account, { id }, 'cents', cents);
  }
}

// #region use
@Injectable()
export class TransferTools {
  constructor(
    @Inject(Transactions) private readonly transactions: Transactions,
    @Inject(Accounts) private readonly accounts: Accounts,
  ) {}

  @Tool({ name: 'transfer', description: 'Moves money', inputSchema: Transfer })
  transfer(
    @McpArgs() { from, to, cents }: z.infer<typeof Transfer>,
    @McpCtx() { signal }: McpContext,
  ): Promise<string> {
    return this.transactions.run(async () => {
      await this.accounts.add(to, cents);
      await this.accounts.add(from, -cents);
      return `Moved ${cents} cents.`;
    }, signal);
  }
}
// #endregion
