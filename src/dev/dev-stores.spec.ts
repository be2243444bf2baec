import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize } from 'node:v8';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import { DevStores } from './dev-stores.js';
import { seededRandom } from '../../test/support/share.js';

const CAPS = { total: Infinity, perPrincipal: Infinity };
const initialize = JSON.stringify({
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'c', version: '1' },
});
const record = (id: string, principal?: string) => ({
  id,
  protocolVersion: '2025-11-25',
  initialize,
  ...(principal !== undefined && { principal }),
});

let folder: string;
let clock: ManualClock;
let path: string;
const failures: Error[] = [];
const open: DevStores[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dev-stores-'));
  path = join(folder, 'apps', 'journal');
  clock = new ManualClock();
  failures.length = 0;
});
afterEach(() => {
  for (const stores of open.splice(0)) stores.close();
  rmSync(folder, { recursive: true });
});

/** The stores of a process; `close()` leaves no more behind than a kill does. */
async function start(processId: string): Promise<DevStores> {
  for (const stores of open.splice(0)) stores.close();
  const stores = await DevStores.open(path, {}, clock, (error) => failures.push(error), processId);
  open.push(stores);
  return stores;
}

/** What they hold; the order of streams has no meaning. */
function everything({ sessionStore, eventStore, stateStore }: DevStores): unknown[][] {
  const logs = eventStore.dump().map(({ session, streams }) => ({
    session,
    streams: streams.toSorted((a, b) => a.id.localeCompare(b.id)),
  }));
  return structuredClone([sessionStore.dump(), logs, stateStore.dump()]);
}

/** Refusals change nothing. */
async function attempt(change: () => unknown): Promise<void> {
  try {
    await change();
  } catch {}
}

