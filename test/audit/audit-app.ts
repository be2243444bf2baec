import { Injectable, UseGuards } from '@nestjs/common';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  type McpStreamableModuleOptions,
  Prompt,
  Resource,
  Tool,
} from 'nestjs-mcp-streamable';
import {
  McpAuditModule,
  type McpAuditModuleOptions,
  type McpAuditRecord,
  McpAuditService,
  type McpAuditSink,
} from 'nestjs-mcp-streamable/audit';
import { z } from 'zod';
import { TestApp, serverInfo } from '../support/app.js';
import { Never, trustingGuard } from '../support/users.js';

const sensitive = { 'x-mcp-sensitive': true };
const card = z.object({ holder: z.string(), number: z.string().meta(sensitive) });

@Injectable()
export class PaymentTools {
  /** What the handler got, one for each run. */
  readonly runs: unknown[] = [];

  @Tool({
    name: 'refund',
    inputSchema: z.object({
      order: z.string(),
      pin: z.string().meta(sensitive).optional(),
      cards: z.array(card).optional(),
      by: z.union([z.object({ iban: z.string().meta(sensitive) }), z.object({ cash: z.boolean() })]).optional(),
    }),
  })
  refund(@McpArgs() args: { order: string }): string {
    this.runs.push(args);
    if (args.order === 'none') throw new Error('There is no such order.');
    return `refunded ${args.order}`;
  }

  @Tool({ name: 'close', inputSchema: { type: 'object' } })
  close(@McpArgs() args: Record<string, unknown>): string {
    this.runs.push(args);
    args['order'] = 'changed by the handler';
    return 'closed';
  }

  @Tool({ name: 'secret' })
  @UseGuards(Never)
  secret(): string {
    return 'never';
  }

  @Tool({ name: 'confirm' })
  async confirm(@McpCtx() ctx: McpContext): Promise<string> {
    const { action } = await ctx.elicit('sure', {
      message: 'Sure?',
      requestedSchema: { type: 'object', properties: {} },
    });
    return action;
  }

  @Tool({ name: 'waits' })
  waits(@McpCtx() ctx: McpContext): Promise<string> {
    this.runs.push('waits');
    return new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('over')));
  }

  @Resource({ uri: 'ledger://today', name: 'ledger' })
  ledger(): string {
    return 'all of today';
  }

  @Prompt({ name: 'dun', arguments: [{ name: 'customer' }, { name: 'apiKey' }] })
  dun(): string {
    return 'Pay!';
  }
}

/** Keeps the records. */
export class Records implements McpAuditSink {
  readonly all: McpAuditRecord[] = [];

  write(record: McpAuditRecord): void {
    this.all.push(record);
  }

  /** The outcomes, each with the name that the client called. */
  get gists(): string[] {
    return this.all.map(({ outcome, name, method, status, code }) =>
      [outcome, name ?? method, status ?? code].filter((part) => part !== undefined).join(' '),
    );
  }
}

/** An app with an audit of its one endpoint. */
export class AuditApp {
  readonly records = new Records();
  app!: TestApp;

  async start(
    audit: McpAuditModuleOptions | undefined = {},
    endpoint: Partial<McpStreamableModuleOptions> = {},
    clock?: TestApp['clock'],
  ): Promise<TestApp> {
    this.app = await TestApp.of(
      'fastify',
      {
        imports: [
          McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard], ...endpoint }),
          McpAuditModule.forRoot({ sink: this.records, ...audit }),
        ],
        providers: [PaymentTools, Never],
      },
      undefined,
      clock,
    );
    return this.app;
  }

  get tools(): PaymentTools {
    return this.app.app.get(PaymentTools);
  }

  get audit(): McpAuditService {
    return this.app.app.get(McpAuditService, { strict: false });
  }
}
