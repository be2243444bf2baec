import type { BeforeApplicationShutdown } from '@nestjs/common';
import { InMemorySessionStore, type McpSessionStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestAppOptions } from '../support/app.js';
import type { RawResponse } from '../support/http.js';
import type { RawClient } from '../support/raw-client.js';
import { double } from '../support/doubles.js';
import { RecordedLog } from '../support/recorded-log.js';
import { expectRefusal } from '../support/refusal.js';
import { scripted } from '../support/scripted-server.js';
import { as, trustingGuard } from '../support/users.js';

const FULL = { status: 503, code: -32000, says: ['"maxSessions"'] };
const FULL_FOR_YOU = { status: 429, code: -32000, says: ['"maxSessionsPerPrincipal"'] };

const ping = (client: RawClient): Promise<RawResponse> =>
  client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'ping' });

async function expectAlive(...clients: RawClient[]): Promise<void> {
  for (const client of clients) expect((await ping(client)).status).toBe(200);
}

describe.each(ONE_ADAPTER)('the caps of sessions on %s', (adapter) => {
  let app: TestApp;
  const log = new RecordedLog();
  const start = async (options: Partial<TestAppOptions>): Promise<void> => {
    app = await TestApp.start({ adapter, guards: [trustingGuard], ...options });
  };
  afterEach(async () => {
    await app.close();
    log.release();
  });

  /** Sessions whose clients have sent nothing after `initialize`. */
  const unused = async (count: number, after?: () => Promise<void>): Promise<RawClient[]> => {
    const clients: RawClient[] = [];
    for (let n = 0; n < count; n++) {
      const client = app.client();
      const response = await client.post(client.initializeMessage());
      await response.text();
      client.sessionId = response.header('mcp-session-id');
      clients.push(client);
      await after?.();
    }
    return clients;
  };

  it('E13: the total cap refuses a new session with 503, and evicts none in use', async () => {
    await start({ maxSessions: 2 });
    const ann = await app.client(as('ann')).initialize();
    const bob = await app.client(as('bob')).initialize();
    const cid = app.client(as('cid'));
    const response = await cid.post(cid.initializeMessage());
    expect(response.header('retry-after')).toMatch(/^[1-9]\d*$/);
    await expectRefusal(response, { ...FULL, id: 1 });
    await expectAlive(ann, bob);
    await app.settled({ sessions: 2, live: 2, inFlight: 0, logs: 2 });
  });

  it('E13: at the total cap a caller with a principal takes the place of the longest idle anonymous session', async () => {
    const clock = new ManualClock();
    await start({ clock, maxSessions: 3, maxAnonymousSessions: 3 });
    const anonymous: RawClient[] = [];
    for (let n = 0; n < 3; n++) {
      anonymous.push(await app.client().initialize());
      await clock.advance(1_000);
    }
    const another = app.client();
    await expectRefusal(await another.post(another.initializeMessage()), { ...FULL, id: 1 });
    const ann = await app.client(as('ann')).initialize();
    expect((await ping(anonymous[0]!)).status).toBe(404);
    await expectAlive(anonymous[1]!, anonymous[2]!, ann);
    const bob = await app.client(as('bob')).initialize();
    const cid = await app.client(as('cid')).initialize();
    await expectAlive(ann, bob, cid);
    const dan = app.client(as('dan'));
    await expectRefusal(await dan.post(dan.initializeMessage()), { ...FULL, id: 1 });
    await app.settled({ sessions: 3, live: 3, logs: 3 });
  });

  it('E13: a caller at its own cap ends no anonymous session', async () => {
    await start({ maxSessions: 2, maxSessionsPerPrincipal: 1, maxAnonymousSessions: 2 });
    const ann = await app.client(as('ann')).initialize();
    const anonymous = await app.client().initialize();
    const again = app.client(as('ann'));
    await expectRefusal(await again.post(again.initializeMessage()), { ...FULL, id: 1 });
    await expectAlive(ann, anonymous);
  });

  it('E13: a place that becomes free can be taken', async () => {
    await start({ maxSessions: 1 });
    const ann = await app.client(as('ann')).initialize();
    const bob = app.client(as('bob'));
    await expectRefusal(await bob.post(bob.initializeMessage()), { ...FULL, id: 1 });
    await (await ann.delete()).text();
    await bob.initialize();
    await app.settled({ sessions: 1, live: 1 });
  });

  it('E13: at the cap only initialize is refused', async () => {
    await start({ maxSessions: 1 });
    const ann = await app.client(as('ann')).initialize();
    await ann.notify('notifications/roots/list_changed');
    const stream = await ann.listen();
    await expectAlive(ann);
    // Without a session, and not about to begin one: what is missing is what is said.
    const bob = app.client(as('bob'));
    await expectRefusal(await ping(bob), { status: 400, code: -32000, id: 1, says: ['Mcp-Session-Id'] });
    stream.destroy();
    await app.settled({ sessions: 1, readers: 0 });
  });

  it('E13: the cap of one principal refuses only that principal, with 429', async () => {
    await start({ maxSessionsPerPrincipal: 2 });
    const first = await app.client(as('ann')).initialize();
    // A fresh token makes no other principal.
    const second = await app.client(as('ann', 'token2')).initialize();
    const third = app.client(as('ann', 'token3'));
    const response = await third.post(third.initializeMessage());
    expect(response.header('retry-after')).toMatch(/^[1-9]\d*$/);
    await expectRefusal(response, { ...FULL_FOR_YOU, id: 1 });
    const bob = await app.client(as('bob')).initialize();
    await expectAlive(first, second, bob);
    await (await second.delete()).text();
    await third.initialize();
    await app.settled({ sessions: 3, live: 3 });
  });

  it('E13: the cap of one principal does not apply to anonymous callers', async () => {
    await start({ maxSessionsPerPrincipal: 1, maxSessions: 4, maxAnonymousSessions: 4 });
    for (let n = 0; n < 3; n++) await app.client().initialize();
    await app.client(as('ann')).initialize();
    const ann = app.client(as('ann'));
    const another = app.client();
    for (const refused of [ann, another]) {
      await expectRefusal(await refused.post(refused.initializeMessage()), { ...FULL, id: 1 });
    }
    await app.settled({ sessions: 4 });
  });

  it('E13: anonymous callers have "maxAnonymousSessions" sessions in total, and leave the rest to principals', async () => {
    await start({ maxAnonymousSessions: 2, maxSessions: 3 });
    const first = await app.client().initialize();
    await app.client().initialize();
    const third = app.client();
    const response = await third.post(third.initializeMessage());
    expect(response.header('retry-after')).toMatch(/^[1-9]\d*$/);
    const says = ['"maxAnonymousSessions"', '2 sessions', /^(?!.*you have)/i];
    await expectRefusal(response, { ...FULL_FOR_YOU, says, id: 1 });
    await app.client(as('ann')).initialize();
    await (await first.delete()).text();
    await third.initialize();
    await app.settled({ sessions: 3 });
  });

  it.each<[string, Partial<TestAppOptions>, number]>([
    ['half of "maxSessions", rounded up, where the endpoint has guards', { maxSessions: 5 }, 3],
    ['what "maxAnonymousSessions" says, also with guards', { maxSessions: 5, maxAnonymousSessions: 5 }, 5],
    ['all of "maxSessions" where the endpoint has no guards', { maxSessions: 5, guards: [] }, 5],
  ])('E13: anonymous callers have %s', async (_, options, places) => {
    await start(options);
    for (let n = 0; n < places; n++) await app.client().initialize();
    const another = app.client();
    const refusal = places === 5 ? FULL : { ...FULL_FOR_YOU, says: ['"maxAnonymousSessions"', `${places} sessions`] };
    await expectRefusal(await another.post(another.initializeMessage()), { ...refusal, id: 1 });
    for (let n = places; n < 5; n++) await app.client(as('ann')).initialize();
    await app.settled({ sessions: 5 });
  });

  it('E13: at the total cap the session that is unused for longest gives way, once its client had 5 seconds', async () => {
    const clock = new ManualClock();
    await start({ clock, maxSessions: 4, maxAnonymousSessions: 4 });
    const used = await app.client().initialize();
    const [first, second, third] = await unused(3, () => clock.advance(1_000));
    const newcomer = app.client();
    await clock.advance(1_999);
    await expectRefusal(await newcomer.post(newcomer.initializeMessage()), { ...FULL, id: 1 });
    await clock.advance(1);
    await newcomer.initialize();
    expect((await ping(first!)).status).toBe(404);
    await app.settled({ sessions: 4, live: 4, logs: 4 });
    // In use from here on, if only just.
    await second!.notify('notifications/initialized');
    await clock.advance(10_000);
    await app.client().initialize();
    expect((await ping(third!)).status).toBe(404);
    const last = app.client();
    await expectRefusal(await last.post(last.initializeMessage()), { ...FULL, id: 1 });
    await expectAlive(used, second!, newcomer);
    await app.settled({ sessions: 4, live: 4, logs: 4 });
  });

  it('E13: sessions that nobody uses leave their places to clients that come at once', async () => {
    const clock = new ManualClock();
    await start({ clock, maxSessions: 8, maxAnonymousSessions: 8 });
    const flood = await unused(8);
    await clock.advance(5_000);
    const clients = await Promise.all(Array.from({ length: 8 }, () => app.client().initialize()));
    for (const client of flood) expect((await ping(client)).status).toBe(404);
    await expectAlive(...clients);
    await app.settled({ sessions: 8, live: 8, logs: 8 });
  });

  it('E13: a newcomer whose place another one takes first gets the next place', async () => {
    const clock = new ManualClock();
    const store = new InMemorySessionStore(clock);
    let takers = 1;
    const claimExpired: McpSessionStore['claimExpired'] = async (idleMs, limit, unusedMs) => {
      const ended = await store.claimExpired(idleMs, limit, unusedMs);
      const [one] = ended;
      if (one && takers-- > 0) await store.create({ ...one, id: 'taker' }, { total: 2, perPrincipal: 2 });
      return ended;
    };
    const sessionStore = double(store, { claimExpired });
    await start({ clock, sessionStore, maxSessions: 2, maxAnonymousSessions: 2 });
    await unused(2);
    await clock.advance(5_000);
    const client = await app.client().initialize();
    expect((await store.list()).map(({ id }) => id)).toEqual(['taker', client.sessionId]);
  });

  it('E13: no session gives way to a caller above the cap of its principal', async () => {
    const clock = new ManualClock();
    await start({ clock, maxSessions: 2, maxAnonymousSessions: 1 });
    const [kept] = await unused(1);
    await clock.advance(10_000);
    const another = app.client();
    const says = ['"maxAnonymousSessions"'];
    await expectRefusal(await another.post(another.initializeMessage()), { ...FULL_FOR_YOU, says, id: 1 });
    await expectAlive(kept!);
  });

  it.each<[string, Partial<TestAppOptions>, object, number]>([
    ['maxSessions', { maxSessions: 1 }, as('ann'), 503],
    ['maxSessionsPerPrincipal', { maxSessionsPerPrincipal: 1 }, as('ann'), 429],
    ['maxAnonymousSessions', { maxAnonymousSessions: 1 }, {}, 429],
  ])(
    'E13: the first newcomer that "%s" refuses is a warning, the next ones are not',
    async (option, options, who, status) => {
      await start(options);
      log.attach(app.app).lines.length = 0;
      const caller = () => app.client(who as Record<string, string>);
      await caller().initialize();
      for (let n = 0; n < 3; n++) {
        const client = caller();
        const { message } = await expectRefusal(await client.post(client.initializeMessage()), {
          status,
          code: -32000,
          id: 1,
        });
        expect(message).toContain(`"${option}"`);
        expect(message).not.toMatch(/you have/i);
      }
      const warned = log.texts('warn').filter((text) => text.includes('was answered with'));
      expect(warned).toEqual([expect.stringMatching(new RegExp(`${status}.*"${option}"`))]);
      expect(log.texts('debug').filter((text) => text.includes(`"${option}"`))).toHaveLength(2);
    },
  );

  it.each([
    ['in all', { maxSessions: 5 }, 503],
    ['of one principal', { maxSessionsPerPrincipal: 5 }, 429],
  ])('E13: the cap %s holds for many at once', async (_, options, refused) => {
    await start(options);
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async () => {
        const client = app.client(as('ann'));
        const response = await client.post(client.initializeMessage());
        await response.text();
        return response.status;
      }),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(5);
    expect(statuses.filter((status) => status === refused)).toHaveLength(7);
    await app.settled({ sessions: 5, live: 5, inFlight: 0, logs: 5 });
  });

  describe('with an SDK server: a factory that fails', () => {
    it('E13: an initialize that fails takes no place', async () => {
      let fails = true;
      await start({
        maxSessions: 1,
        server: scripted({}, () => {
          if (fails) throw new Error('not today');
        }),
      });
      log.attach(app.app);
      for (let attempt = 0; attempt < 3; attempt++) {
        const client = app.client();
        expect((await client.post(client.initializeMessage())).status).toBe(500);
        expect((await client.post({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} })).status).toBe(400);
      }
      fails = false;
      await app.client().initialize();
      await app.settled({ sessions: 1, live: 1, logs: 1 });
    });
  });
});

