import { AsyncLocalStorage } from 'node:async_hooks';
import { pbkdf2Sync } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, ONE_ADAPTER, gate } from '../support/app.js';
import type { McpRefusal } from 'nestjs-mcp-streamable';
import { testApps } from '../support/test-apps.js';
import { systemClock } from 'nestjs-mcp-streamable/stores';
import { as, trustingGuard } from '../support/users.js';
import { expectRefusal } from '../support/refusal.js';

const BUSY = { code: -32000, says: ['Try again in a moment'] };

describe.each(ONE_ADAPTER)('a node with too many calls, on %s', (adapter) => {
  const start = testApps(adapter, { port: true, sseAfterMs: 60_000, clock: new ManualClock() });
  let hold: ReturnType<typeof gate<void>>;
  let entered: ReturnType<typeof gate<void>>;
  beforeEach(() => {
    [hold, entered] = [gate(), gate()];
  });
  const wait = (): Promise<string> => {
    entered.open();
    return hold.promise.then(() => 'done');
  };

  it('E14: above maxRunningCalls a modern call gets 503 with Retry-After, whatever its body', async () => {
    const client = (await start({ maxRunningCalls: 1, tools: { waits: wait } })).modern();
    const first = client.call('waits');
    await entered.promise;
    const refused = await client.call('waits');
    expect(refused.header('retry-after')).toBe('1');
    // The id is in the body, which was not read.
    await expectRefusal(refused, { ...BUSY, status: 503, id: null });
    hold.open();
    expect((await first).status).toBe(200);
    expect((await client.call('waits')).status).toBe(200);
  });

  it('E14: above maxRunningCallsPerPrincipal a session gets 429, and other sessions are served', async () => {
    const app = await start({ maxRunningCallsPerPrincipal: 1, tools: { waits: wait } });
    const client = await app.client().initialize();
    const other = await app.client().initialize();
    const first = client.call('waits', {}, { id: 'first' });
    await entered.promise;
    const refused = await client.call('waits', {}, { id: 'second' });
    expect(refused.header('retry-after')).toBe('1');
    await expectRefusal(refused, { ...BUSY, status: 429, id: 'second' });
    const others = other.call('waits', {}, { id: 'other' });
    hold.open();
    expect((await first).status).toBe(200);
    expect((await others).status).toBe(200);
  });

  it.each([
    ['of a session', {}],
    ['without sessions', { sessions: 'off' as const }],
  ])('E14: the requests of a batch %s are admitted one by one', async (_, options) => {
    const app = await start({
      maxRunningCallsPerPrincipal: 2,
      guards: [trustingGuard],
      tools: { waits: wait },
      ...options,
    });
    const refusals: McpRefusal[] = [];
    app.service.refusals$.subscribe((refusal) => refusals.push(refusal));
    const client = app.client(as('ann'));
    if (!('sessions' in options)) await client.initialize('2025-03-26');
    const batch = client.post(['a', 'b', 'c', 'd'].map((id) => client.toolCall('waits', {}, { id })));
    await app.settled({ inFlight: 2 });
    expect((await client.call('waits')).status).toBe(429);
    hold.open();
    const answers: { id: string; result?: object; error?: { code: number; message: string } }[] = await (
      await batch
    ).json();
    expect(answers.filter(({ result }) => result).map(({ id }) => id)).toEqual(['a', 'b']);
    const message: unknown = expect.stringMatching(/2 calls of this caller .* Try again in a moment/);
    const error = { code: -32000, message, data: { retryAfter: 1 } };
    expect(answers.filter(({ result }) => !result)).toEqual(['c', 'd'].map((id) => ({ jsonrpc: '2.0', id, error })));
    const about = { status: 429, option: 'maxRunningCallsPerPrincipal' };
    const called = { ...about, principal: 'ann', method: 'tools/call', name: 'waits' };
    expect(refusals).toMatchObject([called, called, about]);
    expect((await client.call('waits')).status).toBe(200);
  });

  it('E14: anonymous callers leave half of maxRunningCalls to callers who sign in', async () => {
    const app = await start({
      maxRunningCalls: 4,
      guards: [trustingGuard],
      tools: { waits: wait, quick: () => 'done' },
    });
    const [ann, anonymous] = [app.modern(as('ann')), app.modern()];
    expect((await ann.call('quick')).status).toBe(200);
    const calls = [anonymous.call('waits'), anonymous.call('waits')];
    await app.settled({ inFlight: 2 });
    await expectRefusal(await anonymous.call('waits'), { ...BUSY, status: 503, says: ['anonymous callers', 'half'] });
    expect((await ann.call('quick')).status).toBe(200);
    hold.open();
    for (const call of calls) expect((await call).status).toBe(200);
  });

  it('E14: answers, cancellations, GET and DELETE pass while calls are refused', async () => {
    const app = await start({ maxRunningCalls: 1, tools: { waits: wait } });
    const client = await app.client().initialize();
    const other = await app.client().initialize();
    const first = client.call('waits', {}, { id: 'first' });
    await entered.promise;
    expect((await client.call('waits', {}, { id: 'second' })).status).toBe(503);
    expect((await client.listen()).response.status).toBe(200);
    expect((await client.post({ jsonrpc: '2.0', id: 'of nobody', result: {} })).status).toBe(202);
    expect((await other.delete()).status).toBeLessThan(300);
    const cancelled = await client.post({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 'first' },
    });
    expect(cancelled.status).toBe(202);
    await first;
    await app.settled({ inFlight: 0 });
    hold.open();
    expect((await client.call('waits', {}, { id: 'third' })).status).toBe(200);
  });

  it('E14: a legacy call above 64 KiB is refused without its body', async () => {
    const app = await start({ maxRunningCalls: 1, tools: { waits: wait } });
    const client = await app.client().initialize();
    const first = client.call('waits', {}, { id: 'first' });
    await entered.promise;
    const refused = await client.call('waits', { large: 'x'.repeat(70_000) }, { id: 'large' });
    await expectRefusal(refused, { ...BUSY, status: 503, id: null });
    hold.open();
    await first;
  });
});

const tenants = new AsyncLocalStorage<string | undefined>();
const TENANTS = Array.from({ length: 8 }, (_, index) => `tenant ${index}`);

/** Keeps the processor, so that other calls wait for their turn, and says whose call it is. */
function busyFor(): string {
  pbkdf2Sync('a', 'b', 150_000, 64, 'sha512');
  return `for ${tenants.getStore()}`;
}

describe.each(ADAPTERS)('a node whose calls wait for their turn, on %s', (adapter) => {
  // Calls wait by the time of the process, which an app with a clock of its own does not look at.
  const clock = systemClock as typeof systemClock & { readonly pending: number };
  const start = testApps(adapter, { port: true, sseAfterMs: 60_000, maxLagMs: Infinity, clock });

  it('E14: each call that waits for its turn has what middleware has stored for its own request', async () => {
    const app = await start({
      tools: { busy: busyFor },
      configure: (nest) =>
        void nest.use(({ headers }: IncomingMessage, _: unknown, next: () => void) =>
          tenants.run(headers['x-tenant'] as string, next),
        ),
    });
    const calls = TENANTS.map(async (tenant) => {
      const { result } = await (await app.modern({ 'x-tenant': tenant }).call('busy')).json();
      return result.content[0].text as string;
    });
    expect(await Promise.all(calls)).toEqual(TENANTS.map((tenant) => `for ${tenant}`));
  });
});