describe('the stores of an app under development', () => {
  it('development stores hold after a restart what they held before it', async () => {
    const random = seededRandom(11);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    const appends = new Map<string, number>();
    let stores = await start('p0');
    for (let step = 1; step <= 2_000; step++) {
      const { sessionStore, eventStore, stateStore } = stores;
      const [id, stream] = [pick(['a', 'b', 'c']), pick(['0', 's1', 's2', `s${step}`])];
      const writer = `${id} ${stream}`;
      const seq = (appends.get(writer) ?? 0) + 1;
      const append = async (events: string[], end: boolean) => {
        await eventStore.append(id, stream, events, { writer, seq, end });
        appends.set(writer, seq);
      };
      const actions: readonly (() => unknown)[] = [
        () => Promise.all([sessionStore.create(record(id, pick([undefined, 'ann'])), CAPS), eventStore.open(id)]),
        () => sessionStore.patch(id, { subscribe: [`u:${step % 7}`], logLevel: 'info' }),
        () => sessionStore.touch(id),
        () => step % 10 === 0 && Promise.all([sessionStore.delete(id), eventStore.drop(id)]),
        () => sessionStore.claimExpired(60_000, 10),
        () => append([`"${step}"`, `"${step}."`], false),
        () => append([`"${step}"`], step % 3 === 0),
        () => eventStore.claim(id, stream, { node: 'n', reader: `r${step}` }),
        () => eventStore.release(id, stream, { node: 'n', reader: `r${step - 1}` }, 1),
        () => eventStore.read(id, stream, 0, 5, step % 4),
        () => stateStore.set(`k${step % 9}`, { step }, pick([Infinity, 50_000]), { owner: 'o', max: 5 }),
        () => stateStore.delete(`k${step % 9}`),
        () => clock.advance(500),
      ];
      await attempt(pick(actions));
      if (step % 100 !== 0) continue;
      const before = everything(stores);
      stores = await start(`p${step}`);
      expect(everything(stores)).toEqual(before);
    }
    expect(everything(stores).map((dump) => dump.length > 0)).toEqual([true, true, true]);
  });

  it('a call that a restart has ended gets an error, on its stream', async () => {
    const { eventStore } = await start('before');
    await eventStore.open('s');
    await eventStore.append('s', 'call', ['"progress"'], { writer: 'w', seq: 1, opens: { node: 'n', requests: [7] } });

    const read = await (await start('after')).eventStore.read('s', 'call', 1, 10);

    expect(read).toMatchObject({ last: 2, ended: true });
    expect(JSON.parse(read.events[0]!.data)).toMatchObject({
      id: 7,
      error: { message: expect.stringContaining('was restarted while it ran this request') },
    });
  });

  it('clients are told after a restart to read the lists again, since the handlers may be others', async () => {
    const { eventStore } = await start('before');
    await eventStore.open('s');

    const stores = await start('after');
    stores.announceLists();

    const after = stores.eventStore;
    const methods = (await after.read('s', '0', 0, 10)).events.map(({ data }) => JSON.parse(data).method as string);
    expect(methods).toEqual(['tools', 'prompts', 'resources'].map((list) => `notifications/${list}/list_changed`));
  });

  it('the key of request states outlives a restart, so that questions can be answered after it', async () => {
    const { requestStateKey } = await start('before');
    expect((await start('after')).requestStateKey).toEqual(requestStateKey);
  });

  it('a process that is killed loses at most the change that was being written', async () => {
    const { sessionStore } = await start('before');
    await sessionStore.create(record('first'), CAPS);
    await sessionStore.create(record('second'), CAPS);
    truncateSync(path, statSync(path).size - 1);
    expect((await (await start('after')).sessionStore.list()).map(({ id }) => id)).toEqual(['first']);
  });

  it('development stores begin anew over a file that is not a journal', async () => {
    await (await start('before')).sessionStore.create(record('a'), CAPS);
    writeFileSync(path, 'not a journal');
    const { sessionStore } = await start('after');
    expect(await sessionStore.count()).toBe(0);
    await sessionStore.create(record('b'), CAPS);
    expect(await (await start('later')).sessionStore.count()).toBe(1);
  });

  it.each([
    ['without stores', {}],
    ['with stores of another form', { sessionStore: [{ id: 'a' }], eventStore: [['s', 5]], stateStore: 7 }],
  ])('development stores begin anew over a journal of another version of this package, %s', async (_name, stores) => {
    const snapshot = serialize({ format: `2 ${process.version}`, process: 'before', requestStateKey: 5, ...stores });
    const head = Buffer.alloc(4);
    head.writeUInt32BE(snapshot.length);
    mkdirSync(join(folder, 'apps'));
    writeFileSync(path, Buffer.concat([head, snapshot]));
    const { sessionStore, requestStateKey } = await start('after');
    expect([await sessionStore.count(), requestStateKey.length]).toEqual([0, 32]);
    await sessionStore.create(record('b'), CAPS);
    expect(await (await start('later')).sessionStore.count()).toBe(1);
  });

  it('another app of the same process, as tests start them, begins with empty stores', async () => {
    await (await start('one')).sessionStore.create(record('a'), CAPS);
    expect(await (await start('one')).sessionStore.count()).toBe(0);
  });

  it('the journal of development stores does not grow without bound', async () => {
    const { eventStore } = await start('before');
    await eventStore.open('s');
    const event = JSON.stringify('x'.repeat(100_000));
    for (let seq = 1; seq <= 400; seq++) await eventStore.append('s', '0', [event], { writer: 'w', seq });
    expect(statSync(path).size).toBeLessThan(24 * 1024 ** 2);
    expect(await (await start('after')).eventStore.read('s', '0', 0, 0)).toMatchObject({ last: 400 });
  });

  it('a journal is for one process at a time, and only its user can read it', async () => {
    await start('one');
    await expect(DevStores.open(path, {}, clock, () => {}, 'two')).rejects.toThrow(
      'another app of this process uses their file',
    );
    expect(statSync(path).mode & 0o077).toBe(0);
    expect(statSync(join(path, '..')).mode & 0o077).toBe(0);
    for (const stores of open.splice(0)) stores.close();
    writeFileSync(`${path}.lock`, String(process.ppid));
    await expect(DevStores.open(path, {}, clock, () => {}, 'two')).rejects.toThrow(
      `process ${process.ppid} uses their file`,
    );
    expect(readFileSync(`${path}.lock`, 'utf8')).toBe(String(process.ppid));
  });

  it('a journal is not written where a link leads, which another user may have made', async () => {
    mkdirSync(join(folder, 'elsewhere'));
    symlinkSync(join(folder, 'elsewhere'), join(folder, 'apps'));
    await expect(start('one')).rejects.toThrow('belongs to another user');
    expect(readdirSync(join(folder, 'elsewhere'))).toEqual([]);
  });

  it('journals that no process has written for a week are removed, and those of processes that live stay', async () => {
    await start('one');
    const apps = join(path, '..');
    const files = ['old', 'old.lock', 'old.new', 'stale', 'stale.lock', 'lives', 'lives.lock', 'young'];
    const week = 7 * 86_400_000;
    for (const name of files) {
      writeFileSync(join(apps, name), name === 'lives.lock' ? String(process.ppid) : '999999999');
      const writtenAt = new Date(clock.now() - week + (name === 'young' ? 1_000 : -1_000));
      utimesSync(join(apps, name), writtenAt, writtenAt);
    }
    await start('two');
    expect(readdirSync(apps).toSorted()).toEqual(['journal', 'journal.lock', 'lives', 'lives.lock', 'young']);
  });

  it('development stores go on in memory when a change cannot be written', async () => {
    const { stateStore } = await start('one');
    await stateStore.set('a', 1);
    expect(await stateStore.set('b', () => 2)).toBe(true);
    await stateStore.set('c', 3);
    expect(await stateStore.get('c')).toBe(3);
    expect(failures.map(({ message }) => message)).toEqual([expect.stringContaining('could not be cloned')]);
    expect(existsSync(path)).toBe(false);
    expect(await (await start('two')).stateStore.get('a')).toBeUndefined();
  });
});
