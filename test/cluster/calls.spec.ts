import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestAppOptions, type TestTool } from '../support/app.js';
import type { SseStream } from '../support/http.js';
import { gists, log } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually } from '../support/test-apps.js';
import { scripted } from '../support/scripted-server.js';

describe.each(ONE_ADAPTER)('calls of one session on several nodes on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b, c]: Member[] = [];
  let client: RawClient;
  let [onB, onC]: RawClient[] = [];
  /** Lets the handler with this name go on. */
  let go: Record<string, ReturnType<typeof gate<void>>>;
  let begun: unknown[];
  let aborted: unknown[];

  /** Waits, then talks until it is let go, unless it is cancelled. */
  const talks: TestTool = async ({ me }, ctx) => {
    ctx.signal.addEventListener('abort', () => aborted.push(me));
    begun.push(me);
    await go[`${me} talks`]!.promise;
    await ctx.log('info', me).catch(() => {});
    await go[`${me} ends`]!.promise;
    return `answer of ${me}`;
  };
  /** Closes the responses of its call when it is told to. */
  const closes: TestTool = async (_, ctx) => {
    await ctx.log('info', 'begun');
    await go['close']!.promise;
    ctx.closeStream();
    await go['end']!.promise;
    return 'said';
  };

  const begin = async (options: Partial<TestAppOptions>): Promise<void> => {
    deployment = new Deployment(clock);
    const start = () => deployment.member({ adapter, sseAfterMs: 60_000, ...options });
    [a, b, c] = [await start(), await start(), await start()];
    client = await a.app.client().initialize();
    [onB, onC] = [at(b.app, client), at(c.app, client)];
  };
  beforeEach(async () => {
    [clock, begun, aborted] = [new ManualClock(), [], []];
    go = Object.fromEntries(['a talks', 'a ends', 'b talks', 'b ends', 'close', 'end'].map((name) => [name, gate()]));
    await begin({ tools: { talks, closes } });
  });
  afterEach(() => deployment.close());

  /** Two calls with one id, on two nodes, of which neither is in the log yet. */
  const twins = async () => {
    const calls = [client.call('talks', { me: 'a' }, { id: 'same' }), onB!.call('talks', { me: 'b' }, { id: 'same' })];
    await eventually(() => expect(new Set(begun)).toEqual(new Set(['a', 'b'])));
    return calls as [Promise<Awaited<(typeof calls)[0]>>, Promise<Awaited<(typeof calls)[0]>>];
  };
  const open = (...names: string[]): void => {
    for (const name of names) go[name]!.open();
  };

  it('S11: two nodes that get one id at the same moment both serve it', async () => {
    const [first, second] = await twins();
    open('a talks', 'a ends');
    const stream = (await first).sse();
    expect(await stream.end()).toBe('end');
    open('b talks', 'b ends');
    expect(gists((await (await second).sse().count(2)).messages)).toEqual(['b', 'answer of b']);
    expect(aborted).toEqual([]);
  });

  it('G9: a handler closes the responses of its call on all nodes, whichever is the newest', async () => {
    const posted = await (await client.call('closes')).sse().count(1);
    const cursor = posted.events[0]!.id!;
    const streams = [posted];
    for (const node of [onC!, onB!]) streams.push(await node.listen(cursor));
    open('close');
    for (const stream of streams) expect(await stream.end()).toBe('end');
    for (const { app } of [a!, b!, c!]) await app.settled({ readers: 0, openResponses: 0 });
    const head = await deployment.eventStore.read(client.sessionId!, cursor.slice(0, -2), 0, 0);
    expect(head).not.toHaveProperty('reader');
    const resumed = await onC!.listen(cursor);
    open('end');
    expect(await resumed.end()).toBe('end');
    expect([...streams, resumed].map(({ messages }) => gists(messages))).toEqual([['begun'], [], [], ['said']]);
  });

  describe('with an SDK server', () => {
    beforeEach(async () => {
      await deployment.close();
      const server = scripted({
        closes: async (_, ctx) => {
          await ctx.mcpReq.notify(log('begun'));
          await go['close']!.promise;
          ctx.http!.closeSSE!();
          ctx.http!.closeStandaloneSSE!();
          await go['end']!.promise;
          return 'said';
        },
      });
      await begin({ server });
    });

    it('G9: a handler closes the responses of the standalone stream on all nodes, and later ones stay open', async () => {
      const standalone: SseStream[] = [];
      for (const node of [onC!, onB!]) standalone.push(await node.listen());
      const posted = await (await client.call('closes')).sse().count(1);
      open('close');
      for (const stream of standalone) expect(await stream.end()).toBe('end');
      const again = await onB!.listen(standalone[0]!.primes[0]);
      open('end');
      await a!.app.settled({ inFlight: 0 });
      await c!.app.service.notify(client.sessionId!, log('heard'));
      await again.count(1);
      expect([await posted.end(), gists(again.messages)]).toEqual(['end', ['heard']]);
      again.destroy();
    });
  });
});
