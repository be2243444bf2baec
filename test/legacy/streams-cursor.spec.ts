import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool } from '../support/app.js';
import { log } from '../support/messages.js';
import { expectRefusal } from '../support/refusal.js';
import { recordedEvents, testApps } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';

const UNGUESSABLE = 'A1b2C3d4E5f6G7h8I9j0Kl';

const MALFORMED = [
  '_',
  '1_',
  '_1',
  '_-1',
  '1_a',
  '1_-1',
  '+1_2',
  '007_1',
  '0_007',
  '0_00',
  '0_1e3',
  '0_0x1',
  '0_1.0',
  '0_+1',
  '0_-0',
  '0',
  '00_1',
  '1_1',
  '0__1',
  '0_1_',
  '_0_1',
  '0_1_1',
  '0-1',
  '0_1,0_2',
  '0_ 1',
  '0_\t1',
  '_GET_stream_1',
  'constructor',
  '__proto___1',
  'constructor_1',
  '../../etc/passwd_1',
  '%30_1',
  '"0_1"',
  // Beyond the safe integers, and far beyond.
  '0_9007199254740992',
  '0_9999999999999999',
  '0_99999999999999999999999',
  // Not of the alphabet, or not of the length.
  `${UNGUESSABLE.slice(1)}_1`,
  `${UNGUESSABLE}x_1`,
  `${UNGUESSABLE.slice(1)}-_1`,
  `${UNGUESSABLE.slice(1)}é_1`,
  'x'.repeat(4_000),
];

describe.each(ONE_ADAPTER)('a GET on %s whose Last-Event-ID', (adapter) => {
  const start = testApps(adapter, { shared: true });

  it('G3: a GET whose Last-Event-ID is malformed gets 400, which names it, and opens no stream', async () => {
    const app = await start({ clock: new ManualClock() });
    const events = recordedEvents(app);
    const client = await app.client().initialize();
    for (const cursor of MALFORMED) {
      const shown = cursor.slice(0, 100).trim();
      const says = [/Last-Event-ID/, ...(cursor.includes('é') ? [] : [shown])];
      await expectRefusal(await client.get(cursor), { status: 400, code: -32000, says });
    }
    expect(events.filter(({ type }) => type !== 'created')).toEqual([]);
    await app.settled({ streams: 0, readers: 0, openResponses: 0, loggedStreams: 0 });
  });

  it('G3: a GET whose Last-Event-ID is sent twice gets 400', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize();
    const twice = await client.get(undefined, { 'last-event-id': ['0_0', '0_0'] as never });
    await expectRefusal(twice, { status: 400, code: -32000, says: ['0_0, 0_0'] });
  });

  it('G4: a GET whose Last-Event-ID names a stream that never was gets 400, and opens no stream', async () => {
    const app = await start({ clock: new ManualClock() });
    const client = await app.client().initialize();
    for (const index of [0, 1, 17]) {
      const cursor = `${UNGUESSABLE}_${index}`;
      await expectRefusal(await client.get(cursor), { status: 400, code: -32000, says: [cursor, /does not have/] });
    }
    await app.settled({ streams: 0, readers: 0, openResponses: 0, loggedStreams: 0 });
  });

  it('G4: a GET whose Last-Event-ID names a stream of another session gets the same 400, whether it runs, and whoever owns it', async () => {
    const hold = gate();
    const talks: TestTool = async ({ wait }, ctx) => {
      await ctx.log('info', 'secret');
      if (wait) await hold.promise;
      return 'done';
    };
    const app = await start({ clock: new ManualClock(), tools: { talks }, guards: [trustingGuard] });
    const alice = await app.client(as('alice')).initialize();
    const running = await (await alice.call('talks', { wait: true })).sse().count(1);
    const finished = (await alice.call('talks')).sse();
    await finished.end();
    for (const user of ['alice', 'bob']) {
      const other = await app.client(as(user)).initialize();
      for (const { primes, events } of [running, finished]) {
        for (const cursor of [primes[0]!, events[0]!.id!]) {
          const refusal = await expectRefusal(await other.get(cursor), { status: 400, code: -32000, says: [cursor] });
          const never = await expectRefusal(await other.get(`${UNGUESSABLE}_0`), { status: 400, code: -32000 });
          expect(refusal.message.replace(cursor, '')).toBe(never.message.replace(`${UNGUESSABLE}_0`, ''));
        }
      }
    }
    await app.settled({ readers: 1, streams: 1 });
    hold.open();
    expect(await running.end()).toBe('end');
  });

  it('G4: a GET whose Last-Event-ID names the standalone stream reads that of its own session', async () => {
    const app = await start({ clock: new ManualClock() });
    const [mine, other] = [await app.client().initialize(), await app.client().initialize()];
    await app.service.notify(mine.sessionId!, log('mine'));
    const stream = await other.listen('0_0');
    await app.service.notify(other.sessionId!, log('theirs'));
    await stream.count(1);
    expect(stream.messages).toMatchObject([{ params: { data: 'theirs' } }]);
    stream.destroy();
  });
});
