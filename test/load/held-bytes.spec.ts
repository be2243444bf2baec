import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestTool, type TestApp } from '../support/app.js';
import { rawSocket, requestText } from '../support/raw-socket.js';
import { expectRefusal } from '../support/refusal.js';
import { eventually, testApps } from '../support/test-apps.js';

const MAX = 20_000;
const FULL = { code: -32000, status: 503, id: null, says: ['20000', 'Try again in a moment'] };
const LARGE = { text: 'x'.repeat(12_000) };

describe.each(ONE_ADAPTER)('E15: the bytes that an endpoint holds, on %s', (adapter) => {
  const start = testApps(adapter, { port: true, sseAfterMs: 60_000, maxHeldBytes: MAX, clock: new ManualClock() });
  let hold: ReturnType<typeof gate<void>>;
  beforeEach(() => void (hold = gate()));
  const tools: Record<string, TestTool> = {
    waits: () => hold.promise.then(() => 'done'),
    quick: () => 'done',
  };
  const held = async (app: TestApp): Promise<number> => (await app.service.counts()).heldBytes;

  it.each([
    ['of a declared length', { 'content-length': '15000' }, 'x'.repeat(12_000)],
    ['in chunks', { 'transfer-encoding': 'chunked' }, `${(12_000).toString(16)}\r\n${'x'.repeat(12_000)}\r\n`],
  ])('E15: bodies that never end, %s, count until their clients have gone', async (_, headers, part) => {
    const app = await start({ tools });
    const client = await app.client().initialize();
    const socket = await rawSocket(app);
    socket.write(requestText(client, 'POST', { headers }) + part);
    await eventually(async () => expect(await held(app)).toBe(12_000));
    const refused = await client.call('quick', LARGE);
    expect(refused.header('retry-after')).toBe('1');
    await expectRefusal(refused, FULL);
    expect((await client.call('quick')).status).toBe(200);
    socket.destroy();
    await app.settled({ heldBytes: 0 });
    expect((await client.call('quick', LARGE)).status).toBe(200);
  });

  it('E15: a body that is refused while it arrives, or after it, counts no longer', async () => {
    const app = await start({ tools, maxBodyBytes: 15_000 });
    const client = await app.client().initialize();
    for (const body of ['x'.repeat(14_000), `[${'1,'.repeat(6_000)}1]`, 'x'.repeat(16_000)]) {
      const socket = await rawSocket(app);
      const headers = { 'transfer-encoding': 'chunked' };
      socket.write(requestText(client, 'POST', { headers }) + `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
      const [answer] = (await new Promise<unknown[]>((resolve) => socket.once('data', (...all) => resolve(all)))) as [
        Buffer,
      ];
      expect(String(answer)).toMatch(/^HTTP\/1\.1 4/);
      await app.settled({ heldBytes: 0 });
      socket.destroy();
    }
    expect((await client.call('quick', LARGE)).status).toBe(200);
  });

  it('E15: a body that waits behind other requests of its connection counts until the connection has gone', async () => {
    const app = await start({ tools });
    const client = await app.client().initialize();
    const call = (id: string, name: string, args: object): string => {
      const body = { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } };
      return requestText(client, 'POST', { body });
    };
    const socket = await rawSocket(app);
    socket.write(call('first', 'waits', {}) + call('second', 'quick', LARGE));
    await eventually(async () => {
      expect(await held(app)).toBeGreaterThan(12_000);
      await app.settled({ inFlight: 1 });
    });
    socket.destroy();
    await eventually(async () => expect(await held(app)).toBeLessThan(1_000));
    hold.open();
    await app.settled({ inFlight: 0, heldBytes: 0 });
  });

  it('E15: the arguments of a call count until it has ended', async () => {
    const app = await start({ tools });
    const client = await app.client().initialize();
    const first = client.call('waits', LARGE);
    await app.settled({ inFlight: 1 });
    await expectRefusal(await client.call('quick', LARGE), FULL);
    hold.open();
    expect((await first).status).toBe(200);
    await app.settled({ heldBytes: 0 });
    expect((await client.call('quick', LARGE)).status).toBe(200);
  });

  it('E15: a batch counts until the last of its calls has ended, also when its client has gone', async () => {
    const app = await start({ tools, responseMode: 'sse' });
    const client = await app.client().initialize('2025-03-26');
    const call = (id: string, name: string): object => {
      return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: LARGE } };
    };
    const body = [{ ...call('a', 'quick'), params: { name: 'quick' } }, call('b', 'waits')];
    const socket = await rawSocket(app);
    socket.write(requestText(client, 'POST', { body }));
    await new Promise((resolve) => socket.once('data', resolve));
    socket.destroy();
    await app.settled({ inFlight: 1, openResponses: 0 });
    expect(await held(app)).toBe(JSON.stringify(body).length);
    hold.open();
    await app.settled({ inFlight: 0, heldBytes: 0 });
  });
});
