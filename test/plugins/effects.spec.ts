import {
  type CallHandler,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseInterceptors,
} from '@nestjs/common';
import { Tool } from 'nestjs-mcp-streamable';
import { createMcpTestClient } from 'nestjs-mcp-streamable/testing';
import { of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { gate } from '../support/app.js';
import { eventually, testApps } from '../support/test-apps.js';

const heard: string[] = [];
let refresh = gate();

/** Answers, and runs the method later, as a cache does that refreshes what it holds. */
@Injectable()
class Refreshes implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler) {
    void refresh.promise.then(() => next.handle().subscribe({ error: () => heard.push('not run') }));
    return of('cached');
  }
}

function noted(what: string): string {
  heard.push(what);
  return what;
}

@Injectable()
@UseInterceptors(Refreshes)
class Tools {
  @Tool({ name: 'with a key', idempotency: { key: () => noted('key') } })
  keyed(): string {
    return noted('method');
  }
  @Tool({ name: 'with a question', confirm: () => noted('question') })
  confirmed(): string {
    return noted('method');
  }
  @Tool({ name: 'with both', idempotency: { key: () => noted('key') }, confirm: () => noted('question') })
  both(): string {
    return noted('method');
  }
}

describe('the effects of a call that an interceptor has answered', () => {
  const launch = testApps('fastify', { providers: [Tools], server: undefined });

  it.each(['with a key', 'with a question', 'with both'])(
    'are none when the interceptor runs the method later: no key is claimed, and no question is asked, for a tool %s',
    async (name) => {
      heard.length = 0;
      refresh = gate();
      const app = await launch();
      for (const era of ['legacy', 'modern'] as const) {
        const client = await createMcpTestClient(app.app, { era, elicit: () => ({ action: 'accept', content: {} }) });
        expect((await client.callTool(name, {})).text).toBe('cached');
      }
      refresh.open();
      await eventually(() => expect(heard).toHaveLength(2));
      expect(heard).toEqual(['not run', 'not run']);
    },
  );
});
