import { Inject, Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Transactions } from './prisma-transactions.js';

const Transfer = z.object({
  from: z.string(),
  to: z.string(),
  cents: z.int().positive(),
});

@Injectable()
export class TransferTools {
  constructor(@Inject(Transactions) private readonly transactions: Transactions) {}

  @Tool({ name: 'transfer', description: 'Moves money', inputSchema: Transfer })
  transfer(
    @McpArgs() { from, to, cents }: z.infer<typeof Transfer>,
    @McpCtx() { signal }: McpContext,
  ): Promise<string> {
    return this.transactions.run(async () => {
      await this.add(to, cents);
      await this.add(from, -cents);
      return `Moved ${cents} cents.`;
    }, signal);
  }

  private async add(id: string, cents: number): Promise<void> {
    const { account } = this.transactions.client;
    await account.update({ where: { id }, data: { cents: { increment: cents } } });
  }
}
