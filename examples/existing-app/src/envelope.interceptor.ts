import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor } from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';
import { map, type Observable } from 'rxjs';

/** `{ data }` around what routes return. */
@Injectable()
export class EnvelopeInterceptor implements NestInterceptor {
  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    // MCP: results of tools have a shape of their own, which may be checked by a schema. `getType()` is 'http' there too.
    if (McpExecutionContext.isMcp(context)) return next.handle();
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}
