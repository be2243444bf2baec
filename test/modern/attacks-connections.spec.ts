import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, NOTHING } from '../support/app.js';
import { eventually, testApps } from '../support/test-apps.js';
import type { ModernClient } from '../support/modern-client.js';
import { rawSocket, readToEnd, requestText, senderOf, connectionsGone } from '../support/raw-socket.js';

const MODES = ['auto', 'json', 'sse'] as const;
const KEEP_ALIVE = 15_000;

/** One for all tests: apps on one clock are shared. */
const clock = new ManualClock();

describe.each(ONE_ADAPTER)('attacks on the connections of modern requests, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true, sseAfterMs: 0 });
  const textOf = (client: ModernClient, name: string, headers: Record<string, string> = {}): string => {
    const body = client.message('tools/call', { name, arguments: {} }, { id: 1, progressToken: 1 });
    return requestText(senderOf(client, body), 'POST', { body, headers });
  };

  it.each(MODES)('P1: pipelined requests that all have id 1 are answered in their order (%s)', async (responseMode) => {
    const told: string[] = [];
    const hold = gate();
    const client = (
      await start({
        responseMode,
        tools: {
          first: async () => {
            await hold.promise;
            return 'first';
          },
          second: async (_, ctx) => {
            await ctx.progress(1);
            told.push('second');
            return 'second';
          },
          third: () => {
            hold.open();
            return 'third';
          },
        },
      })
    ).modern();
    const socket = await rawSocket(client);
    const last = textOf(client, 'third', { connection: 'close' });
    socket.write(textOf(client, 'first') + textOf(client, 'second') + last);
    const answer = await readToEnd(socket);
    expect(answer.match(/"text":"\w+"/g)).toEqual(['first', 'second', 'third'].map((text) => `"text":"${text}"`));
    expect(told).toEqual(['second']);
  });

  // With Node 20 and 22, responses that wait behind others do not close with their connection.
  it.each(['auto', 'sse'] as const)('P4: a client that leaves cancels what it has pipelined (%s)', async (mode) => {
    const signals: AbortSignal[] = [];
    const app = await start({
      clock,
      responseMode: mode,
      keepAliveMs: KEEP_ALIVE,
      tools: {
        waits: (_, ctx) => {
          signals.push(ctx.signal);
          return new Promise(() => {});
        },
      },
    });
    const client = app.modern();
    const socket = await rawSocket(client);
    socket.write(textOf(client, 'waits').repeat(20));
    await app.settled({ inFlight: 20 });
    await clock.advance(0);
    await app.settled({ openResponses: 20 });
    socket.destroy();
    await eventually(() => expect(signals[0]!.aborted).toBe(true));
    await clock.advance(KEEP_ALIVE);
    await eventually(() => expect(signals.filter(({ aborted }) => aborted)).toHaveLength(20));
    await app.settled(NOTHING);
  });

  it('P4: a client that leaves gets no answer to what it has pipelined (json), and nothing is left of it', async () => {
    const hold = gate();
    const app = await start({
      responseMode: 'json',
      tools: { waits: () => hold.promise.then(() => 'done') },
    });
    const client = app.modern();
    const socket = await rawSocket(client);
    socket.write(textOf(client, 'waits').repeat(20));
    await app.settled({ inFlight: 20 });
    socket.destroy();
    await connectionsGone(app);
    hold.open();
    await app.settled(NOTHING);
  });

  it('M7: subscriptions that are pipelined end with their connection', async () => {
    const app = await start({ clock, keepAliveMs: KEEP_ALIVE });
    const client = app.modern();
    const body = client.message('subscriptions/listen', { notifications: { toolsListChanged: true } });
    const socket = await rawSocket(client);
    socket.write(requestText(senderOf(client, body), 'POST', { body }).repeat(15));
    await app.settled({ subscriptions: 15, openResponses: 15 });
    socket.destroy();
    await connectionsGone(app);
    await clock.advance(KEEP_ALIVE);
    await app.settled(NOTHING);
  });
});
