import { setMaxListeners } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { currentMcpCall, McpError } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestTool } from '../support/app.js';
import { Proxy } from '../support/proxy.js';
import { eventually } from '../support/test-apps.js';
import { OFFICIAL_CLIENTS, type OfficialClient } from '../support/official-clients.js';

/**
 * # Both official clients come to rest
 *
 * They come back by GET whenever a response that had event ids, or the standalone stream, ends without an answer. A server
 * that answers this in the wrong way keeps them coming back for ever (measured; G2, G7, G9): each stream
 * that is caught in such a loop shows as a GET every `RETRY_MS`. Between two GETs of a loop there is a timer of the client, so a
 * client without such a timer and without a GET, for some turns of the event loop, has come to rest.
 */
const RETRY_MS = 23;
const QUIET_TURNS = 100;
const MOST_GETS = 100;

describe.each(ONE_ADAPTER)('on %s', (adapter) => {
  describe.each(OFFICIAL_CLIENTS)('$name settles', ({ connect }) => {
    let app: TestApp;
    let proxy: Proxy;
    let gets: number;
    /** Statuses of GETs that neither client takes quietly. */
    let refusals: number[];
    let release: ReturnType<typeof gate<void>>;
    /** Timers of clients that come back. */
    let armed: Set<unknown>;
    let everArmed: boolean;
    const clients: OfficialClient[] = [];

    beforeEach(async () => {
      release = gate();
      armed = new Set();
      everArmed = false;
      const { setTimeout, clearTimeout } = globalThis;
      vi.spyOn(globalThis, 'setTimeout').mockImplementation((task: () => void, ms?: number) => {
        if (ms !== RETRY_MS) return setTimeout(task, ms);
        const timer = setTimeout(() => {
          armed.delete(timer);
          task();
        }, ms);
        armed.add(timer);
        everArmed = true;
        return timer;
      });
      vi.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => {
        armed.delete(timer);
        clearTimeout(timer);
      });
      app = await TestApp.start({ adapter, retryMs: RETRY_MS, sseAfterMs: 60_000, tools });
      gets = 0;
      refusals = [];
      (app.app.getHttpServer() as Server).on('request', ({ method }: IncomingMessage, response: ServerResponse) => {
        if (method !== 'GET') return;
        gets++;
        response.on('finish', () => [200, 405].includes(response.statusCode) || refusals.push(response.statusCode));
      });
      proxy = await Proxy.start(new URL(app.url));
    });
    afterEach(async () => {
      vi.restoreAllMocks();
      release.open();
      for (const client of clients.splice(0)) await client.close();
      await proxy.close();
      await app.close();
    });

    const tools: Record<string, TestTool> = {
      quick: () => 'quick',
      waits: async ({ text }, ctx) => {
        await ctx.progress(1);
        await release.promise;
        return String(text);
      },
      fails: async (_, ctx) => {
        await ctx.progress(1);
        await release.promise;
        throw new McpError('INTERNAL_ERROR', 'as it should');
      },
      /** Ends the connection that it is heard on, as often as is asked for, each time when the client is back. */
      hangsUp: async ({ times }, ctx) => {
        await ctx.progress(1);
        for (let n = 0; n < Number(times); n++) {
          const before = gets;
          currentMcpCall()!.closeStream();
          await eventually(() => expect(gets).toBeGreaterThan(before));
        }
        return 'back';
      },
    };

    const begin = async (): Promise<OfficialClient> => {
      const client = await connect(proxy.url);
      clients.push(client);
      await app.settled({ readers: 1 });
      return client;
    };
    const join = async (client: OfficialClient): Promise<OfficialClient> => {
      const { openResponses } = app;
      const joined = await client.join();
      clients.push(joined);
      await app.settled({ openResponses: openResponses + 1 });
      return joined;
    };

    /** Calls whose clients have all heard of their progress: they have a cursor to come back with. */
    const calls = async (
      client: OfficialClient,
      tool: string,
      count: number,
      args: (n: number) => Record<string, unknown> = () => ({}),
    ): Promise<{ answers: Promise<string>[]; cancel: () => void }> => {
      const controller = new AbortController();
      // The official clients listen to it once for each call.
      setMaxListeners(0, controller.signal);
      const heard = Array.from({ length: count }, () => gate());
      const answers = heard.map(({ open }, n) =>
        client.call(tool, args(n), { signal: controller.signal, onprogress: () => open() }),
      );
      for (const answer of answers) answer.catch(() => {});
      await Promise.all(heard.map(({ promise }) => promise));
      return { answers, cancel: () => controller.abort('enough') };
    };
    const outcomes = async (answers: Promise<string>[]): Promise<string[]> =>
      (await Promise.allSettled(answers)).map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 'failed'));

    /** Cuts everything, and waits until the clients are back. */
    const cut = async (): Promise<void> => {
      const { openResponses } = app;
      const before = gets;
      proxy.cut();
      // Each comes back by a GET: that all of them are away lasts too short to be seen on a busy machine.
      await eventually(() => expect(gets - before).toBeGreaterThanOrEqual(openResponses));
      expect(everArmed).toBe(true);
      await app.settled({ openResponses });
    };

    const expectRest = async (standaloneStreams: number, refused: number[] = []): Promise<void> => {
      await app.settled({ inFlight: 0, openResponses: standaloneStreams, readers: standaloneStreams });
      // A stream that ended without a result is asked for once more, and that is that: 405.
      const before = gets;
      for (let quiet = 0, seen = gets; quiet < QUIET_TURNS; seen = gets) {
        await nextTurn();
        quiet = gets === seen && armed.size === 0 && app.openResponses === standaloneStreams ? quiet + 1 : 0;
        expect(gets - before, 'GETs').toBeLessThan(MOST_GETS);
      }
      expect(refusals).toEqual(refused);
      // Nor has any of them given up.
      await app.settled({ openResponses: standaloneStreams, readers: standaloneStreams });
    };

    it('G2: an official client settles after cancellations, with and without a cursor in its hands', async () => {
      const client = await begin();
      for (let round = 0; round < 5; round++) {
        const heard = await calls(client, 'waits', 5);
        const controller = new AbortController();
        const unheard = [1, 2, 3].map(() => client.call('waits', {}, { signal: controller.signal }));
        await app.settled({ inFlight: 8 });
        heard.cancel();
        controller.abort('enough');
        expect(await outcomes([...heard.answers, ...unheard])).toEqual(Array(8).fill('failed'));
        await app.settled({ inFlight: 0 });
      }
      expect(await client.call('quick')).toBe('quick');
      await expectRest(1);
    });

    it('G2: an official client settles after errors over SSE', async () => {
      const client = await begin();
      const { answers } = await calls(client, 'fails', 20);
      release.open();
      expect(await outcomes(answers)).toEqual(Array(20).fill('failed'));
      await expectRest(1);
      expect(await client.call('quick')).toBe('quick');
    });

    it('G8 G9: after cuts with nothing in between, and all answers still arrive', async () => {
      const client = await begin();
      const { answers } = await calls(client, 'waits', 10, (n) => ({ text: n }));
      for (let n = 0; n < 3; n++) await cut();
      release.open();
      expect(await outcomes(answers)).toEqual(answers.map((_, n) => `${n}`));
      await expectRest(1);
    });

    it('G9: an official client settles after connections that handlers have closed, and all answers still arrive', async () => {
      const client = await begin();
      const answers = [
        client.call('hangsUp', { times: 3 }),
        client.call('hangsUp', { times: 1 }, { onprogress: () => {} }),
      ];
      expect(await outcomes(answers)).toEqual(['back', 'back']);
      await expectRest(1);
    });

    it('G7: two transports on one session do not fight for its standalone stream', async () => {
      const first = await begin();
      const second = await join(first);
      expect(second.sessionId).toBe(first.sessionId);
      await expectRest(2);
      await cut();
      await expectRest(2);
      const log = { method: 'notifications/message', params: { level: 'info', data: 'to one of you' } };
      expect(await app.service.notify(first.sessionId!, log)).toBe(1);
      await eventually(() => expect([...first.logs, ...second.logs]).toEqual(['to one of you']));
    });

    it('G7: an official client settles when many transports read one stream, of which the newest gets what comes', async () => {
      const first = await begin();
      for (let n = 0; n < 4; n++) await join(first);
      await expectRest(5);
      expect(await first.call('quick')).toBe('quick');
    });

    it('an official client settles after all of this together', async () => {
      const first = await begin();
      const second = await join(first);
      for (let round = 0; round < 3; round++) {
        release = gate();
        const [answered, cancelled, failing, alsoAnswered] = await Promise.all([
          calls(first, 'waits', 4, (n) => ({ text: `a${n}` })),
          calls(first, 'waits', 4),
          calls(second, 'fails', 4),
          calls(second, 'waits', 4, (n) => ({ text: `b${n}` })),
        ]);
        await cut();
        cancelled.cancel();
        await app.settled({ inFlight: 12 });
        await cut();
        release.open();
        expect(await outcomes([...answered.answers, ...alsoAnswered.answers])).toEqual(
          ['a', 'b'].flatMap((by) => [0, 1, 2, 3].map((n) => `${by}${n}`)),
        );
        expect(await outcomes([...cancelled.answers, ...failing.answers])).toEqual(Array(8).fill('failed'));
        await app.settled({ inFlight: 0, openResponses: 2 });
      }
      await expectRest(2);
      await first.terminate();
      await app.settled({ sessions: 0, openResponses: 0 });
    });
  });
});
