// #region sentry
import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
} from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';
import type { Observable } from 'rxjs';

/**
 * Provide `Sentry` itself, of `import * as Sentry from '@sentry/nestjs'`:
 * `{ provide: SENTRY, useValue: Sentry }`.
 */
export const SENTRY = Symbol('Sentry');

export interface SentryScope {
  setTags(tags: Record<string, string>): unknown;
  setUser(user: { id: string } | null): unknown;
}

/** Adds the handler and the caller to what Sentry reports during a call. */
@Injectable()
export class SentryCalls implements NestInterceptor {
  constructor(
    @Inject(SENTRY) private readonly sentry: { getIsolationScope(): SentryScope },
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    if (!McpExecutionContext.isMcp(context)) return next.handle();
    const call = McpExecutionContext.create(context);
    const { principal } = call.getContext();
    const scope = this.sentry.getIsolationScope();
    // Do not add the arguments: they may be anything that a user has told a model.
    scope.setTags({ 'mcp.kind': call.getKind(), 'mcp.name': call.getName() });
    scope.setUser(principal === undefined ? null : { id: principal });
    return next.handle();
  }
}
// #endregion
