import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { AccountsModule } from './accounts/accounts.module.js';
import { ApiKeyGuard, ProGuard } from './accounts/guards.js';
import { AdminController } from './admin/admin.controller.js';
import { AuditModule } from './audit/audit.module.js';
import { AuditTrail } from './audit/audit-trail.js';
import { Orders } from './orders/orders.service.js';
import { OrderTools } from './orders/orders.tools.js';
import { PluginTools } from './plugins/plugin.tools.js';
import { Plugins } from './plugins/plugins.service.js';

@Module({
  imports: [
    AccountsModule,
    AuditModule,
    McpStreamableModule.forRoot({
      serverInfo: { name: 'shop', version: '1.0.0' },
      // Sessions, state and lists of one tenant do not exist for another.
      path: 'tenants/:tenant/mcp',
      guards: [ApiKeyGuard],
      imports: [AccountsModule],
    }),
    McpAuditModule.forRoot({ sink: AuditTrail, imports: [AuditModule] }),
  ],
  controllers: [AdminController],
  providers: [Orders, OrderTools, Plugins, PluginTools, ProGuard],
})
export class AppModule {}
