import type { McpContext } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestAppOptions } from '../support/app.js';
import { double } from '../support/doubles.js';
import { gists, log } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import { expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';

const IDLE_MS = 600_000;
const NOTHING = { sessions: 0, live: 0, inFlight: 0, streams: 0, readers: 0, logs: 0, openResponses: 0, timers: 0 };

describe.each(ONE_ADAPTER)('ends across nodes on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;

  beforeEach(() => {
    clock = new ManualClock();
    deployment = new Deployment(clock);
  });
  afterEach(() => deployment.close());

  const start = (options: Partial<TestAppOptions> = {}): Promise<Member> =>
    deployment.member({ adapter, idleTimeoutMs: IDLE_MS, tools: { quick: () => 'quick' }, ...options });
  const closed = (...nodes: Member[]) =>
    nodes.map(({ events }) => events.flatMap((event) => (event.type === 'closed' ? [event.reason] : [])));

  it('S12: a reader that is behind the log gets the end of its call too', async () => {
    const hold = gate();
    const { eventStore } = deployment;
    const slow = double(eventStore, { read: (...from) => hold.promise.then(() => eventStore.read(...from)) });
    const runs = (_: unknown, ctx: McpContext) => ctx.log('info', 'begun').then(() => new Promise<never>(() => {}));
    const [a, b] = [await start(), await start({ eventStore: slow, tools: { runs } })];
    const client = await a.app.client().initialize();
    const stream = (await at(b.app, client).call('runs', {}, { id: 'call' })).sse();
    await stream.opened();
    expect((await client.delete()).status).toBe(204);
    await b.app.settled({ live: 0, inFlight: 0 });
    hold.open();
    expect(await stream.end()).toBe('end');
    expect(stream.messages.at(-1)).toMatchObject({ id: 'call', error: { code: -32000 } });
    await a.app.settled(NOTHING);
  });

  it('S13: a session that is live on no node expires, and nothing of it is left', async () => {
    const [a, b] = [await start(), await start()];
    const client = await a.app.client().initialize();
    await a.app.service.release(client.sessionId!);
    await b.app.settled({ sessions: 1, live: 0, logs: 1, timers: 0 });
    await clock.advance(2 * IDLE_MS);
    expect([...closed(a), ...closed(b)].flat().toSorted()).toEqual(expect.arrayContaining(['idle']));
    await a.app.settled(NOTHING);
    await b.app.settled(NOTHING);
    await expectRefusal(await at(b.app, client).call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
  });

  it('S13: an idle session ends on a node that another node tells, though it cannot read the records', async () => {
    const [a, b] = [await start(), await start()];
    const client = await a.app.client().initialize();
    await at(b.app, client).call('quick');
    b.backend.refuse('get', 'claimExpired');
    await clock.advance(2 * IDLE_MS);
    expect(closed(a, b)).toEqual([['idle'], ['ended-elsewhere']]);
    b.backend.back();
    await b.app.settled(NOTHING);
  });

  it('S13: a session whose only node has stopped or died expires', async () => {
    const [a, b, c] = [await start(), await start(), await start()];
    await a.app.client().initialize();
    await b.app.client().initialize();
    await deployment.stop(a);
    deployment.kill(b);
    await deployment.bury(b);
    await c.app.settled({ sessions: 2, live: 0, logs: 2 });
    await clock.advance(2 * IDLE_MS);
    expect(closed(c)).toEqual([['idle', 'idle']]);
    await c.app.settled(NOTHING);
  });

  it('S13: a node that starts ends the expired sessions of nodes that are gone', async () => {
    const a = await start();
    await a.app.client().initialize();
    await deployment.stop(a);
    expect(clock.pending).toBe(0);
    const b = await start();
    await clock.advance(2 * IDLE_MS);
    expect(closed(b)).toEqual([['idle']]);
    await b.app.settled(NOTHING);
  });

  it('S13: a node without messages of the bus releases sessions that have ended elsewhere', async () => {
    const [a, b] = [await start(), await start()];
    const [busy, idle, listening] = [
      await a.app.client().initialize(),
      await a.app.client().initialize(),
      await a.app.client().initialize(),
    ];
    const stream = await listening.listen();
    a.bus.fate = () => 'lost';
    for (const client of [busy, idle, listening]) expect((await at(b.app, client).delete()).status).toBe(204);
    await clock.advance(1);
    expect((await busy.call('quick')).status).toBe(200);
    await a.app.settled({ live: 3 });
    // The log of the one that is read is missed first.
    await clock.advance(15_000);
    await stream.end();
    await a.app.settled({ live: 2 });
    await clock.advance(IDLE_MS / 5);
    await a.app.settled({ live: 1 });
    await clock.advance(IDLE_MS);
    expect(closed(a)).toEqual([['ended-elsewhere', 'ended-elsewhere', 'ended-elsewhere']]);
    await a.app.settled(NOTHING);
  });

  it('nodes: a node releases sessions that have ended elsewhere when the bus reconnects, which is no activity', async () => {
    const [a, b] = [await start(), await start()];
    const [gone, stays] = [await a.app.client().initialize(), await a.app.client().initialize()];
    const before = (await a.app.service.get(stays.sessionId!))!.lastSeenAt;
    a.bus.fate = () => 'lost';
    await at(b.app, gone).delete();
    await clock.advance(IDLE_MS / 2);
    a.bus.reconnect();
    await a.app.settled({ live: 1 });
    expect((await a.app.service.get(stays.sessionId!))!.lastSeenAt).toBe(before);
    await expectRefusal(await gone.call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    expect((await stays.call('quick')).status).toBe(200);
  });

  it('S13: a node releases a session without idle timeout that has ended elsewhere', async () => {
    const [a, b] = [await start({ idleTimeoutMs: Infinity }), await start({ idleTimeoutMs: Infinity })];
    const client = await a.app.client().initialize();
    a.bus.fate = () => 'lost';
    await at(b.app, client).delete();
    await clock.advance(1_900_000);
    expect(closed(a)).toEqual([['ended-elsewhere']]);
    await a.app.settled(NOTHING);
  });

  it('S14: terminateAll(), list() and counts() cover the sessions of all nodes', async () => {
    const [a, b, c] = [await start(), await start(), await start()];
    const clients = [
      await a.app.client().initialize(),
      await a.app.client().initialize(),
      await b.app.client().initialize(),
    ];
    const streams = await Promise.all(clients.map((client) => at(b.app, client).listen()));
    expect((await c.app.service.list()).map(({ id }) => id)).toEqual(clients.map(({ sessionId }) => sessionId));
    await c.app.settled({ sessions: 3, live: 0, logs: 3 });
    expect(await c.app.service.terminateAll()).toBe(3);
    expect(await Promise.all(streams.map((stream) => stream.end()))).toEqual(['end', 'end', 'end']);
    for (const { app } of [a, b, c]) await app.settled(NOTHING);
    expect(await a.app.service.terminateAll()).toBe(0);
  });

  it('nodes: notify() reaches the sessions of all nodes that a predicate picks', async () => {
    const options = { guards: [trustingGuard] };
    const [a, b, c] = [await start(options), await start(options), await start(options)];
    const ann = await a.app.client(as('ann')).initialize();
    const bob = await b.app.client(as('bob')).initialize();
    const streams = [await ann.listen(), await bob.listen()];
    expect(await c.app.service.notify(({ principal }) => principal === 'bob', log('bob only'))).toBe(1);
    expect(await c.app.service.notify(() => true, log('all'))).toBe(2);
    expect(await c.app.service.notify('unknown', log('nobody'))).toBe(0);
    await streams[1]!.count(2);
    await streams[0]!.count(1);
    expect(streams.map(({ messages }) => gists(messages))).toEqual([['all'], ['bob only', 'all']]);
    for (const stream of streams) stream.destroy();
  });

  it('nodes: sessions on nodes with different clocks end neither too early nor too late', async () => {
    const [early, late] = [new ManualClock(0), new ManualClock(Date.UTC(2040, 0, 1))];
    const [a, b] = [await start({ clock: early }), await start({ clock: late })];
    const advance = async (ms: number): Promise<void> => {
      for (const each of [clock, early, late]) await each.advance(ms);
    };
    const client = await a.app.client().initialize();
    const other = await b.app.client().initialize();
    for (let n = 0; n < 8; n++) {
      await advance(IDLE_MS / 4);
      expect((await at(b.app, client).call('quick', {}, { id: n })).status).toBe(200);
      expect((await at(a.app, other).call('quick', {}, { id: n })).status).toBe(200);
    }
    const stream = await at(b.app, client).listen();
    await a.app.service.notify(client.sessionId!, log('heard'));
    await stream.count(1);
    stream.destroy();
    await b.app.settled({ readers: 0 });
    for (let n = 0; n < 10; n++) await advance(IDLE_MS / 5);
    await a.app.settled(NOTHING);
    await b.app.settled(NOTHING);
    expect([...closed(a), ...closed(b)].flat().filter((reason) => reason === 'idle')).toHaveLength(2);
  });
});
