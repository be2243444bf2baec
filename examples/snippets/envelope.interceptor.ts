import { Module } from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { OrderPrompts } from './order-prompts.js';
import { OrderResources } from './order-resources.js';
import { TotalTools } from './order-schemas.js';
import { Orders } from './orders.service.js';
// #region envelope
import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';
import { map, type Observable } from 'rxjs';

/** This interceptor puts `{ data }` around the results of routes, not of handlers. */
@Injectable()
export class EnvelopeInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (McpExecutionContext.isMcp(context)) return next.handle();
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}
// #endregion

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
  ],
  providers: [
    Orders,
    OrderPrompts,
    OrderResources,
    TotalTools,
    { provide: APP_INTERCEPTOR, useClass: EnvelopeInterceptor },
  ],
})
export class AppModule {}
