import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp, type TestAppOptions } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { RawClient } from '../support/raw-client.js';
import { expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';

describe.each(ONE_ADAPTER)('a session belongs to the path it began at, on %s', (adapter) => {
  let app: TestApp;

  const tools: TestAppOptions['tools'] = {
    quick: () => 'quick',
    talks: async (_, ctx) => {
      await ctx.log('info', 'one');
      return 'said';
    },
  };
  const begin = testApps(adapter, { shared: true, guards: [], tools, path: 'tenants/:tenant/mcp' });
  const start = async (options: Partial<TestAppOptions> = {}): Promise<void> => {
    app = await begin(options);
  };
  const tenant = (name: string): RawClient => new RawClient(app.url.replace(':tenant', name));
  /** A client of one tenant that has the session of another. */
  const intruder = (name: string, { sessionId, protocolVersion }: RawClient): RawClient =>
    Object.assign(tenant(name), { sessionId, protocolVersion });

  it.each(['live', 'only recorded'])('S6: a session is unknown under another tenant while it is %s', async (how) => {
    await start();
    const acme = await tenant('acme').initialize();
    const stream = (await acme.call('talks')).sse();
    const cursor = (await stream.until(({ ended }) => ended !== undefined)).events.at(0)!.id!;
    if (how === 'only recorded') await app.release(acme.sessionId!);
    const other = intruder('umbrella', acme);
    await expectRefusal(await other.call('quick', {}, { id: 1 }), { ...NO_SUCH_SESSION, id: 1 });
    await expectRefusal(await other.get(), NO_SUCH_SESSION);
    await expectRefusal(await other.get(cursor), NO_SUCH_SESSION);
    await expectRefusal(await other.delete(), NO_SUCH_SESSION);
    expect(await (await acme.call('quick')).json()).toMatchObject({ result: { content: [{ text: 'quick' }] } });
    expect((await acme.get(cursor)).status).toBe(200);
    expect((await acme.delete()).status).toBe(204);
    await app.settled({ sessions: 0, live: 0, logs: 0 });
  });

  it('S3: an initialize with the session id of another tenant begins a new session', async () => {
    await start();
    const acme = await tenant('acme').initialize();
    const other = await intruder('umbrella', acme).initialize();
    expect(other.sessionId).not.toBe(acme.sessionId);
    const sessions = await app.service.list();
    expect(sessions.map(({ routeParams }) => ({ ...routeParams }))).toEqual([
      { tenant: 'acme' },
      { tenant: 'umbrella' },
    ]);
  });

  it('a session is found by any spelling of the path that names the same tenant', async () => {
    await start();
    const acme = await tenant('acme').initialize();
    const same = intruder('%61cme', acme);
    expect(await (await same.call('quick')).json()).toMatchObject({ result: { content: [{ text: 'quick' }] } });
  });

  it('a path without parameters is not kept in the record', async () => {
    await start({ path: 'mcp' });
    const client = await app.client().initialize();
    expect(await app.service.get(client.sessionId!)).not.toHaveProperty('routeParams');
  });
});
