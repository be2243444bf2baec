import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestTool } from '../support/app.js';
import { cancelOf, gists } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { eventually } from '../support/test-apps.js';
import { logsTwice, scripted } from '../support/scripted-server.js';

const IDLE_MS = 600_000;
const KEEP_ALIVE_MS = 15_000;

describe.each(ONE_ADAPTER)('what a client sends to another node on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b]: Member[] = [];
  let client: RawClient;
  let there: RawClient;
  let aborted: unknown[];

  const waits: TestTool = async ({ me }, ctx) => {
    const { signal } = ctx;
    await ctx.log('info', 'begun');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    aborted.push(me);
    return 'too late';
  };
  const asks: TestTool = async (_, ctx, sessions) => {
    const progressed: unknown[] = [];
    const onprogress = ({ progress }: { progress: number }): void => void progressed.push(progress);
    await sessions.request(ctx.session!.id, { method: 'ping' }, { onprogress });
    return `answered after ${progressed.join()}`;
  };
  const logs: TestTool = async (_, ctx) => {
    await ctx.log('info', 'an info');
    await ctx.log('error', 'an error');
    return 'logged';
  };

  const start = (name: string, options = {}): Promise<Member> =>
    deployment.member({
      adapter,
      idleTimeoutMs: IDLE_MS,
      keepAliveMs: KEEP_ALIVE_MS,
      sseAfterMs: 3_600_000,
      tools: { waits, asks, logs, quick: () => name },
      ...options,
    });
  const begin = async (options: (name: string) => object = () => ({})): Promise<void> => {
    deployment = new Deployment(clock);
    [a, b] = [await start('a', options('a')), await start('b', options('b'))];
    client = await a.app.client().initialize(LATEST, { roots: { listChanged: true } });
    there = at(b.app, client);
  };

  beforeEach(async () => {
    [clock, aborted] = [new ManualClock(), []];
    await begin();
  });
  afterEach(() => deployment.close());

  const send = async (to: RawClient, method: string, params: object, id = to.nextId() + 1_000): Promise<unknown> =>
    (await (await to.post({ jsonrpc: '2.0', id, method, params })).json()).result;
  const unknown = (node: Member) => node.events.filter(({ type }) => type === 'unknown-response');

  it.each(['live', 'not live'] as const)(
    'nodes: answers and progress reach the handler that waits for them; there the session is %s',
    async (how) => {
      if (how === 'live') await (await there.call('quick', {}, { id: 'live' })).text();
      const call = await (await client.call('asks', {}, { id: 'c' })).sse().count(1);
      const { id, params } = call.messages[0];
      const { progressToken } = params._meta;
      expect(progressToken).toBe(id);
      await there.notify('notifications/progress', { progressToken, progress: 1 });
      await there.notify('notifications/progress', { progressToken, progress: 2 });
      await there.respond(id, {});
      expect(await call.end()).toBe('end');
      expect(gists(call.messages)).toEqual(['request ping', 'answered after 1,2']);
      expect([...unknown(a!), ...unknown(b!)]).toEqual([]);
    },
  );

  it.each(['the bus says that it is back', 'the next look'] as const)(
    'nodes: an answer and a cancellation whose signal is lost reach their handlers with %s',
    async (how) => {
      await (await there.call('quick', {}, { id: 'live' })).text();
      const asked = await (await client.call('asks', {}, { id: 'c' })).sse().count(1);
      const waiting = await (await client.call('waits', { me: 'w' }, { id: 'w' })).sse().count(1);
      a!.bus.fate = ({ type }) => (type === 'inbox' ? 'lost' : 'arrives');
      await there.respond(asked.messages[0].id, {});
      expect((await there.post(cancelOf('w'))).status).toBe(202);
      await clock.advance(0);
      expect([asked.ended, aborted]).toEqual([undefined, []]);
      if (how === 'the next look') await clock.advance(KEEP_ALIVE_MS);
      else a!.bus.reconnect();
      expect(await asked.end()).toBe('end');
      expect(await waiting.end()).toBe('end');
      expect([gists(asked.messages), aborted]).toEqual([['request ping', 'answered after '], ['w']]);
    },
  );

  it('nodes: messages that a client sends to one node after another arrive in that order', async () => {
    const asked = await (await client.call('asks', {}, { id: 'c' })).sse().count(1);
    const { id: progressToken } = asked.messages[0] as { id: string };
    a!.bus.fate = ({ type }) => (type === 'inbox' ? 'late' : 'arrives');
    await there.notify('notifications/progress', { progressToken, progress: 1 });
    await client.notify('notifications/progress', { progressToken, progress: 2 });
    await there.notify('notifications/progress', { progressToken, progress: 3 });
    await client.respond(progressToken, {});
    expect(await asked.end()).toBe('end');
    expect(gists(asked.messages)).toEqual(['request ping', 'answered after 1,2,3']);
  });

  it('nodes: an answer reaches a handler whose node could not look into the log when it came', async () => {
    const asked = await (await client.call('asks', {}, { id: 'c' })).sse().count(1);
    a!.backend.refuse('read');
    await there.respond(asked.messages[0].id, {});
    await clock.advance(1_000);
    a!.backend.back();
    await clock.advance(2_000);
    expect(await asked.end()).toBe('end');
    expect(gists(asked.messages)).toEqual(['request ping', 'answered after ']);
  });

  it('nodes: an answer reaches a handler behind more messages than its node reads at once', async () => {
    const asked = await (await client.call('asks', {}, { id: 'c' })).sse().count(1);
    const { id } = asked.messages[0] as { id: string };
    a!.backend.refuse('read');
    for (let progress = 1; progress <= 100; progress++)
      await there.notify('notifications/progress', { progressToken: id, progress });
    await there.respond(id, {});
    a!.backend.back();
    await clock.advance(2_000);
    expect(await asked.end()).toBe('end');
    expect(gists(asked.messages).at(-1)).toMatch(/^answered after 1,2,.*,99,100$/);
  });

  it('P1: answers to unknown requests have no effect, on any node', async () => {
    const asked = (await client.call('asks', {}, { id: 'c' })).sse();
    const { id } = (await asked.count(1)).messages[0] as { id: string };
    const strange = [`${id}0`, `${b!.bus.nodeId}-nobody-1`, `${a!.bus.nodeId}-nobody-1`, 'gone-nobody-1', 7, '-', ''];
    for (const to of [client, there]) {
      for (const other of strange) {
        await to.respond(other, {});
        await to.notify('notifications/progress', { progressToken: other, progress: 1 });
      }
      await to.notify('notifications/cancelled', { requestId: 'unknown' });
      await to.notify('notifications/cancelled', {});
    }
    // A second answer is one too many.
    await there.respond(id, {});
    await asked.end();
    await there.respond(id, {});
    await client.respond(id, {});
    expect(gists(asked.messages)).toEqual(['request ping', 'answered after ']);
    await eventually(() => expect(unknown(a!).length).toBeGreaterThan(3));
    expect((await client.call('quick')).status).toBe(200);
  });

  it('P9: a cancellation reaches the handler on the other node, and its stream ends without an answer', async () => {
    const [one, two] = [
      await client.call('waits', { me: 1 }, { id: 1 }),
      await client.call('waits', { me: 2 }, { id: 2 }),
    ];
    const calls = [await one.sse().count(1), await two.sse().count(1)];
    expect((await there.post(cancelOf(1, 'enough'))).status).toBe(202);
    expect(await calls[0]!.end()).toBe('end');
    expect(gists(calls[0]!.messages)).toEqual(['begun']);
    await eventually(() => expect(aborted).toEqual([1]));
    await a!.app.settled({ inFlight: 1 });
    expect((await there.post(cancelOf(2))).status).toBe(202);
    await calls[1]!.end();
    expect(aborted).toEqual([1, 2]);
    // Its id is free again, on both.
    expect((await there.call('quick', {}, { id: 1 })).status).toBe(200);
  });

  it('nodes: a log level that was set on one node holds on the others, and where the session is rebuilt', async () => {
    await (await there.call('quick')).text();
    expect(await send(client, 'logging/setLevel', { level: 'error' })).toEqual({});
    await clock.advance(0);
    const [third] = [await start('c')];
    for (const node of [a!, b!, third]) {
      const call = (await at(node.app, client).call('logs', {}, { id: `l${deployment.members.indexOf(node)}` })).sse();
      await call.end();
      expect(gists(call.messages)).toEqual(['an error', 'logged']);
    }
  });

  it('nodes: a session that two nodes rebuild at once is served by both', async () => {
    await Promise.all([a!.app.service.release(client.sessionId!), b!.app.service.release(client.sessionId!)]);
    const answers = await Promise.all([
      ...[1, 2, 3].map((n) => client.call('quick', {}, { id: `a${n}` })),
      ...[1, 2, 3].map((n) => there.call('quick', {}, { id: `b${n}` })),
    ]);
    const texts = await Promise.all(answers.map(async (answer) => gists([await answer.json()])[0]));
    expect(texts).toEqual(['a', 'a', 'a', 'b', 'b', 'b']);
    const rebuilt = (node: Member) => node.events.filter(({ type }) => type === 'rebuilt').length;
    expect([rebuilt(a!), rebuilt(b!)]).toEqual([1, 1]);
    await a!.app.settled({ sessions: 1, live: 1 });
    await b!.app.settled({ sessions: 1, live: 1 });
  });

  describe('with an SDK server: changes that its handlers receive', () => {
    /** What the servers of each node got from clients, and from records. */
    let said: string[];

    beforeEach(async () => {
      said = [];
      await deployment.close();
      await begin((name) => ({
        tools: {},
        server: scripted({ logs: logsTwice, quick: () => name }, (server) => {
          const hear = (what: string) => {
            said.push(`${name} ${what}`);
            return {};
          };
          server.setNotificationHandler('notifications/roots/list_changed', () => void hear('roots'));
          server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => hear(`+${uri}`));
          server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => hear(`-${uri}`));
        }),
      }));
    });

    it('nodes: every live copy gets a change of the roots once', async () => {
      await (await there.call('quick')).text();
      await there.notify('notifications/roots/list_changed');
      await client.notify('notifications/roots/list_changed');
      await eventually(() => expect(said.toSorted()).toEqual(['a roots', 'a roots', 'b roots', 'b roots']));
    });

    it('nodes: subscriptions hold on every node, and end on every node', async () => {
      await (await there.call('quick')).text();
      await send(client, 'resources/subscribe', { uri: 'doc:1' });
      await send(there, 'resources/subscribe', { uri: 'doc:2' });
      await clock.advance(0);
      expect(said.toSorted()).toEqual(['a +doc:1', 'a +doc:2', 'b +doc:1', 'b +doc:2']);
      await send(there, 'resources/unsubscribe', { uri: 'doc:1' });
      await clock.advance(0);
      expect(said.slice(4).toSorted()).toEqual(['a -doc:1', 'b -doc:1']);
      expect((await a!.app.service.get(client.sessionId!))?.subscriptions).toEqual(['doc:2']);
      expect(await b!.app.service.resourceUpdated('doc:1')).toBe(0);
      expect(await b!.app.service.resourceUpdated('doc:2')).toBe(1);
    });

    it('nodes: a live copy that missed changes gets them when the bus is back', async () => {
      await (await there.call('quick')).text();
      await send(client, 'resources/subscribe', { uri: 'doc:old' });
      await clock.advance(0);
      b!.bus.fate = () => 'lost';
      await send(client, 'logging/setLevel', { level: 'error' });
      await send(client, 'resources/subscribe', { uri: 'doc:new' });
      await send(client, 'resources/unsubscribe', { uri: 'doc:old' });
      said.length = 0;
      b!.bus.reconnect();
      await clock.advance(0);
      expect(said.toSorted()).toEqual(['b +doc:new', 'b -doc:old']);
      const call = (await there.call('logs', {}, { id: 'l' })).sse();
      await call.end();
      expect(gists(call.messages)).toEqual(['an error', 'logged']);
      // Once is enough.
      b!.bus.reconnect();
      await clock.advance(0);
      expect(said).toHaveLength(2);
    });

    it('nodes: a change that cannot be written to the record is refused and reported, and the session is as before', async () => {
      const faults: McpSessionEvent[] = [];
      a!.app.service.events$.subscribe((event) => event.type === 'store-fault' && faults.push(event));
      a!.backend.refuse('patch');
      const refused = client.post({ jsonrpc: '2.0', id: 's', method: 'resources/subscribe', params: { uri: 'doc:1' } });
      await eventually(() => expect(said).toEqual(['a +doc:1']));
      await clock.advance(40_000);
      expect((await (await refused).json()).error).toMatchObject({
        code: -32603,
        message: expect.stringMatching(/could not be stored/),
      });
      expect(faults).toMatchObject([{ sessionId: client.sessionId, fatal: false }]);
      a!.backend.back();
      a!.bus.reconnect();
      await clock.advance(0);
      expect(said).toEqual(['a +doc:1', 'a -doc:1']);
      expect((await a!.app.service.get(client.sessionId!))?.subscriptions).toEqual([]);
    });

    it('nodes: a change is accepted when the store of the record is back in time', async () => {
      a!.backend.refuse('patch');
      const setting = send(client, 'resources/subscribe', { uri: 'doc:1' });
      await eventually(() => expect(said).toEqual(['a +doc:1']));
      await clock.advance(5_000);
      a!.backend.back();
      await clock.advance(2_000);
      expect(await setting).toEqual({});
      expect((await b!.app.service.get(client.sessionId!))?.subscriptions).toEqual(['doc:1']);
    });
  });
});
