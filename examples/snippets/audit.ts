import { Controller, Get, Inject, Module } from '@nestjs/common';
import {
  McpAuditModule,
  type McpAuditRecord,
  McpAuditService,
  type McpAuditSink,
} from 'nestjs-mcp-streamable/audit';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

// #region sensitive
const Refund = z.object({
  order: z.string(),
  card: z.object({
    holder: z.string(),
    number: z.string().meta({ 'x-mcp-sensitive': true }),
  }),
});

export class RefundTools {
  @Tool({
    name: 'refund',
    description: 'Refunds an order to a card',
    inputSchema: Refund,
  })
  refund(@McpArgs() { order }: z.infer<typeof Refund>): string {
    return `Refunded ${order}.`;
  }
}
// #endregion

// #region redact
export const byName = McpAuditModule.forRoot({
  redact: ['password', 'cardNumber', 'iban'],
});

export const byFunction = McpAuditModule.forRoot({
  redact: (args, { name }) =>
    name === 'diagnose' ? undefined : { ...args, address: undefined },
});
// #endregion

// #region required
export const required = McpAuditModule.forRoot({ required: true, timeoutMs: 2_000 });
// #endregion

export abstract class AuditRepository {
  abstract insert(row: object): Promise<unknown>;
}

@Module({
  providers: [
    { provide: AuditRepository, useValue: { insert: () => Promise.resolve() } },
  ],
  exports: [AuditRepository],
})
export class DatabaseModule {}

// #region sink
export class AuditTable implements McpAuditSink {
  constructor(@Inject(AuditRepository) private readonly repository: AuditRepository) {}

  async write(record: McpAuditRecord): Promise<void> {
    await this.repository.insert(record);
  }
}

export const inTable = McpAuditModule.forRoot({
  sink: AuditTable,
  imports: [DatabaseModule],
});
// #endregion

// #region async
export abstract class Config {
  abstract get(name: string): string;
}

export const configured = McpAuditModule.forRootAsync({
  imports: [DatabaseModule],
  inject: [AuditRepository, Config],
  useFactory: (repository: AuditRepository, config: Config) => ({
    sink: new AuditTable(repository),
    hashKey: config.get('AUDIT_HASH_KEY'),
  }),
});
// #endregion

// #region counted
@Controller('health')
export class AuditHealthController {
  constructor(@Inject(McpAuditService) private readonly audit: McpAuditService) {}

  @Get('audit')
  audited(): object {
    const { written, failures, pending } = this.audit;
    return { written, failures, pending };
  }
}
// #endregion
