import { Module, ValidationPipe } from '@nestjs/common';
import { APP_GUARD, APP_PIPE } from '@nestjs/core';
import { SkipThrottle, ThrottlerModule } from '@nestjs/throttler';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { OtelInstrumentation } from 'nestjs-mcp-streamable/otel';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { AuditModule } from './audit/audit.module.js';
import { AuditSink } from './audit/audit.sink.js';
import { AuthModule } from './auth/auth.module.js';
import {
  CallerThrottlerGuard,
  type CrmRequest,
  JwtGuard,
  OperatorGuard,
  Public,
  RolesGuard,
} from './auth/guards.js';
import { ContactsModule } from './contacts/contacts.module.js';
import { DatabaseModule } from './database/database.module.js';
import { DealsModule } from './deals/deals.module.js';
import { MetricsController } from './telemetry/metrics.controller.js';
import { ViewsModule } from './views/views.module.js';

const live = McpLiveModule.forRoot({ guards: [OperatorGuard], imports: [AuthModule] });
// Browsers send no bearer token: the guard above decides about the page.
live.controllers?.forEach((controller) => Public()(controller));

@Module({
  imports: [
    DatabaseModule,
    AuthModule,
    ContactsModule,
    DealsModule,
    ViewsModule,
    ThrottlerModule.forRoot([{ ttl: 60_000, limit: 100 }]),
    McpStreamableModule.forRoot({
      serverInfo: { name: 'crm', version: '1.0.0' },
      // The module of the views says when its tools change.
      isGlobal: true,
      // JwtGuard has found the caller. Sessions, state and keys belong to a user of a tenant.
      principal: ({ caller }: CrmRequest) => caller && `${caller.tenant}|${caller.id}`,
      // Calls are counted, messages are not.
      decorators: [SkipThrottle()],
      // Lists show each caller what its role may use.
      listGuards: [RolesGuard],
      instrumentation: new OtelInstrumentation(),
    }),
    McpAuditModule.forRoot({ sink: AuditSink, imports: [AuditModule] }),
    McpPrometheusModule.forRoot(),
    live,
  ],
  controllers: [MetricsController],
  providers: [
    // In this order: the others need the caller.
    { provide: APP_GUARD, useClass: JwtGuard },
    { provide: APP_GUARD, useClass: RolesGuard },
    { provide: APP_GUARD, useClass: CallerThrottlerGuard },
    {
      provide: APP_PIPE,
      useValue: new ValidationPipe({
        whitelist: true,
        forbidNonWhitelisted: true,
        transform: true,
      }),
    },
  ],
})
export class AppModule {}
