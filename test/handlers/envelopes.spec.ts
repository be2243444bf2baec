import {
  Injectable,
  Scope,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Prompt, Tool, toolProgress, type ToolEvent } from 'nestjs-mcp-streamable';
import { map, of, type Observable } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';

/** As an app has it for its routes. */
@Injectable()
class EnvelopeInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ success: true, data })));
  }
}

const outputSchema = z.object({ count: z.int() });

function handlers(scope: Scope): Type {
  @Injectable({ scope })
  class Handlers {
    @Tool({ name: 'total', outputSchema })
    total(): { count: number } {
      return { count: 2 };
    }
    @Tool({ name: 'streamed', outputSchema })
    streamed(): Observable<ToolEvent<{ count: number }>> {
      return of(toolProgress(1, 2), { count: 2 });
    }
    @Prompt({ name: 'asks' })
    asks(): string {
      return 'How many?';
    }
  }
  return Handlers;
}

describe.each(ONE_ADAPTER)('results that an interceptor of the app wraps, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it.each([
    ['tools/call', 'total', Scope.DEFAULT],
    ['tools/call', 'streamed', Scope.DEFAULT],
    ['tools/call', 'total', Scope.REQUEST],
    ['prompts/get', 'asks', Scope.DEFAULT],
  ] as const)('%s of "%s" fails, and the log says what to do', async (method, name, scope) => {
    const module = { providers: [{ provide: APP_INTERCEPTOR, useClass: EnvelopeInterceptor }] };
    const app = await start({ module, providers: [handlers(scope)] });
    const client = await app.client().initialize();
    const answer: unknown = await (await client.post({ jsonrpc: '2.0', id: 1, method, params: { name } })).json();
    expect(JSON.stringify(answer)).toMatch(/"isError":true|"error":/);
    expect(app.log.texts('error')).toEqual([
      expect.stringMatching(
        new RegExp(`^Handlers\\.${name} \\(RootTestModule\\) failed: [^]*McpExecutionContext\\.isMcp\\(context\\)`),
      ),
    ]);
  });
});