describe.each(ONE_ADAPTER)('shutting down on %s', (adapter) => {
  it('E13: a node refuses new clients and clients with a session with 503', async () => {
    const closing = gate();
    const closed = gate();
    // After the endpoint has closed, and before the server stops listening.
    const lastWish: BeforeApplicationShutdown = {
      beforeApplicationShutdown: () => {
        closing.open();
        return closed.promise;
      },
    };
    const app = await TestApp.start({ adapter, module: { providers: [{ provide: 'lastWish', useValue: lastWish }] } });
    const client = await app.client().initialize();
    const stopped = app.shutDown();
    await closing.promise;

    const refusal = { status: 503, code: -32000, says: ['shutting down'] };
    const newcomer = app.client();
    const responses = [
      await newcomer.post(newcomer.initializeMessage()),
      await client.post(client.toolCall('any', {}, { id: 'known' })),
      await client.post({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' }),
      await client.get(),
      await client.get('0_0'),
      await client.delete(),
    ];
    const ids = [1, 'known', null, null, null, null];
    for (const [index, response] of responses.entries()) {
      expect(response.header('retry-after')).toMatch(/^[1-9]\d*$/);
      await expectRefusal(response, { ...refusal, id: ids[index]! });
    }

    closed.open();
    await stopped;
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, inFlight: 0, streams: 0, logs: 0 });
    expect([app.openResponses, app.clock.pending]).toEqual([0, 0]);
  });
});
