// #region module
import { Injectable, Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  McpAuditModule,
  type McpAuditRecord,
  type McpAuditSink,
} from 'nestjs-mcp-streamable/audit';
import { Members, TenantGuard, type TenantRequest } from './tenant.guard.js';
import { ProjectTools } from './tenant-projects.js';

/** Your sink writes into a table with the tenant in its key. */
@Injectable()
export class TenantAudit implements McpAuditSink {
  readonly rows: (McpAuditRecord & { tenant: string | undefined })[] = [];

  write(record: McpAuditRecord): void {
    this.rows.push({ ...record, tenant: record.principal?.split('|')[0] });
  }
}

@Module({ providers: [Members], exports: [Members] })
export class MembersModule {}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'projects', version: '1.0.0' },
      path: 'tenants/:tenant/mcp',
      imports: [MembersModule],
      guards: [TenantGuard],
      // A user of two tenants is two callers. So the id of a tenant must not have a "|".
      principal: ({ params, user }: TenantRequest) => `${params.tenant}|${user.id}`,
    }),
    McpAuditModule.forRoot({ sink: TenantAudit }),
  ],
  providers: [ProjectTools, TenantAudit],
})
export class AppModule {}
// #endregion
