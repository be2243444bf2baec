import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable, UseGuards, UseInterceptors, type CallHandler, type NestInterceptor } from '@nestjs/common';
import { McpArgs, Tool, toolProgress } from 'nestjs-mcp-streamable';
import { concat, defer, finalize, NEVER, of, type Observable, retry, timeout, VirtualTimeScheduler } from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate } from '../support/app.js';
import { eventually, officialClients, testApps } from '../support/test-apps.js';
import { cancelOf, gists } from '../support/messages.js';

/** What happened, in order. */
let seen: string[];
let time: VirtualTimeScheduler;
let asked: ReturnType<typeof gate<void>>;
let hold: ReturnType<typeof gate<void>>;

const tenant = new AsyncLocalStorage<string>();

function intercepted(intercept: (next: CallHandler) => Observable<unknown>): MethodDecorator & ClassDecorator {
  const interceptor: NestInterceptor = { intercept: (_context, next) => intercept(next) };
  return UseInterceptors(interceptor);
}

/** As many apps have it around their routes: gives up after a second, and tries once more. */
const patient = intercepted((next) =>
  next.handle().pipe(timeout({ each: 1_000, scheduler: time }), retry({ count: 1 })),
);

async function waits(): Promise<void> {
  asked.open();
  await hold.promise;
}

@Injectable()
class Intercepted {
  #attempts = 0;

  @Tool({ name: 'retried' })
  @patient
  retried(): Observable<unknown> {
    const attempt = `attempt ${++this.#attempts}`;
    const endless = concat(of(toolProgress(this.#attempts)), NEVER);
    return defer(() => {
      seen.push(attempt);
      return endless.pipe(finalize(() => seen.push(`left ${attempt}`)));
    });
  }

  @Tool({ name: 'late' })
  @patient
  async late(): Promise<Observable<unknown>> {
    const attempt = ++this.#attempts;
    if (attempt === 1) await waits();
    return defer(() => {
      seen.push(`attempt ${attempt}`);
      return of(`of attempt ${attempt}`);
    });
  }

  @Tool({ name: 'observable' })
  @intercepted((next) => tenant.run('acme', () => next.handle()))
  async observable(): Promise<Observable<unknown>> {
    return defer(() => of(tenant.getStore()));
  }

  @Tool({ name: 'generator' })
  @intercepted((next) => tenant.run('acme', () => next.handle()))
  async *generator(): AsyncGenerator {
    yield tenant.getStore();
  }

  @Tool({ name: 'guarded' })
  @UseGuards({ canActivate: () => waits().then(() => true) })
  guarded(): void {
    seen.push('ran');
  }

  @Tool({ name: 'piped', inputSchema: { type: 'object' } })
  piped(@McpArgs({ transform: waits }) _args: unknown): void {
    seen.push('ran');
  }
}

describe.each(ONE_ADAPTER)('interceptors that resubscribe, give up or change the context, on %s', (adapter) => {
  const start = testApps(adapter, { providers: [Intercepted], errorDetails: false });
  const connect = officialClients();
  beforeEach(() => {
    seen = [];
    time = new VirtualTimeScheduler();
    [asked, hold] = [gate(), gate()];
  });

  it('unsubscribe from a source that they give up before they subscribe to the next', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const posted = client.call('retried', {}, { progressToken: 'token' });
    const stream = await (await posted).sse().count(1);
    expect(seen).toEqual(['attempt 1']);
    const once = time.frame + 1_000;
    time.maxFrames = once;
    time.flush();
    await stream.count(2);
    expect(seen).toEqual(['attempt 1', 'left attempt 1', 'attempt 2']);
    time.maxFrames = once + 1_000;
    time.flush();
    await stream.count(3);
    const failed = 'Internal error in the tool "retried". See the server log.';
    expect(gists(stream.events.map(({ message }) => message))).toEqual(['progress 1', 'progress 2', failed]);
    expect(seen.slice(3)).toEqual(['left attempt 2']);
  });

  it('interceptors that resubscribe, give up or change the context do not subscribe to a source that comes when they have given up', async () => {
    const client = await connect(await start());
    const called = client.callTool({ name: 'late', arguments: {} });
    await asked.promise;
    time.maxFrames = 1_000;
    time.flush();
    await eventually(() => expect(seen).toEqual(['attempt 2']));
    hold.open();
    expect((await called).content).toEqual([{ type: 'text', text: 'of attempt 2' }]);
    expect(seen).toEqual(['attempt 2']);
  });

  it.each(['observable', 'generator'])(
    'interceptors that resubscribe, give up or change the context give an async context that the source finds, too (%s)',
    async (name) => {
      const client = await connect(await start());
      const { content } = await client.callTool({ name, arguments: {} });
      expect(content).toEqual([{ type: 'text', text: 'acme' }]);
    },
  );

  it.each(['guarded', 'piped'])('a call that was cancelled before its method ran has no effect (%s)', async (name) => {
    const app = await start();
    const client = await app.client().initialize();
    const message = client.toolCall(name);
    const posted = client.post(message);
    await asked.promise;
    await (await client.post(cancelOf(message.id))).text();
    await (await posted).text();
    hold.open();
    await app.settled({ inFlight: 0 });
    await new Promise(setImmediate);
    expect(seen).toEqual([]);
  });
});
