import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool } from '../support/app.js';
import { gists } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually } from '../support/test-apps.js';

const KEEP_ALIVE_MS = 15_000;

describe.each(ONE_ADAPTER)('a node that dies on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b, c]: Member[] = [];
  let client: RawClient;
  let there: RawClient;
  let hold: ReturnType<typeof gate<void>>;
  let outcomes: string[];
  let aborted: unknown[];

  /** Says something, and something more when the test lets it. */
  const talks: TestTool = async ({ me }, ctx) => {
    ctx.signal.addEventListener('abort', () => aborted.push(me));
    await ctx.log('info', 'one');
    await hold.promise;
    await ctx.log('info', 'too late').then(
      () => outcomes.push('logged'),
      (error: { code?: string }) => outcomes.push(String(error.code)),
    );
    return 'too late';
  };
  const asks: TestTool = async (_, ctx, sessions) => {
    await sessions.request(ctx.session!.id, { method: 'ping' });
    return 'answered';
  };

  beforeEach(async () => {
    [clock, hold, outcomes, aborted] = [new ManualClock(), gate(), [], []];
    deployment = new Deployment(clock);
    const tools = { talks, asks, quick: () => 'quick' };
    const start = () => deployment.member({ adapter, keepAliveMs: KEEP_ALIVE_MS, tools });
    [a, b, c] = [await start(), await start(), await start()];
    client = await a.app.client().initialize();
    there = at(b.app, client);
  });
  afterEach(async () => {
    hold.open();
    await deployment.close();
  });

  const died = { error: { code: -32000, message: expect.stringMatching(/failed.*Repeat/) } };

  it('nodes: a client that resumes on another node finds the error that ends the call of a dead node', async () => {
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    deployment.kill(a!);
    await deployment.bury(a!);
    const resumed = (await there.get(call.primes[0])).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['one', 'error -32000']);
    expect(resumed.messages[1]).toMatchObject({ id: 'c', ...died });
    expect(resumed.events.map(({ id }) => id!.split('_')[1])).toEqual(['1', '2']);
    expect((await there.get(resumed.events[1]!.id)).status).toBe(405);
    // Nothing of it is open any more: the id is free.
    expect((await there.call('quick', {}, { id: 'c' })).status).toBe(200);
    expect(await deployment.eventStore.unfinished(a!.bus.nodeId)).toEqual([]);
  });

  it('nodes: a client that resumed before a node died gets the error at once, on every other node', async () => {
    const calls = [
      await (await client.call('talks', {}, { id: 1 })).sse().count(1),
      await (await client.call('talks', {}, { id: 2 })).sse().count(1),
    ];
    for (const call of calls) call.destroy();
    await a!.app.settled({ readers: 0 });
    const readers = [
      (await there.get(calls[0]!.events[0]!.id)).sse(),
      (await at(c!.app, client).get(calls[1]!.events[0]!.id)).sse(),
    ];
    for (const reader of readers) await reader.opened();
    deployment.kill(a!);
    await deployment.bury(a!);
    for (const [n, reader] of readers.entries()) {
      expect(await reader.end()).toBe('end');
      expect(reader.messages).toMatchObject([{ id: n + 1, ...died }]);
    }
  });

  it('nodes: a batch of a dead node gets every missing answer on its stream', async () => {
    const old = await a!.app.client().initialize('2025-03-26');
    const batch = [
      old.toolCall('talks', {}, { id: 'x' }),
      old.toolCall('quick', {}, { id: 'y' }),
      old.toolCall('talks', {}, { id: 'z' }),
    ];
    const call = await (await old.post(batch)).sse().count(3);
    deployment.kill(a!);
    await deployment.bury(a!);
    const resumed = (await at(b!.app, old).get(call.events[2]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(resumed.messages.map(({ id }) => id)).toEqual(['x', 'z']);
    expect(resumed.messages).toMatchObject([died, died]);
  });

  it('nodes: two nodes that learn of a death at the same time end its calls once', async () => {
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    const standalone = await client.listen();
    b!.backend.pause();
    deployment.kill(a!);
    // The one that was told is slow; another one is told too.
    deployment.mourn(c!, a!);
    await clock.advance(0);
    b!.backend.back();
    await clock.advance(0);
    await deployment.bury(a!);
    deployment.mourn(b!, a!);
    await clock.advance(0);
    const resumed = (await there.get(call.primes[0])).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['one', 'error -32000']);
    expect([b!, c!].flatMap(({ events }) => events.filter(({ type }) => type === 'store-fault'))).toEqual([]);
    standalone.destroy();
  });

  it('nodes: calls of a dead node end as soon as the log is available again', async () => {
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    b!.backend.refuse('append');
    deployment.kill(a!);
    await deployment.bury(a!);
    await clock.advance(120_000);
    expect(await deployment.eventStore.unfinished(a!.bus.nodeId)).toHaveLength(1);
    b!.backend.back();
    await clock.advance(2_000);
    expect(await deployment.eventStore.unfinished(a!.bus.nodeId)).toEqual([]);
    const resumed = (await there.get(call.events[0]!.id)).sse();
    await resumed.end();
    expect(resumed.messages).toMatchObject([{ id: 'c', ...died }]);
  });

  it('nodes: an answer to the question of a dead node has no effect', async () => {
    const call = await (await client.call('asks', {}, { id: 'c' })).sse().count(1);
    deployment.kill(a!);
    await deployment.bury(a!);
    await there.respond(call.messages[0].id, {});
    const resumed = (await there.get(call.events[0]!.id)).sse();
    await resumed.end();
    expect(resumed.messages).toMatchObject([{ id: 'c', ...died }]);
  });

  it('nodes: the handler of a node that was only thought dead is cancelled, and nothing follows the end', async () => {
    const call = await (await client.call('talks', { me: 'c' }, { id: 'c' })).sse().count(1);
    a!.backend.pause();
    deployment.kill(a!);
    const resumed = (await there.get(call.primes[0])).sse();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['one', 'error -32000']);
    // It goes on.
    hold.open();
    a!.backend.back();
    await eventually(() => expect(outcomes).toEqual(['STREAM_ENDED']));
    await eventually(() => expect(aborted).toEqual(['c']));
    await a!.app.settled({ inFlight: 0 });
    const stream = resumed.events[0]!.id!.split('_')[0]!;
    const head = await deployment.eventStore.read(client.sessionId!, stream, 0, 0);
    expect(head).toMatchObject({ last: 2, ended: true });
    // Who was still connected to it gets no more than the log has.
    await clock.advance(KEEP_ALIVE_MS);
    await call.end();
    expect(gists(call.messages).filter((message) => message === 'too late')).toEqual([]);
  });

  it('nodes: a node that was thought dead ends its streams without writing to them', async () => {
    const call = await (await client.call('talks', { me: 'c' }, { id: 'c' })).sse().count(1);
    deployment.kill(a!);
    await clock.advance(2 * KEEP_ALIVE_MS);
    expect(await call.end()).toBe('end');
    expect(gists(call.messages)).toEqual(['one', 'error -32000']);
  });

  it('nodes: a call without a logged message leaves nothing in the log of a dead node', async () => {
    const call = client.call('quick');
    await (await call).text();
    deployment.kill(a!);
    await deployment.bury(a!);
    expect(await deployment.eventStore.unfinished(a!.bus.nodeId)).toEqual([]);
    expect((await there.call('quick')).status).toBe(200);
  });
});
