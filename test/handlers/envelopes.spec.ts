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
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { handlersApps, logOf } from '../support/handlers-app.js';

/** As an app has it for its routes. */
@Injectable()
class EnvelopeInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ success: true, data })));
  }
}

@Injectable()
class LoggingInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle();
  }
}

const outputSchema = z.object({ count: z.int() });

function handlers(scope: Scope): Type {
  @Injectable({ scope })
  class Handlers {
    @Tool({ name: 'total', outputSchema })
    total(): object {
      return { count: 2 };
    }
    @Tool({ name: 'streamed', outputSchema })
    streamed(): Observable<ToolEvent<object>> {
      return of(toolProgress(1, 2), { count: 2 });
    }
    @Tool({ name: 'wrong', outputSchema })
    wrong(): object {
      return { count: 'two' };
    }
    @Prompt({ name: 'asks' })
    asks(): string {
      return 'How many?';
    }
    @Prompt({ name: 'mistaken' })
    mistaken(): unknown {
      return { description: 'no prompt' };
    }
  }
  return Handlers;
}

describe.each(ONE_ADAPTER)('results that an interceptor of the app wraps, on %s', (adapter) => {
  const start = handlersApps(adapter);

  const callTwice = async (app: TestApp, method: string, name: string): Promise<unknown[]> => {
    const client = await app.client().initialize();
    const answers: unknown[] = [];
    for (const id of [1, 2]) {
      answers.push(await (await client.post({ jsonrpc: '2.0', id, method, params: { name } })).json());
    }
    return answers;
  };
  const notices = (app: TestApp): string[] =>
    logOf(app)
      .texts('warn')
      .filter((text) => text.includes('interceptor'));

  it.each([
    ['tools/call', 'total', Scope.DEFAULT],
    ['tools/call', 'streamed', Scope.DEFAULT],
    ['tools/call', 'total', Scope.REQUEST],
    ['prompts/get', 'asks', Scope.DEFAULT],
  ] as const)('%s of "%s": the log says once whose doing it is, and what to do', async (method, name, scope) => {
    const module = { providers: [{ provide: APP_INTERCEPTOR, useClass: EnvelopeInterceptor }] };
    const app = await start({ module, providers: [handlers(scope)] });
    const answers = await callTwice(app, method, name);
    for (const answer of answers) expect(JSON.stringify(answer)).toMatch(/"isError":true|"error":/);
    expect(notices(app)).toEqual([
      expect.stringMatching(
        new RegExp(
          `^What Handlers\\.${name} \\(RootTestModule\\) returned is right, but an interceptor .*\\{ success, data \\}`,
        ),
      ),
    ]);
    expect(notices(app)[0]).toContain('McpExecutionContext.isMcp(context)');
  });

  it('useGlobalInterceptors() is as good', async () => {
    const app = await start({
      providers: [handlers(Scope.DEFAULT)],
      configure: (nest) => void nest.useGlobalInterceptors(new EnvelopeInterceptor()),
    });
    await callTwice(app, 'tools/call', 'total');
    expect(notices(app)).toHaveLength(1);
  });

  it.each([
    ['tools/call', 'wrong', EnvelopeInterceptor],
    ['prompts/get', 'mistaken', EnvelopeInterceptor],
    ['prompts/get', 'mistaken', LoggingInterceptor],
  ])('%s of "%s" that was wrong before: no word of interceptors', async (method, name, interceptor) => {
    const module = { providers: [{ provide: APP_INTERCEPTOR, useClass: interceptor }] };
    const app = await start({ module, providers: [handlers(Scope.DEFAULT)] });
    const answers = await callTwice(app, method, name);
    for (const answer of answers) expect(JSON.stringify(answer)).toMatch(/"isError":true|"error":/);
    expect(notices(app)).toEqual([]);
  });
});
