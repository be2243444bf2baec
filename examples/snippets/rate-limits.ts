// #region guard
import { type ExecutionContext, Injectable, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  SkipThrottle,
  Throttle,
  ThrottlerGuard,
  ThrottlerModule,
} from '@nestjs/throttler';
import { McpExecutionContext, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { UsersModule } from './guarded-app.js';
import { TokenGuard } from './token.guard.js';

/** Counts calls by principal and handler, and other requests by address. */
@Injectable()
export class PrincipalThrottlerGuard extends ThrottlerGuard {
  protected override generateKey(
    context: ExecutionContext,
    tracker: string,
    throttler: string,
  ): string {
    if (!McpExecutionContext.isMcp(context))
      return super.generateKey(context, tracker, throttler);
    const call = McpExecutionContext.create(context);
    const { principal } = call.getContext();
    const caller =
      principal === undefined ? `address ${tracker}` : `principal ${principal}`;
    return JSON.stringify([throttler, call.getKind(), call.getName(), caller]);
  }
}
// #endregion

// #region module
@Injectable()
export class ReportTools {
  @Tool({ name: 'find_report', description: 'Finds a report' })
  find(): string {
    return 'Report 7';
  }

  /** This tool is expensive, so its limit is lower. */
  @Throttle({ default: { limit: 2, ttl: 60_000 } })
  @Tool({ name: 'make_report', description: 'Makes a report' })
  make(): string {
    return 'Report 8';
  }
}

@Module({
  imports: [
    ThrottlerModule.forRoot({
      throttlers: [{ ttl: 60_000, limit: 100 }],
      errorMessage: (_context, { limit }) => `At most ${limit} calls a minute.`,
    }),
    McpStreamableModule.forRoot({
      serverInfo: { name: 'reports', version: '1.0.0' },
      imports: [UsersModule],
      guards: [TokenGuard],
      principal: ({ user }: { user: { id: string } }) => user.id,
      decorators: [SkipThrottle()], // count the calls, not the POSTs
      listGuards: [], // do not count lists
    }),
  ],
  providers: [ReportTools, { provide: APP_GUARD, useClass: PrincipalThrottlerGuard }],
})
export class AppModule {}
// #endregion
