import { UnauthorizedError } from '@modelcontextprotocol/client';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { eventually, registryOf } from '../support/test-apps.js';
import { authorizingClients, Notes, textOf } from './official-flow.js';
import { authorizationServer, ERAS, protectedApps } from './protected-apps.js';

describe.each(ONE_ADAPTER)('the official client finds its way in, on %s', (adapter) => {
  let clock = new ManualClock();
  const idp = authorizationServer({ now: () => clock.now(), lifetimeS: 300 });
  const startAnyClock = protectedApps(adapter, idp, {
    providers: [Notes],
    keepAliveMs: 2 ** 31 - 1,
    idleTimeoutMs: Infinity,
    retryMs: 1,
    auth: { requiredScopes: ['notes:read'] },
  });
  const start: typeof startAnyClock = (options = {}) => {
    clock = new ManualClock();
    return startAnyClock({ clock, ...options });
  };
  const authorize = authorizingClients();

  it.each(ERAS)('A1, A2, A7: 401, metadata, token, step-up, wider token, served (%s)', async (era) => {
    const app = await start();
    idp().asked.length = 0;
    const { client, agree } = await authorize(() => app, era);
    expect(textOf(await client.callTool({ name: 'read' }))).toBe(`notes:read as ${idp().issuer}|ann`);
    await expect(client.callTool({ name: 'write' })).rejects.toThrow(UnauthorizedError);
    await agree();
    expect(textOf(await client.callTool({ name: 'write' }))).toBe('written');
    expect(idp().asked).toEqual(['notes:read', 'notes:read notes:write']);
  });

  it.each(ERAS)('A2: behind a proxy that strips a prefix (%s)', async (era) => {
    const app = await start({ auth: { resource: 'https://mcp.test/mcp' }, path: 'inside' });
    const through = () => ({ url: app.url });
    // The proxy knows the endpoint under another path, and hands well-known paths on as they are.
    const { client } = await authorize(through, era, { '/mcp': '/inside' });
    expect(textOf(await client.callTool({ name: 'read' }))).toContain('ann');
  });

  it.each(ERAS)('A13: a token that expires is refreshed, without the user (%s)', async (era) => {
    const app = await start();
    const { client, user } = await authorize(() => app, era);
    const first = user.tokens()!.access_token;
    idp().asked.length = 0;
    await clock.advance(310_000);
    expect(textOf(await client.callTool({ name: 'read' }))).toContain('ann');
    expect(user.tokens()!.access_token).not.toBe(first);
    expect(idp().asked).toEqual([]);
  });

  it('A13: so is one that expires while a stream is open: the client comes back and misses nothing', async () => {
    const app = await start();
    const { client, user } = await authorize(() => app, 'legacy');
    const heard: string[] = [];
    client.setNotificationHandler('notifications/tools/list_changed', () => void heard.push('changed'));
    await app.settled({ openResponses: 1 });
    const first = user.tokens()!.access_token;
    await clock.advance(305_000);
    await eventually(() => expect(user.tokens()!.access_token).not.toBe(first));
    registryOf(app).registerTool({ name: 'new', handler: () => 'new' });
    await eventually(() => expect(heard).toEqual(['changed']));
  });
});
