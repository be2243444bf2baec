import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { toolProgress, type McpHandlerFunction, type ToolEvent } from 'nestjs-mcp-streamable';
import { concat, finalize, NEVER, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { MEBIBYTE, memoryAtRest } from '../support/memory.js';
import { eventually, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { seededRandom } from '../support/share.js';
import { ForsakenPost, senderOf, connectionsGone } from '../support/raw-socket.js';

type Tool = McpHandlerFunction<Record<string, unknown>>;

const DISCONNECTS = 1_000;
const AT_ONCE = 50;
const NOTHING = { inFlight: 0, openResponses: 0, timers: 0, streams: 0, subscriptions: 0, events: 0 };

describe.each(ONE_ADAPTER)('a thousand modern clients that leave, on %s', (adapter) => {
  const start = testApps(adapter, { port: true, sseAfterMs: 60_000, requestTimeoutMs: 600_000 });
  /** Handlers that have begun, and not ended. */
  let running = 0;
  let begun = 0;
  const signals = new Set<WeakRef<AbortSignal>>();

  const waits: Tool = async (_, ctx) => {
    running++;
    begun++;
    signals.add(new WeakRef(ctx.signal));
    try {
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve, { once: true }));
      return 'nobody';
    } finally {
      running--;
    }
  };
  const talks: Tool = async (args, ctx) => {
    await ctx.progress(1);
    return waits(args, ctx);
  };
  const streams: Tool = (_, ctx) => {
    running++;
    begun++;
    signals.add(new WeakRef(ctx.signal));
    const reports = [1, 2, 3].map((n) => toolProgress(n, 3, 'x'.repeat(2_000)));
    return concat(of<ToolEvent[]>(...reports), NEVER).pipe(finalize(() => running--));
  };
  const NAMES = ['waits', 'talks', 'streams'];

  /** One client: calls, or listens, and leaves at some point. */
  async function visit(app: TestApp, random: () => number): Promise<void> {
    const client = new ModernClient(app.url);
    const message =
      random() < 0.1
        ? client.message('subscriptions/listen', { notifications: { toolsListChanged: true } }, { id: 1 })
        : client.message(
            'tools/call',
            { name: NAMES[Math.floor(random() * 3)]!, arguments: {} },
            { id: 1, progressToken: 'token' },
          );
    const point = random();
    if (point < 0.4) {
      const post = new ForsakenPost(senderOf(client, message), message);
      // At any moment between the connection and the handler.
      for (let turn = Math.floor(random() * 20); turn > 0; turn--) await nextTurn();
      return post.hangUp();
    }
    const name = message.params['name'];
    // Before it has said anything its head is not there to wait for.
    if (name === 'waits') {
      const before = begun;
      const post = new ForsakenPost(senderOf(client, message), message);
      await eventually(() => expect(begun).toBeGreaterThan(before));
      return post.hangUp();
    }
    const response = await client.post(message, client.headersOf(message));
    if (point < 0.6) return response.destroy();
    const stream = await response.sse().count(1);
    if (point > 0.8 && name === 'streams') await stream.count(3);
    stream.destroy();
  }

  async function round(app: TestApp, random: () => number, visits: number): Promise<void> {
    for (let done = 0; done < visits; done += AT_ONCE) {
      await Promise.all(Array.from({ length: AT_ONCE }, () => visit(app, random)));
    }
    await connectionsGone(app);
    await app.settled(NOTHING);
    await eventually(() => expect(running).toBe(0));
  }

  it('disconnects: leave no call, stream or timer, and no growth of the heap', async () => {
    const app = await start({ tools: { waits, talks, streams } });
    const random = seededRandom(7);
    // What is made once is made now.
    await round(app, random, 200);
    const sizes = [await memoryAtRest()];
    for (let n = 0; n < 4; n++) {
      await round(app, random, DISCONNECTS / 4);
      sizes.push(await memoryAtRest());
    }
    // Of 1,000 forgotten requests each would hold kilobytes; code that becomes fast takes some, once.
    expect(Math.min(...sizes.slice(-2)) - sizes[0]!).toBeLessThan(2 * MEBIBYTE);
    expect(begun).toBeGreaterThan(DISCONNECTS / 2);
    const alive = [...signals].map((ref) => ref.deref()).filter((signal) => signal !== undefined);
    for (const signal of alive) {
      expect(signal.aborted).toBe(true);
      expect(getEventListeners(signal, 'abort')).toEqual([]);
    }
    // A signal that something holds would be one of many.
    expect(alive.length).toBeLessThan(50);
    signals.clear();
    begun = 0;
  });
});
