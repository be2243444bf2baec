import type { Server } from '@modelcontextprotocol/server';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestAppOptions, type TestTool } from '../support/app.js';
import { cancelOf, gists, log } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';
import { RecordedLog } from '../support/recorded-log.js';
import { expectAway, expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { scripted, type ScriptedTool } from '../support/scripted-server.js';
import { eventually } from '../support/test-apps.js';

const IDLE_MS = 1_800_000;
const KEEP_ALIVE_MS = 15_000;
const SERVER_REQUEST_TIMEOUT_MS = 300_000;

/** The answer to a call whose answer the log did not take. */
const lost = (id: unknown): unknown => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32000, message: expect.stringMatching(/^The storage .* lost the answer to this request/) as string },
});

describe.each(ONE_ADAPTER)('while the shared backend is unavailable, on %s', (adapter) => {
  const recorded = new RecordedLog();
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b]: Member[] = [];
  let client: RawClient;
  let there: RawClient;
  let hold: ReturnType<typeof gate<void>>;
  let outcomes: unknown[];

  const talks: TestTool = async (_, ctx) => {
    await ctx.log('info', 'one');
    await hold.promise;
    for (const word of ['two', 'three'])
      await ctx.log('info', word).catch((error: { message: string }) => outcomes.push(error.message));
    return 'said';
  };
  const talksOnce: TestTool = async (_, ctx) => {
    await ctx.log('info', 'one');
    await hold.promise;
    return 'said';
  };
  const asks: TestTool = async (_, ctx, sessions) => {
    await sessions.request(ctx.session!.id, { method: 'ping' });
    return 'answered';
  };

  const begin = async (options: Partial<TestAppOptions>): Promise<void> => {
    deployment = new Deployment(clock);
    const start = () => deployment.member({ adapter, keepAliveMs: KEEP_ALIVE_MS, idleTimeoutMs: IDLE_MS, ...options });
    [a, b] = [await start(), await start()];
    client = await a.app.client().initialize();
    there = at(b.app, client);
  };

  beforeEach(async () => {
    recorded.lines.length = 0;
    [clock, hold, outcomes] = [new ManualClock(), gate(), []];
    await begin({ tools: { talks, talksOnce, asks, quick: () => 'quick' } });
    recorded.attach();
  });
  afterEach(async () => {
    hold.open();
    await deployment.close();
    recorded.release();
  });

  const away = (): void => {
    a!.backend.away();
    b!.backend.away();
  };
  const back = (): void => {
    a!.backend.back();
    b!.backend.back();
  };
  const errors = () => recorded.texts('error').filter((text) => text.includes('store'));

  /** Messages of the tool `talks` wait for more than half a minute. */
  const expectLateMessagesFail = async (): Promise<void> => {
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    a!.backend.away();
    hold.open();
    await clock.advance(60_000);
    expect(await call.end()).toBe('end');
    expect(call.messages.slice(1)).toEqual([lost('c')]);
    await eventually(() => expect(outcomes).toEqual([expect.stringMatching(/storage of this server is unavailable/)]));
    a!.backend.back();
    await clock.advance(5_000);
    expect((await client.call('quick', {}, { id: 'c' })).status).toBe(200);
  };

  /** Has the answer to the tool `talks` wait for more than half a minute, after its client has lost the connection. */
  const giveUp = async (id: string): Promise<string> => {
    const call = await (await client.call('talks', {}, { id })).sse().count(1);
    call.destroy();
    await a!.app.settled({ openResponses: 0 });
    a!.backend.away();
    hold.open();
    await clock.advance(60_000);
    return call.events[0]!.id!;
  };

  it('nodes: requests are refused with 503 and Retry-After, and served when the backend is back', async () => {
    away();
    // Where the session is live a call that is answered as JSON needs no store.
    expect((await client.call('quick', {}, { id: 'here' })).status).toBe(200);
    await expectAway(await there.call('quick', {}, { id: 'there' }), 'there');
    await expectAway(await there.get(), null);
    await expectAway(await client.delete(), null);
    await expectAway(await there.delete(), null);
    const newcomer = b!.app.client();
    await expectAway(await newcomer.post(newcomer.initializeMessage()), 1);
    // Who names a session that may be there is not told to start over.
    await expectAway(await there.post(there.initializeMessage()), 1);
    back();
    expect(gists([await (await client.call('quick', {}, { id: 'here' })).json()])).toEqual(['quick']);
    expect(gists([await (await there.call('quick', {}, { id: 'there' })).json()])).toEqual(['quick']);
    await a!.app.settled({ sessions: 1, logs: 1 });
    expect((await there.delete()).status).toBe(204);
  });

  it('nodes: requests that need no session store are served when that alone is unavailable', async () => {
    a!.backend.refuse('get', 'touch', 'delete', 'patch', 'create', 'claimExpired');
    await clock.advance(IDLE_MS / 5);
    expect((await client.call('quick', {}, { id: 1_001 })).status).toBe(200);
    await expectAway(await client.delete(), null);
    const newcomer = a!.app.client();
    await expectAway(await newcomer.post(newcomer.initializeMessage()), 1);
  });

  it('nodes: a question whose answer was refused meanwhile fails as one that was not answered', async () => {
    const before = await (await client.call('asks', {}, { id: 'before' })).sse().count(1);
    const answer = { jsonrpc: '2.0', id: before.messages[0].id, result: {} };
    away();
    await expectAway(await there.post(answer), null);
    a!.bus.reconnect();
    back();
    await clock.advance(SERVER_REQUEST_TIMEOUT_MS);
    await before.end();
    expect(before.messages.at(-1).error.message).toMatch(
      /did not answer "ping" within 300000 ms \("serverRequestTimeoutMs"\)\.$/,
    );
  });

  it('nodes: a message to a handler on this node is accepted, one for other nodes is refused', async () => {
    const here = await (await client.call('asks', {}, { id: 'here' })).sse().count(1);
    const elsewhere = await (await there.call('asks', {}, { id: 'there' })).sse().count(1);
    away();
    expect((await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' })).status).toBe(202);
    await client.respond(here.messages[0].id, {});
    const answer = { jsonrpc: '2.0', id: elsewhere.messages[0].id, result: {} };
    await expectAway(await client.post(answer), null);
    await expectAway(await client.post({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' }), null);
    await expectAway(
      await client.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'there' } }),
      null,
    );
    back();
    await clock.advance(2_000);
    await client.respond(answer.id, {});
    await clock.advance(2_000);
    for (const call of [here, elsewhere]) {
      expect(await call.end()).toBe('end');
      expect(gists(call.messages)).toEqual(['request ping', 'answered']);
    }
  });

  it('G11: a GET of a live session is held with comments, and ends when the backend is back', async () => {
    await a!.app.service.notify(client.sessionId!, log('before'));
    away();
    const held = await client.get();
    expect(held.status).toBe(200);
    const stream = await held.sse().opened();
    expect(stream.primes).toEqual([]);
    const resumed = await (await client.get('0_0')).sse().opened();
    // Official clients forget a cursor that the response does not repeat.
    expect(resumed.primes).toEqual(['0_0']);
    const { length } = stream.comments;
    await clock.advance(4 * KEEP_ALIVE_MS);
    await stream.until(({ comments }) => comments.length >= length + 3);
    expect([stream.ended, resumed.ended]).toEqual([undefined, undefined]);
    await expectAway(await there.get(), null);
    back();
    await clock.advance(2_000);
    expect(await Promise.all([stream.end(), resumed.end()])).toEqual(['end', 'end']);
    const again = await (await client.get('0_0')).sse().count(1);
    await a!.app.service.notify(client.sessionId!, log('after'));
    await again.count(2);
    expect(gists(again.messages)).toEqual(['before', 'after']);
    again.destroy();
  });

  it('G11: a GET that was held for less than a client takes to come back reads on', async () => {
    await a!.app.service.notify(client.sessionId!, log('before'));
    away();
    const held = await (await client.get('0_0')).sse().opened();
    await clock.advance(100);
    back();
    await clock.advance(1_000);
    await held.count(1);
    expect(gists(held.messages)).toEqual(['before']);
    held.destroy();
  });

  it('G8: a client gets the id of a stream only when other nodes can continue that stream', async () => {
    a!.backend.refuse('append');
    const call = (await client.call('talks', {}, { id: 'c' })).sse();
    await clock.advance(KEEP_ALIVE_MS);
    await call.opened();
    expect([call.primes, call.events, call.comments.length > 0]).toEqual([[], [], true]);
    a!.backend.back();
    await clock.advance(2_000);
    await call.count(1);
    expect(call.primes).toHaveLength(1);
    expect(call.body.indexOf(call.primes[0]!)).toBeLessThan(call.body.indexOf('one'));
    const resumed = (await there.get(call.primes[0])).sse();
    hold.open();
    expect(await resumed.end()).toBe('end');
    expect(gists(resumed.messages)).toEqual(['one', 'two', 'three', 'said']);
    await call.end();
  });

  it('G11: a GET that is held ends when its session has ended', async () => {
    a!.backend.away();
    const stream = await (await client.get()).sse().opened();
    expect((await there.delete()).status).toBe(204);
    a!.backend.back();
    await clock.advance(2_000);
    await stream.end();
    await a!.app.settled({ live: 0, readers: 0 });
    await clock.advance(KEEP_ALIVE_MS);
  });

  it('nodes: open streams stay open for as long as it takes, without piling up timers', async () => {
    const standalone = await client.listen();
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    away();
    await clock.advance(10_000);
    const { pending } = clock;
    await clock.advance(20 * 60_000);
    expect(clock.pending).toBeLessThanOrEqual(pending);
    expect([standalone.ended, call.ended]).toEqual([undefined, undefined]);
    back();
    await clock.advance(KEEP_ALIVE_MS);
    hold.open();
    expect(await call.end()).toBe('end');
    expect(gists(call.messages)).toEqual(['one', 'two', 'three', 'said']);
    await b!.app.service.notify(client.sessionId!, log('after'));
    await standalone.count(1);
    standalone.destroy();
  });

  it('nodes: messages that are sent meanwhile are delivered when the backend is back, in order and once', async () => {
    const standalone = await client.listen();
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    a!.backend.away();
    hold.open();
    await clock.advance(20_000);
    expect(gists(call.messages)).toEqual(['one']);
    a!.backend.back();
    await clock.advance(5_000);
    expect(await call.end()).toBe('end');
    expect(gists(call.messages)).toEqual(['one', 'two', 'three', 'said']);
    expect(outcomes).toEqual([]);
    standalone.destroy();
  });

  it('G13: messages that wait for longer than half a minute fail, their senders get an error, and so does the client', () =>
    expectLateMessagesFail());

  it('G13: a response whose answer waits for longer than half a minute gets that answer, without an event id', async () => {
    const call = await (await client.call('talksOnce', {}, { id: 'c' })).sse().count(1);
    away();
    hold.open();
    await clock.advance(60_000);
    expect(await call.end()).toBe('end');
    expect(gists(call.messages)).toEqual(['one', 'said']);
    expect(call.events.map(({ id }) => id !== undefined)).toEqual([true, false]);
    back();
    await clock.advance(KEEP_ALIVE_MS);
  });

  it('G13: a response that has no event id yet gets an answer, too', async () => {
    away();
    const call = (await client.call('talks', {}, { id: 'c' })).sse();
    await clock.advance(60_000);
    expect(await call.end()).toBe('end');
    expect([call.primes, call.messages]).toEqual([[], [lost('c')]]);
    back();
    await clock.advance(KEEP_ALIVE_MS);
  });

  it('G13: a client that comes back to a call that was given up gets an error at once, and is held when it comes again', async () => {
    const cursor = await giveUp('c');
    const told = (await client.get(cursor)).sse();
    expect(await told.end()).toBe('end');
    expect([told.primes, told.messages, told.events[0]!.id]).toEqual([[cursor], [lost('c')], undefined]);
    // As clients do that take no error for an answer.
    const held = await (await client.get(cursor)).sse().opened();
    await clock.advance(4 * KEEP_ALIVE_MS);
    expect([held.primes, held.messages, held.ended]).toEqual([[cursor], [], undefined]);
    back();
    await clock.advance(2_000);
    expect(await held.end()).toBe('end');
    const last = (await client.get(cursor)).sse();
    expect(await last.end()).toBe('end');
    expect(last.messages).toEqual([lost('c')]);
    expect((await client.get(last.events[0]!.id)).status).toBe(405);
  });

  it('G13: a client that is held when its call is given up comes back for the error', async () => {
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    const cursor = call.events[0]!.id!;
    call.destroy();
    await a!.app.settled({ openResponses: 0 });
    away();
    hold.open();
    const held = await (await client.get(cursor)).sse().opened();
    await clock.advance(60_000);
    expect(await held.end()).toBe('end');
    expect([held.primes, held.messages]).toEqual([[cursor], []]);
    const told = (await client.get(cursor)).sse();
    expect(await told.end()).toBe('end');
    expect(told.messages).toEqual([lost('c')]);
    back();
    await clock.advance(KEEP_ALIVE_MS);
  });

  it('G13: a client that comes back to another node after the outage gets the error from the log', async () => {
    const cursor = await giveUp('c');
    b!.backend.away();
    await expectAway(await there.get(cursor), null);
    back();
    // Before the node that ran the call has reached the log.
    const resumed = (await there.get(cursor)).sse();
    await clock.advance(2_000);
    expect(await resumed.end()).toBe('end');
    expect(resumed.messages).toEqual([lost('c')]);
    expect((await there.get(resumed.events[0]!.id)).status).toBe(405);
  });

  it('G13: each call of a batch that was given up has one answer', async () => {
    const older = await a!.app.client().initialize('2025-03-26');
    const calls = ['quick', 'talks', 'talksOnce', 'talks'].map((name, at) => older.toolCall(name, {}, { id: at + 1 }));
    const batch = await (await older.post(calls)).sse().count(4);
    expect((await older.post(cancelOf(4))).status).toBe(202);
    away();
    hold.open();
    await clock.advance(60_000);
    expect(await batch.end()).toBe('end');
    const byId = new Map(batch.messages.filter(({ id }) => id).map((message) => [message.id, message]));
    expect([gists([byId.get(1), byId.get(3)]), byId.get(2), byId.has(4)]).toEqual([['quick', 'said'], lost(2), false]);
    back();
    await clock.advance(KEEP_ALIVE_MS);
    await older.delete();
  });

  it('nodes: methods of McpSessionService reject with a typed error that names the error of the store, which is logged', async () => {
    const { service } = b!.app;
    b!.backend.away();
    const { sessionId } = client as { sessionId: string };
    const calls = [
      service.list(),
      service.get(sessionId),
      service.terminate(sessionId),
      service.terminateAll(),
      service.notify(sessionId, log('x')),
      service.notify(() => true, log('x')),
      service.resourceUpdated('doc:1'),
      service.request(sessionId, { method: 'ping' }),
      service.counts(),
    ];
    const cause = expect.objectContaining({ message: expect.stringMatching(/failed: the backend is away$/) }) as Error;
    for (const outcome of await Promise.allSettled(calls)) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: { name: 'McpServerRequestError', code: 'STORE_UNAVAILABLE', cause },
      });
    }
    expect(errors()).toEqual([expect.stringMatching(/the backend is away$/)]);
    b!.backend.back();
    // The record can be read, and the log cannot be written.
    b!.backend.refuse('append');
    const sent = Promise.allSettled([service.notify(sessionId, log('x'))]);
    await clock.advance(60_000);
    expect(await sent).toMatchObject([{ reason: { name: 'McpServerRequestError', code: 'STORE_UNAVAILABLE' } }]);
    expect(b!.events.at(-1)).toMatchObject({
      type: 'store-fault',
      error: { message: expect.stringMatching(/refuses/) },
    });
  });

  it('nodes: the log of each node has one entry for each outage', async () => {
    const streams = [await client.listen(), await client.listen()];
    away();
    for (let n = 0; n < 10; n++) {
      await expectAway(await client.delete(), null);
      await clock.advance(2 * KEEP_ALIVE_MS);
    }
    // Once for each node.
    expect(errors()).toHaveLength(2);
    back();
    await clock.advance(120_000);
    a!.backend.away();
    await expectAway(await client.delete(), null);
    await expectAway(await client.delete(), null);
    expect(errors()).toHaveLength(3);
    for (const stream of streams) stream.destroy();
  });

  it('nodes: nothing is left of a session that could not be rebuilt', async () => {
    b!.backend.refuse('get');
    await expectAway(await there.call('quick', {}, { id: 1 }));
    await b!.app.settled({ live: 0, inFlight: 0, sessions: 1, logs: 1 });
    b!.backend.back();
    expect((await there.call('quick', {}, { id: 1 })).status).toBe(200);
  });

  it.each(['create', 'open'])('S2: a session whose %s has an unknown outcome expires', async (method) => {
    b!.backend.loseAnswers(method);
    b!.backend.refuse('delete');
    const newcomer = b!.app.client();
    await expectAway(await newcomer.post(newcomer.initializeMessage()), 1);
    b!.backend.back();
    await client.delete();
    await clock.advance(2 * IDLE_MS);
    await b!.app.settled({ sessions: 0, live: 0, logs: 0, timers: 0 });
  });

  it('S12: a DELETE with an unknown outcome can be repeated, and leaves nothing', async () => {
    a!.backend.loseAnswers('delete');
    await expectAway(await client.delete(), null);
    a!.backend.back();
    await expectRefusal(await client.delete(), NO_SUCH_SESSION);
    await clock.advance(KEEP_ALIVE_MS);
    await a!.app.settled({ sessions: 0, live: 0, logs: 0, timers: 0 });
  });

  it('S15: a node that is shut down stops in time', async () => {
    const stream = await client.listen();
    const call = await (await client.call('talks', {}, { id: 'c' })).sse().count(1);
    a!.backend.away();
    await deployment.stop(a!);
    expect([await stream.end(), await call.end()]).toEqual(['end', 'end']);
    expect((await there.call('quick', {}, { id: 1 })).status).toBe(200);
    // The log says that it runs a call: whoever ends the session gives it a moment to answer that.
    await there.delete();
    await clock.advance(2_000);
  });

  describe('with an SDK server', () => {
    let servers: Server[];
    /** How often a server heard that roots have changed. */
    let roots: number;

    const said: ScriptedTool = async (_, ctx) => {
      await ctx.mcpReq.notify(log('one'));
      await hold.promise;
      for (const word of ['two', 'three'])
        await ctx.mcpReq.notify(log(word)).catch((error: { message: string }) => outcomes.push(error.message));
      return 'said';
    };
    beforeEach(async () => {
      [servers, roots] = [[], 0];
      await deployment.close();
      const server = scripted({ talks: said, quick: () => 'quick' }, (made) => {
        servers.push(made);
        made.setNotificationHandler('notifications/roots/list_changed', () => void roots++);
      });
      await begin({ server });
    });

    it('nodes: a notification that is refused reaches no server of its session', async () => {
      const changed = { jsonrpc: '2.0', method: 'notifications/roots/list_changed' };
      expect((await there.call('quick', {}, { id: 1 })).status).toBe(200);
      away();
      await expectAway(await client.post(changed), null);
      expect(roots).toBe(0);
      back();
      await clock.advance(2_000);
      expect((await client.post(changed)).status).toBe(202);
      await eventually(() => expect(roots).toBe(2));
    });

    it('G13: messages that wait for longer than half a minute fail, their senders get an error, and so does the client', () =>
      expectLateMessagesFail());

    it('S14: a session whose server was closed meanwhile ends when the backend is back', async () => {
      const stream = await client.listen();
      a!.backend.away();
      await servers[0]!.close();
      expect(await stream.end()).toBe('end');
      await expectRefusal(await client.call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
      a!.backend.back();
      await clock.advance(KEEP_ALIVE_MS);
      await a!.app.settled({ sessions: 0, live: 0, logs: 0, timers: 0 });
      expect(a!.events.filter(({ type }) => type === 'closed')).toHaveLength(1);
    });
  });
});
