import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import { Deployment } from '../support/nodes.js';
import { LATEST, RawClient } from '../support/raw-client.js';
import { expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';

const NOTHING = {
  sessions: 0,
  live: 0,
  inFlight: 0,
  outbound: 0,
  streams: 0,
  readers: 0,
  logs: 0,
  openResponses: 0,
  timers: 0,
};

/** The same client, sent to another node by its load balancer. */
function at(node: TestApp, client: RawClient): RawClient {
  return Object.assign(new RawClient(node.url, client.headers), {
    sessionId: client.sessionId,
    protocolVersion: client.protocolVersion,
  });
}

describe.each(ONE_ADAPTER)('a session on two nodes on %s', (adapter) => {
  let [a, b]: TestApp[] = [];
  let aborted: string[];
  const heard = new Map<TestApp, McpSessionEvent[]>();

  const start = async (deployment: Deployment, options: Partial<TestAppOptions> = {}): Promise<void> => {
    aborted = [];
    const node = async (name: string): Promise<TestApp> => {
      const waits: TestTool = async ({ call }, ctx) => {
        await ctx.log('info', 'begun');
        await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
        aborted.push(`${name} ${call}`);
        return 'too late';
      };
      const asks: TestTool = async (_, ctx, sessions) => {
        await sessions.request(ctx.session!.id, { method: 'ping' });
        return 'answered';
      };
      const app = await deployment.node({ adapter, tools: { where: () => name, waits, asks }, ...options });
      heard.set(app, []);
      app.service.events$.subscribe((event) => heard.get(app)!.push(event));
      return app;
    };
    [a, b] = [await node('a'), await node('b')];
  };
  const ends = (node: TestApp) => heard.get(node)!.filter(({ type }) => type === 'closed');
  const where = async (client: RawClient) => (await (await client.call('where')).json()).result.content[0].text;

  beforeEach(() => start(new Deployment()));
  afterEach(async () => {
    await Promise.all([a!.expectNothingLeft(), b!.expectNothingLeft()]);
    await Promise.all([a!.close(), b!.close()]);
  });

  it('nodes: a session that began on one node continues on the other', async () => {
    const client = await a!.client().initialize(LATEST, { roots: {} });
    const there = at(b!, client);
    expect(await where(client)).toBe('a');
    expect(await where(there)).toBe('b');
    expect(await where(client)).toBe('a');
    expect((await there.listen()).primes).toEqual(['0_0']);
    await a!.settled({ sessions: 1, live: 1, readers: 0, logs: 1 });
    await b!.settled({ sessions: 1, live: 1, readers: 1, logs: 1 });
    expect(heard.get(a!)!.map(({ type }) => type)).toEqual(['created']);
    expect(heard.get(b!)!.map(({ type }) => type)).toEqual(['rebuilt', 'stream-attached']);
    expect(await b!.service.list()).toEqual(await a!.service.list());
  });

  it('S12: a DELETE on one node ends calls and streams on the other', async () => {
    const client = await a!.client().initialize();
    const there = at(b!, client);
    const standalone = await client.listen();
    const call = await (await client.call('waits', { call: 1 }, { id: 1 })).sse().count(1);
    const callThere = await (await there.call('waits', { call: 2 }, { id: 2 })).sse().count(1);
    expect((await there.delete()).status).toBe(204);
    expect(await standalone.end()).toBe('end');
    expect(await call.end()).toBe('end');
    expect(await callThere.end()).toBe('end');
    expect(call.messages.at(-1)).toMatchObject({ id: 1, error: { code: -32000 } });
    expect(callThere.messages.at(-1)).toMatchObject({ id: 2, error: { code: -32000 } });
    await Promise.all([a!.settled(NOTHING), b!.settled(NOTHING)]);
    expect(aborted.toSorted()).toEqual(['a 1', 'b 2']);
    const { sessionId } = client;
    expect(ends(a!)).toEqual([{ type: 'closed', sessionId, reason: 'ended-elsewhere' }]);
    expect(ends(b!)).toEqual([{ type: 'closed', sessionId, reason: 'deleted' }]);
    for (const gone of [client, there]) {
      await expectRefusal(await gone.call('where', {}, { id: 'w' }), { ...NO_SUCH_SESSION, id: 'w' });
      await expectRefusal(await gone.get('0_0'), NO_SUCH_SESSION);
      await expectRefusal(await gone.delete(), NO_SUCH_SESSION);
    }
  });

  it('S14: terminate() on a node that has not met the session ends it on the other', async () => {
    const client = await a!.client().initialize();
    const stream = await client.listen();
    expect(await b!.service.terminate(client.sessionId!)).toBe(true);
    expect(await stream.end()).toBe('end');
    await Promise.all([a!.settled(NOTHING), b!.settled(NOTHING)]);
    expect(await a!.service.terminate(client.sessionId!)).toBe(false);
  });

  it('S12: of DELETEs on both nodes at a time one gets 204, and the others 404', async () => {
    const client = await a!.client().initialize();
    await where(at(b!, client));
    const responses = await Promise.all([client.delete(), at(b!, client).delete()]);
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([204, 404]));
    await Promise.all(responses.map((response) => response.text()));
    await Promise.all([a!.settled(NOTHING), b!.settled(NOTHING)]);
    expect([...ends(a!), ...ends(b!)]).toHaveLength(2);
  });

  it('S3, S4: an initialize with the id of a live session is refused on either node', async () => {
    const client = await a!.client().initialize();
    const there = at(b!, client);
    const again = there.initializeMessage();
    await expectRefusal(await there.post(again), { status: 400, code: -32600, id: 1 });
    await (await client.delete()).text();
    const response = await there.post(again);
    expect(response.status).toBe(200);
    expect(response.header('mcp-session-id')).not.toBe(client.sessionId);
    await response.text();
  });

  it('S7: another principal is refused on both nodes', async () => {
    await Promise.all([a!.close(), b!.close()]);
    await start(new Deployment(), { guards: [trustingGuard] });
    const client = await a!.client(as('ann')).initialize();
    const there = at(b!, client);
    there.headers = as('bob');
    await expectRefusal(await there.call('where', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    await expectRefusal(await there.delete(), NO_SUCH_SESSION);
    there.headers = as('ann', 'refreshed');
    expect(await where(there)).toBe('b');
  });

  it('S11: a request with an id that is in flight is refused on the node of the first one; each node checks its own ids', async () => {
    const client = await a!.client().initialize();
    const there = at(b!, client);
    const call = await (await client.call('waits', { call: 1 }, { id: 'same' })).sse().count(1);
    const refused = { status: 400, code: -32600, id: 'same', says: ['"same"', 'in flight'] };
    await expectRefusal(await client.call('where', {}, { id: 'same' }), refused);
    expect((await there.call('where', {}, { id: 'same' })).status).toBe(200);
    await client.notify('notifications/cancelled', { requestId: 'same' });
    await call.end();
    expect((await client.call('where', {}, { id: 'same' })).status).toBe(200);
  });

  it('nodes: server requests of both copies have ids of their own', async () => {
    const client = await a!.client().initialize();
    const there = at(b!, client);
    const [one, other] = [(await client.call('asks')).sse(), (await there.call('asks', {}, { id: 'b' })).sse()];
    const ids = [(await one.count(1)).messages[0].id, (await other.count(1)).messages[0].id];
    expect(new Set(ids).size).toBe(2);
    await client.respond(ids[0], {});
    await there.respond(ids[1], {});
    for (const stream of [one, other]) {
      await stream.end();
      expect(stream.messages.at(-1).result.content[0].text).toBe('answered');
    }
  });

  it('E13: caps count the sessions of both nodes', async () => {
    await Promise.all([a!.close(), b!.close()]);
    await start(new Deployment(), { maxSessions: 2 });
    const client = await a!.client().initialize();
    await b!.client().initialize();
    for (const node of [a!, b!]) {
      const late = node.client();
      await expectRefusal(await late.post(late.initializeMessage()), { status: 503, code: -32000, id: 1 });
    }
    await (await at(b!, client).delete()).text();
    await a!.client().initialize();
  });

  it('S13: a session that is busy on one node is idle on no node', async () => {
    const clock = new ManualClock();
    await Promise.all([a!.close(), b!.close()]);
    await start(new Deployment(clock), { idleTimeoutMs: 60_000 });
    const client = await a!.client().initialize();
    await where(at(b!, client));
    const stream = await client.listen();
    await clock.advance(600_000);
    await Promise.all([a!.settled({ live: 1 }), b!.settled({ live: 1 })]);
    stream.destroy();
    await a!.settled({ readers: 0 });
    await clock.advance(66_000);
    await Promise.all([a!.settled(NOTHING), b!.settled(NOTHING)]);
    expect(new Set([...ends(a!), ...ends(b!)].map((event) => 'reason' in event && event.reason))).toEqual(
      new Set(['idle', 'ended-elsewhere']),
    );
  });

  it('S15: a session continues on the other node when its node shuts down', async () => {
    await start(new Deployment(), { drainMs: 50 });
    const client = await a!.client().initialize();
    const call = await (await client.call('waits', { call: 1 }, { id: 1 })).sse().count(1);
    const there = at(b!, client);
    await a!.app.close();
    expect(await call.end()).toBe('end');
    expect(ends(a!)).toEqual([{ type: 'closed', sessionId: client.sessionId, reason: 'shutdown' }]);
    expect(await where(there)).toBe('b');
    const resumed = (await there.get(call.events[0]!.id)).sse();
    expect(await resumed.end()).toBe('end');
    expect(resumed.messages).toEqual(call.messages.slice(1));
    expect(resumed.messages).toMatchObject([{ id: 1, error: { code: -32000 } }]);
    await b!.settled({ sessions: 1, live: 1, logs: 1, readers: 0 });
  });
});
