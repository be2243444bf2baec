import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { DtoTools } from './order-dto.js';
import { BackOffice, RolesGuard } from './order-guards.js';
import { ParamTools } from './order-params.js';
import { ExportTools } from './order-progress.js';
import { OrderPrompts } from './order-prompts.js';
import { AskingTools } from './order-questions.js';
import { OrderResources } from './order-resources.js';
import { BookingTools, RegionalTools, SchemaTools, TotalTools } from './order-schemas.js';
import { Orders } from './orders.service.js';
import { Plugins } from './plugins.service.js';
import { ShowOrder } from './show-order.js';
import { TenantTools } from './tenant-tools.js';

/** For the example only: trusts the header without a check. */
const callerFromHeaders: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const request = context
      .switchToHttp()
      .getRequest<{ headers: Record<string, string>; user?: unknown }>();
    const { 'x-user': id, 'x-role': role } = request.headers;
    if (id !== undefined) request.user = { id, roles: [role] };
    return true;
  },
};

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      guards: [callerFromHeaders],
    }),
  ],
  providers: [
    Orders,
    ShowOrder,
    OrderResources,
    OrderPrompts,
    ParamTools,
    ExportTools,
    SchemaTools,
    BookingTools,
    DtoTools,
    RegionalTools,
    TotalTools,
    BackOffice,
    AskingTools,
    TenantTools,
    Plugins,
  ],
})
export class AppModule {}

export const globally = {
  // #region list-guards
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      listGuards: [RolesGuard],
    }),
  ],
  providers: [{ provide: APP_GUARD, useClass: RolesGuard }],
  // #endregion
};
