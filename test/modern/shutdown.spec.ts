import { toolProgress, type McpHandlerFunction, type ToolEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { merge, Observable, of } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp } from '../support/app.js';
import { eventually, registryOf } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { trustingGuard } from '../support/users.js';

type Tool = McpHandlerFunction<Record<string, unknown>>;
const REQUEST_FAILED = -32000;

describe.each(ONE_ADAPTER)('shutdown with modern requests, on %s', (adapter) => {
  let app: TestApp;
  let client: ModernClient;
  let aborted: number;
  let left: number;
  const waits: Tool = (_, ctx) =>
    new Promise((resolve) => {
      ctx.signal.addEventListener('abort', () => {
        aborted++;
        resolve('too late');
      });
    });
  const observable: Tool = () =>
    merge(
      of(toolProgress(1)),
      new Observable<ToolEvent>(() => () => {
        left++;
      }),
    );
  /** Never ends. */
  const deaf: Tool = () => new Promise(() => {});

  beforeEach(async () => {
    [aborted, left] = [0, 0];
    // The clock stands still: a shutdown that waited for a time would never end.
    const clock = new ManualClock();
    const guards = [trustingGuard];
    app = await TestApp.start({ adapter, port: true, server: undefined, clock, guards });
    for (const [name, handler] of Object.entries({ waits, observable, deaf })) {
      registryOf(app).registerTool({ name, handler });
    }
    client = new ModernClient(app.url);
  });
  afterEach(() => app.close());
  const closed = async (): Promise<void> => {
    await app.shutDown();
    await app.settled({ inFlight: 0, openResponses: 0, timers: 0 });
  };

  it.each(['waits', 'deaf'])('S15: a request without a head is answered 503 (%s)', async (name) => {
    const posted = client.call(name, {}, { id: 'a' });
    await app.settled({ inFlight: 1 });
    await closed();
    const response = await posted;
    expect(response.header('retry-after')).toMatch(/^\d+$/);
    await expectRefusal(response, { status: 503, code: REQUEST_FAILED, id: 'a' });
    expect(aborted).toBe(name === 'waits' ? 1 : 0);
  });

  it('S15: a stream ends with an error, and the Observable of its handler is unsubscribed', async () => {
    const stream = await (await client.call('observable', {}, { id: 'a', progressToken: 1 })).sse().count(1);
    await closed();
    expect(await stream.end()).toBe('end');
    expect(stream.messages[1]).toMatchObject({ id: 'a', error: { code: REQUEST_FAILED } });
    expect(left).toBe(1);
  });

  it('S15: many calls of both eras are all answered', async () => {
    const legacy = await app.client().initialize();
    const posted = Array.from({ length: 25 }, () => client.call('waits', {}, { id: 1 }));
    const streams = await Promise.all(
      Array.from({ length: 25 }, async () =>
        (await client.call('observable', {}, { id: 1, progressToken: 1 })).sse().count(1),
      ),
    );
    const standalone = await legacy.listen();
    const call = legacy.call('waits');
    await app.settled({ inFlight: 51 });
    await closed();
    for (const response of await Promise.all(posted)) {
      expect(response.status).toBe(503);
      expect((await response.json()).id).toBe(1);
    }
    for (const stream of streams) {
      expect(await stream.end()).toBe('end');
      expect(stream.messages.at(-1)).toMatchObject({ id: 1, error: {} });
    }
    expect(await standalone.end()).toBe('end');
    expect((await (await call).json()).error.code).toBe(REQUEST_FAILED);
    expect([aborted, left]).toEqual([26, 25]);
  });

  it('E13: requests that come during the shutdown get 503 and Retry-After', async () => {
    const arrived = gate();
    const go = gate();
    await app.shutDown();
    app = await TestApp.start({
      adapter,
      port: true,
      server: undefined,
      guards: [
        {
          canActivate: async () => {
            arrived.open();
            await go.promise;
            return true;
          },
        },
      ],
    });
    client = new ModernClient(app.url);
    const posted = client.request('tools/list', {}, { id: 5 });
    await arrived.promise;
    const closing = app.shutDown();
    await eventually(() => expect(app.service.accepting).toBe(false));
    go.open();
    const response = await posted;
    expect(response.header('retry-after')).toMatch(/^\d+$/);
    await expectRefusal(response, { status: 503, code: REQUEST_FAILED, id: 5 });
    await closing;
  });
});
