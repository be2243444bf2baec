import { setImmediate as nextTurn } from 'node:timers/promises';
import { toolProgress, type McpContext } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { concat, finalize, NEVER, Observable, of } from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, type TestApp } from '../support/app.js';
import { eventually, officialClients, recordedEvents, testApps } from '../support/test-apps.js';
import { asking, KINDS, messageOf, type Kind } from '../support/kinds.js';
import { gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { fourOf } from './four.js';

/** How often sources were left, by name; and the signals of their calls. */
let left: Map<string, number>;
let signals: AbortSignal[];
let hold: ReturnType<typeof gate<void>>;
let entered: ReturnType<typeof gate<void>>;
/** Of a source that came too late to be looked at. */
let subscribed: number;

function leave(name: string): void {
  left.set(name, (left.get(name) ?? 0) + 1);
}

/** Reports for ever, and knows nothing of signals. */
async function* countsForEver(name: string): AsyncGenerator {
  try {
    for (let n = 1; ; n++) {
      yield toolProgress(n);
      await nextTurn();
    }
  } finally {
    leave(name);
  }
}

const sources: Record<string, (context: McpContext) => unknown> = {
  observable: () => concat(of(toolProgress(1)), NEVER).pipe(finalize(() => leave('observable'))),
  promised: async () => concat(of(toolProgress(1)), NEVER).pipe(finalize(() => leave('promised'))),
  iterable: () => countsForEver('iterable'),
};
const noting = (run: (context: McpContext) => unknown) => (context: McpContext) => {
  signals.push(context.signal);
  return run(context);
};
const providers = [
  ...Object.entries(sources).map(([name, run]) => fourOf(name, { run: noting(run) })),
  fourOf('late', {
    run: noting(async () => {
      entered.open();
      await hold.promise;
      return new Observable(() => {
        subscribed++;
        return () => leave('late');
      });
    }),
  }),
];
const FORMS = Object.keys(sources);

/** What can end a call, and what its client is told of it. */
const ENDS: Record<string, { end: (running: Running) => Promise<unknown>; told: number | undefined }> = {
  'notifications/cancelled': {
    end: ({ client, id }) => client.notify('notifications/cancelled', { requestId: id }),
    told: undefined,
  },
  DELETE: { end: async ({ client }) => (await client.delete()).text(), told: -32000 },
  'terminate()': { end: ({ app, client }) => app.service.terminate(client.sessionId!), told: -32000 },
  requestTimeoutMs: { end: ({ clock }) => clock.advance(30_000), told: -32001 },
  shutdown: { end: ({ app }) => app.shutDown(), told: -32000 },
};

interface Running {
  app: TestApp;
  client: RawClient;
  clock: ManualClock;
  id: number;
}

describe.each(ONE_ADAPTER)('the end of results that come in parts, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, port: true, providers, requestTimeoutMs: 30_000 });
  const connect = officialClients();
  const clock = new ManualClock();
  beforeEach(() => {
    left = new Map();
    signals = [];
    [hold, entered] = [gate(), gate()];
    subscribed = 0;
  });

  const call = async (client: RawClient, kind: Kind, host: string) => {
    const message = messageOf(client, kind, host);
    const params = { ...message.params, _meta: { progressToken: 'token' } };
    return { id: message.id, posted: client.post({ ...message, params }) };
  };

  describe.each(Object.entries(ENDS))('by %s', (_name, { end, told }) => {
    it.each(FORMS.flatMap((form) => KINDS.map((kind) => [form, kind] as const)))(
      'the end of results that come in parts unsubscribes, once, and says no more (%s, %s)',
      async (form, kind) => {
        const app = await start({ clock });
        const events = recordedEvents(app);
        const client = await app.client().initialize();
        const { id, posted } = await call(client, kind, form);
        const stream = await (await posted).sse().count(1);
        expect(left.size).toBe(0);

        await end({ app, client, clock, id });
        await eventually(() => expect([...left]).toEqual([[form, 1]]));
        expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
        expect(await stream.end()).toBe('end');
        const answers = stream.messages.filter((message) => message.id !== undefined);
        if (told === undefined) expect(answers).toEqual([]);
        else expect(answers).toMatchObject([{ id, error: { code: told } }]);
        expect(stream.messages.at(-1)).toMatchObject(
          told === undefined ? { params: { progressToken: 'token' } } : { id },
        );
        await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
        // What it would still say is dropped before it is a message.
        await nextTurn();
        expect(events.filter(({ type }) => type === 'late-message')).toEqual([]);
        expect([...left]).toEqual([[form, 1]]);
      },
    );
  });

  it('the end of results that come in parts does not subscribe to a source after its call is over', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const { id, posted } = await call(client, 'tool', 'late');
    await entered.promise;
    await client.notify('notifications/cancelled', { requestId: id });
    await (await posted).text();
    hold.open();
    await eventually(() => expect(signals.map(({ aborted }) => aborted)).toEqual([true]));
    await nextTurn();
    expect([subscribed, left.size]).toEqual([0, 0]);
  });

  it("the end of results that come in parts is the source's own when its client merely leaves", async () => {
    const app = await start();
    const client = await app.client().initialize();
    const { id, posted } = await call(client, 'tool', 'observable');
    const stream = await (await posted).sse().count(1);
    stream.destroy();
    await app.settled({ readers: 0, inFlight: 1 });
    expect([left.size, signals[0]!.aborted]).toEqual([0, false]);
    await client.notify('notifications/cancelled', { requestId: id });
    await eventually(() => expect([...left]).toEqual([['observable', 1]]));
  });

  it('the end of results that come in parts ends only its own one of many calls', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const calls = await Promise.all(
      Array.from({ length: 10 }, async (_, n) => {
        const form = n % 2 === 0 ? 'observable' : 'promised';
        const { id, posted } = await call(client, KINDS[n % KINDS.length]!, form);
        return { id, form, stream: await (await posted).sse().count(1) };
      }),
    );
    for (const [n, { id, form, stream }] of calls.entries()) {
      await client.notify('notifications/cancelled', { requestId: id });
      await stream.end();
      const done = calls.slice(0, n + 1).filter((each) => each.form === form).length;
      await eventually(() => expect(left.get(form)).toBe(done));
      await app.settled({ inFlight: calls.length - n - 1 });
    }
    for (const { stream } of calls) expect(gists(stream.messages)).toEqual(['progress 1']);
  });

  it.each(FORMS.flatMap((form) => KINDS.map((kind) => [form, kind] as const)))(
    'the end of results that come in parts is what an official client says by its signal (%s, %s)',
    async (form, kind) => {
      const app = await start();
      const client = await connect(app);
      const controller = new AbortController();
      const onprogress = () => controller.abort('enough');
      const running = client.request(asking(kind, form) as never, { signal: controller.signal, onprogress });
      await expect(running).rejects.toThrow('enough');
      await eventually(() => expect([...left]).toEqual([[form, 1]]));
      // What is left is its standalone stream.
      await app.settled({ inFlight: 0, streams: 1, readers: 1 });
      expect(signals[0]!.reason).toBe('enough');
    },
  );
});
