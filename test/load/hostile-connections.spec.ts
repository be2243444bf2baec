import { afterEach, describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ONE_ADAPTER, TestApp, type TestAppOptions } from '../support/app.js';
import { MEBIBYTE, memoryAtRest } from '../support/memory.js';
import type { RawClient } from '../support/raw-client.js';
import { rawSocket, requestText, connectionsGone } from '../support/raw-socket.js';
import { expectRefusal } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';
import { seededRandom } from '../support/share.js';

const MAX_SESSIONS = 50;
const IDLE = 60_000;
const NOTHING = { sessions: 0, live: 0, inFlight: 0, streams: 0, readers: 0, logs: 0, openResponses: 0, timers: 0 };

/** Ways to begin a session and to hang up. */
const WAYS = ['at once', 'after the head', 'within the body', 'half', 'with the answer'] as const;

describe.each(ONE_ADAPTER)('hostile: connections on %s', (adapter) => {
  let app: TestApp;
  let clock: ManualClock;
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    clock = new ManualClock();
    app = await TestApp.start({
      adapter,
      port: true,
      clock,
      idleTimeoutMs: IDLE,
      maxSessions: MAX_SESSIONS,
      tools: { quick: () => 'quick' },
      ...options,
    });
  };
  afterEach(() => app.close());

  const hangUp = async (client: RawClient, way: (typeof WAYS)[number]): Promise<void> => {
    const socket = await rawSocket(client);
    const text = requestText(client, 'POST', { body: client.initializeMessage() });
    const head = text.indexOf('\r\n\r\n') + 4;
    const cut = { 'after the head': head, 'within the body': head + 20 }[way as string] ?? text.length;
    await new Promise<void>((resolve) => socket.write(text.slice(0, cut), () => resolve()));
    if (way === 'half') socket.end();
    if (way === 'half' || way === 'with the answer')
      await new Promise((resolve) => socket.once('readable', resolve).once('close', resolve));
    socket.destroy();
  };

  it('E13, S2: 10,000 half-open initialises leave the caps as they are, and nothing behind', async () => {
    await start({ maxAnonymousSessions: MAX_SESSIONS });
    const owner = await app.client().initialize();
    const random = seededRandom(1);
    // Warm, so that what compilers and pools keep is not taken for a leak.
    await Promise.all(
      Array.from({ length: 500 }, () => hangUp(app.client(), WAYS[Math.floor(random() * WAYS.length)]!)),
    );
    await connectionsGone(app);
    const atRest = await memoryAtRest();
    for (let wave = 0; wave < 38; wave++) {
      await Promise.all(
        Array.from({ length: 250 }, () => hangUp(app.client(), WAYS[Math.floor(random() * WAYS.length)]!)),
      );
      const { sessions, live, logs } = await app.service.counts();
      expect(Math.max(sessions, live)).toBeLessThanOrEqual(MAX_SESSIONS);
      // An initialize under way has a log before it is a session.
      expect(logs).toBeLessThanOrEqual(MAX_SESSIONS + 250);
    }
    await connectionsGone(app);
    expect((await memoryAtRest()) - atRest).toBeLessThan(16 * MEBIBYTE);
    // Some of them got as far as a session; all others are gone without a trace.
    const { sessions } = await app.service.counts();
    await app.settled({
      sessions,
      live: sessions,
      logs: sessions,
      inFlight: 0,
      streams: 0,
      openResponses: 0,
      timers: 0,
    });
    // Nobody was evicted for them, and a place is free when they are idle.
    expect((await owner.call('quick')).status).toBe(200);
    await clock.advance(IDLE * 1.2);
    await app.settled(NOTHING);
    await app.client().initialize();
  });

  it('E13: a caller with too many sessions is refused, and evicts no session', async () => {
    await start({ guards: [trustingGuard], maxSessionsPerPrincipal: 20 });
    const ann = await app.client(as('ann')).initialize();
    const answers = await Promise.all(
      Array.from({ length: 500 }, () => {
        const client = app.client(as('mallory'));
        return client.post(client.initializeMessage());
      }),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(20);
    expect(statuses.filter((status) => status === 429)).toHaveLength(480);
    await Promise.all(answers.map((answer) => answer.text()));
    await app.settled({ sessions: 21, live: 21, logs: 21 });
    expect((await ann.call('quick')).status).toBe(200);
    await app.client(as('ann')).initialize();
  });

  it('G3, G4: forged and foreign event ids find nothing, and make nothing', async () => {
    await start({ guards: [trustingGuard], responseMode: 'sse' });
    const [ann, bob] = [await app.client(as('ann')).initialize(), await app.client(as('bob')).initialize()];
    const stream = (await ann.call('quick')).sse();
    await stream.end();
    const own = stream.events[0]!.id!;
    const [streamId] = own.split('_') as [string];
    const random = seededRandom(7);
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
    const guess = (): string => Array.from({ length: 22 }, () => letters[Math.floor(random() * 62)]).join('');
    const forged = [
      own,
      `${streamId}_0`,
      `${streamId}_9007199254740991`,
      `${streamId.toLowerCase()}_0`,
      `${streamId}A_0`,
      ...Array.from({ length: 300 }, () => `${guess()}_${Math.floor(random() * 5)}`),
      '_',
      '0',
      '1_0',
      '0_01',
      '0_-1',
      '0_1e3',
      '0_0x1',
      ' 0_0 x',
      `${'9'.repeat(5_000)}_0`,
      `0_${'9'.repeat(5_000)}`,
      '../../etc/passwd',
      '%30_0',
      '0_0,0_0',
      '{"stream":"0"}',
      "0_0' OR 1=1",
      '__proto___0',
      'constructor_0',
    ];
    for (const cursor of forged) await expectRefusal(await bob.get(cursor), { status: 400, code: -32000 });
    // Nor does the owner of the stream find it under somebody else's session.
    const stranger = { 'mcp-session-id': bob.sessionId! };
    await expectRefusal(await ann.get(own, stranger), { status: 404, code: -32001 });
    await app.settled({ sessions: 2, streams: 0, readers: 0, loggedStreams: 1, openResponses: 0 });
    // For ann it is still there, whole.
    const replay = (await ann.get(`${streamId}_0`)).sse();
    await replay.end();
    expect(replay.events).toEqual(stream.events);
  });
});
