import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ADAPTERS, TestApp, type TestTool, type TestAppOptions } from '../support/app.js';
import { MEBIBYTE, memoryAtRest, memoryInUse } from '../support/memory.js';
import type { RawClient } from '../support/raw-client.js';
import { rawSocket, requestText, connectionsGone } from '../support/raw-socket.js';

const KEEP_ALIVE = 15_000;
const MAX_BUFFERED = MEBIBYTE;
const LOG = 8 * MEBIBYTE;
const EVENT = 100 * 1024;
const EVENTS = 1_000;
/** What may be in use on the way besides: what the kernel has not taken, the garbage of 100 MB of messages. */
const SLACK = 64 * MEBIBYTE;

describe.each(ADAPTERS)('hostile: a reader that never reads on %s', (adapter) => {
  let app: TestApp;
  let clock: ManualClock;
  let sockets: Socket[];
  let peak: number;

  const note = (data: unknown) => ({ method: 'notifications/message', params: { level: 'info', data } });
  const filler = (i: number) => `${i} `.padEnd(EVENT, 'x');
  const floods: TestTool = async (_, ctx) => {
    for (let i = 1; i <= EVENTS; i++) {
      await ctx.log('info', filler(i));
      peak = Math.max(peak, memoryInUse());
      // Sockets get their turn.
      if (i % 10 === 0) await new Promise(setImmediate);
    }
    return 'flooded';
  };

  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    [clock, sockets, peak] = [new ManualClock(), [], 0];
    app = await TestApp.start({
      adapter,
      port: true,
      clock,
      keepAliveMs: KEEP_ALIVE,
      maxBufferedBytes: MAX_BUFFERED,
      eventLog: { maxBytes: LOG },
      tools: { floods, quick: () => 'quick' },
      responseMode: 'sse',
      ...options,
    });
  };
  beforeEach(() => start());
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    await app.expectNothingLeft();
    await connectionsGone(app);
    await app.close();
  });

  /** Sends a request and never looks at the answer. */
  const neverRead = async (client: RawClient, text: string): Promise<Socket> => {
    const socket = await rawSocket(client);
    sockets.push(socket.pause());
    socket.write(text);
    return socket;
  };
  /** Sessions that mind their own business. */
  const bystanders = async () => {
    const clients = await Promise.all(Array.from({ length: 10 }, () => app.client().initialize()));
    const streams = await Promise.all(clients.map((client) => client.listen()));
    return clients.map((client, i) => ({ client, stream: streams[i]! }));
  };
  /** Nobody drains for two periods: the response is cut. */
  const waitForTheCut = async (): Promise<void> => {
    for (let i = 0; i < 4; i++) await clock.advance(KEEP_ALIVE);
  };

  it('P13: a reader that never reads on the standalone stream is closed; memory is bounded, and other clients are not affected', async () => {
    const others = await bystanders();
    const client = await app.client().initialize();
    await neverRead(client, requestText(client, 'GET'));
    await app.settled({ readers: 11 });
    const atRest = await memoryAtRest();

    for (let i = 1; i <= EVENTS; i++) {
      expect(await app.service.notify(client.sessionId!, note(filler(i)))).toBe(1);
      peak = Math.max(peak, memoryInUse());
      if (i % 100 > 0) continue;
      // Whoever reads has what was said before the next hundred is sent.
      await app.service.notify(({ id }) => id !== client.sessionId, note(`after ${i}`));
      for (const { stream } of others) await stream.count(i / 100);
      expect((await (await others[i % 10]!.client.call('quick')).sse().count(1)).messages[0].result).toBeDefined();
    }
    const expected = Array.from({ length: 10 }, (_, i) => `after ${(i + 1) * 100}`);
    for (const { stream } of others) expect(stream.messages.map(({ params }) => params.data)).toEqual(expected);

    expect(peak - atRest).toBeLessThan(MAX_BUFFERED + LOG + SLACK);
    expect((await memoryAtRest()) - atRest).toBeLessThan(MAX_BUFFERED + LOG + 16 * MEBIBYTE);
    expect((await app.service.counts()).bytes).toBeLessThanOrEqual(LOG + MEBIBYTE);

    await waitForTheCut();
    await app.settled({ readers: 10, openResponses: 10 });
    // Its session lives, and goes on where its log does.
    const again = await (await client.listen()).count(1);
    expect(Number(again.messages[0].params.data.split(' ')[0])).toBeGreaterThan(900);
    for (const { stream } of others) expect(stream.ended).toBeUndefined();
  });

  it('P13: a reader that never reads the answer to its own call is cut; its handler does not wait, and the answer is kept', async () => {
    const others = await bystanders();
    const client = await app.client().initialize();
    const standalone = await client.listen();
    const atRest = await memoryAtRest();
    const call = client.toolCall('floods', {}, { id: 'flood' });
    await neverRead(client, requestText(client, 'POST', { body: call }));
    await app.settled({ inFlight: 1 });
    // 100 MB later the handler is done, whoever has read them.
    await app.settled({ inFlight: 0 });
    expect(peak - atRest).toBeLessThan(MAX_BUFFERED + LOG + SLACK);
    for (const session of [client, ...others.map(({ client }) => client)]) {
      await app.service.notify(session.sessionId!, note('still here'));
      expect((await (await session.call('quick')).sse().count(1)).messages[0].result).toBeDefined();
    }
    for (const stream of [standalone, ...others.map(({ stream }) => stream)]) {
      expect((await stream.count(1)).messages[0].params.data).toBe('still here');
    }

    await waitForTheCut();
    await app.settled({ readers: 11, openResponses: 11, inFlight: 0 });
    expect((await memoryAtRest()) - atRest).toBeLessThan(LOG + 16 * MEBIBYTE);
  });

  it('P13, G6: a client that reads a little and then no more comes back for what is left', async () => {
    const client = await app.client().initialize();
    const response = await client.post(client.toolCall('floods', {}, { id: 'flood' }));
    const stream = await response.sse().count(1);
    response.message.pause();
    await app.settled({ inFlight: 0 });
    const read = stream.events.length;
    expect(read).toBeLessThan(EVENTS / 2);
    await waitForTheCut();
    await app.settled({ readers: 0, openResponses: 0 });
    response.destroy();
    // The event after its cursor was evicted long ago: it goes on with the oldest that is kept, up to the answer.
    const cursor = stream.events.at(-1)!.id!;
    const rest = (await client.get(cursor)).sse();
    expect(await rest.end()).toBe('end');
    expect(rest.messages.length).toBeGreaterThan(1);
    expect(rest.messages.length).toBeLessThan(EVENTS - read);
    expect(rest.messages.at(-1)).toMatchObject({ id: 'flood', result: {} });
  });

  it('P13: a reader of which the log has forgotten nothing is cut when nothing drains for two keep-alive periods', async () => {
    await app.close();
    await start({ eventLog: { maxBytes: 128 * MEBIBYTE } });
    const others = (await bystanders()).slice(0, 3);
    for (const { client } of others) await neverRead(client, requestText(client, 'GET'));
    await app.settled({ readers: 13 });
    // Three times 20 MB: more than the kernel takes.
    for (let i = 1; i <= 200; i++) {
      for (const { client } of others) await app.service.notify(client.sessionId!, note(filler(i)));
      if (i % 20 === 0) await new Promise(setImmediate);
    }
    await clock.advance(KEEP_ALIVE);
    // The older reader of each session has ended with this tick (G7).
    await app.settled({ readers: 10, openResponses: 10 });
    await waitForTheCut();
    await app.settled({ readers: 7, openResponses: 7 });
    // A client that comes back goes on where the slow one was cut.
    for (const { client } of others) {
      const stream = await client.listen();
      await stream.until(({ messages }) => messages.at(-1)?.params.data.startsWith('200 '));
      const read = stream.events.filter(({ data }) => data !== '').map(({ id }) => Number(id!.slice(2)));
      expect(read).toEqual(Array.from(read, (_, i) => 201 - read.length + i));
      expect(read.length).toBeLessThan(200);
    }
  });
});
