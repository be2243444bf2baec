import { InMemoryEventStore, type McpEventStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { gate, ONE_ADAPTER, TestApp, type TestTool } from '../support/app.js';
import { log } from '../support/messages.js';
import { NodeBackend } from '../support/node-backend.js';
import { OFFICIAL_CLIENTS, type OfficialClient } from '../support/official-clients.js';
import { Proxy } from '../support/proxy.js';
import { eventually } from '../support/test-apps.js';

const RETRY_MS = 20;
/** Longer than a stream waits for its log, and than a client waits before it comes back. */
const A_MINUTE = 60_000;
const LOST = /storage of this server has failed and lost the answer/;

describe.each(ONE_ADAPTER)('an event store that is unavailable for a minute, on %s', (adapter) => {
  describe.each(OFFICIAL_CLIENTS)('for $name', ({ connect }) => {
    let clock: ManualClock;
    let backend: NodeBackend;
    let app: TestApp;
    let proxy: Proxy;
    let client: OfficialClient;
    let release: ReturnType<typeof gate<void>>;

    const tools: Record<string, TestTool> = {
      quick: () => 'quick',
      waits: async ({ text }, ctx) => {
        await ctx.progress(1);
        await release.promise;
        return String(text);
      },
      reports: async (_, ctx) => {
        await ctx.progress(1);
        await release.promise;
        // Unlike progress, it waits for the log.
        await ctx.log('info', 'reported');
        return 'reported';
      },
    };

    beforeEach(async () => {
      [clock, backend, release] = [new ManualClock(), new NodeBackend(), gate()];
      const eventStore = backend.over<McpEventStore>(new InMemoryEventStore({}, clock));
      app = await TestApp.start({ adapter, clock, eventStore, tools, retryMs: RETRY_MS });
      proxy = await Proxy.start(new URL(app.url));
      client = await connect(proxy.url);
      await app.settled({ readers: 1 });
    });
    afterEach(async () => {
      release.open();
      backend.back();
      await client.close();
      await proxy.close();
      await app.close();
    });

    /** Begins a call, which is a stream when this settles. */
    async function begin(tool: string, args = {}): Promise<{ ended: Promise<string> }> {
      const begun = gate();
      const ended = client.call(tool, args, { onprogress: () => begun.open() }).catch((error: Error) => error.message);
      await begun.promise;
      return { ended };
    }
    const away = (): void => backend.refuse('append', 'read');

    /** The client asks for nothing more, and hears what is new. */
    async function expectRest(): Promise<void> {
      await app.settled({ inFlight: 0, streams: 1, readers: 1 });
      await app.service.notify(client.sessionId!, log('after'));
      await eventually(() => expect(client.logs).toEqual(['after']));
      expect(await client.call('quick')).toBe('quick');
    }

    it('G13: a connected client gets the answers that the log did not take, and an error for a call that still ran', async () => {
      const calls = [await begin('waits', { text: 'waited' }), await begin('reports')];
      away();
      release.open();
      await clock.advance(A_MINUTE);
      expect(await Promise.all(calls.map(({ ended }) => ended))).toEqual(['waited', expect.stringMatching(LOST)]);
      backend.back();
      await clock.advance(A_MINUTE);
      await expectRest();
    });

    it('G13: a client that has lost its connection gets an error while the log is away, and comes to rest', async () => {
      const call = await begin('waits');
      away();
      proxy.cut();
      // Its standalone stream is one of them.
      await app.settled({ readers: 2 });
      release.open();
      await clock.advance(A_MINUTE);
      expect(await call.ended).toMatch(LOST);
      backend.back();
      await clock.advance(A_MINUTE);
      await expectRest();
    });

    it('G11: a client that comes back while the log is away gets its answer afterwards', async () => {
      const call = await begin('waits', { text: 'kept' });
      away();
      proxy.cut();
      await app.settled({ readers: 2 });
      await clock.advance(A_MINUTE);
      backend.back();
      await clock.advance(A_MINUTE);
      release.open();
      expect(await call.ended).toBe('kept');
      await expectRest();
    });
  });
});
