import { Injectable } from '@nestjs/common';
import { McpCtx, type McpContext, Tool } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { gate, ONE_ADAPTER } from '../support/app.js';
import { AuthorizationServer } from '../support/authorization-server.js';
import { registryOf } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { asker, authorizationServer, bearer, closing, ERAS, protectedApps } from './protected-apps.js';

@Injectable()
class Tools {
  @Tool({ name: 'who' })
  who(@McpCtx() ctx: McpContext) {
    return String(ctx.principal);
  }
}

describe.each(ONE_ADAPTER)('sessions of callers with tokens, on %s', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp, { providers: [Tools] });
  const closed = closing<AuthorizationServer>();

  it('A13: a session survives a token that was refreshed', async () => {
    const app = await start();
    const client = await app.client(await bearer(idp(), 'a')).initialize();
    client.headers = await bearer(idp(), 'a b', { client_id: 'another client of hers' });
    const { result } = await (await client.call('who')).json();
    expect(result.content[0].text).toBe(`${idp().issuer}|ann`);
  });

  it('A13: the same subject of another issuer does not find the session', async () => {
    const other = closed(await AuthorizationServer.start());
    const app = await start({ auth: { authorizationServers: [idp().issuer, other.issuer] } });
    const client = await app.client(await bearer(idp())).initialize();
    for (const headers of [await bearer(other), await bearer(idp(), '', { sub: 'bob' })]) {
      client.headers = headers;
      for (const response of [await client.call('who'), await client.get(), await client.delete()]) {
        expect(response.status).toBe(404);
        await response.text();
      }
    }
    client.headers = await bearer(idp());
    expect((await client.delete()).status).toBe(204);
  });

  it('A13: a caller without a token does not find the session of one with a token, nor the other way round', async () => {
    const app = await start({ auth: { anonymous: true } });
    const client = await app.client(await bearer(idp())).initialize();
    client.headers = {};
    expect((await client.call('who')).status).toBe(404);
    const anonymous = await app.client().initialize();
    anonymous.headers = await bearer(idp());
    expect((await anonymous.call('who')).status).toBe(404);
  });

  it('E13: callers without a token leave half of the sessions to others', async () => {
    const app = await start({ auth: { anonymous: true }, maxSessions: 2 });
    await app.client().initialize();
    const another = app.client();
    const refusal = { status: 429, code: -32000, says: ['"maxAnonymousSessions"', '1 sessions'] };
    await expectRefusal(await another.post(another.initializeMessage()), { ...refusal, id: 1 });
    await app.client(await bearer(idp())).initialize();
  });
});

describe.each(ONE_ADAPTER)('streams of callers with tokens, on %s', (adapter) => {
  let clock: ManualClock;
  const idp = authorizationServer({ now: () => clock.now() });
  const startAnyClock = protectedApps(adapter, idp, {
    providers: [Tools],
    idleTimeoutMs: Infinity,
    keepAliveMs: 2 ** 31 - 1,
  });
  const start: typeof startAnyClock = (options = {}) => {
    clock = new ManualClock();
    return startAnyClock({ clock, ...options });
  };
  const inSeconds = (seconds: number) => ({ exp: Math.floor(clock.now() / 1_000) + seconds });

  it('A13: a GET stream ends when its token expires; with the next one it is resumed', async () => {
    const app = await start();
    const client = await app.client(await bearer(idp(), '', inSeconds(60))).initialize();
    const stream = await client.listen();
    await clock.advance(59_000);
    expect(stream.ended).toBeUndefined();
    await clock.advance(1_000);
    expect(await stream.end()).toBe('end');
    await clock.advance(10_000);
    expect((await client.get(stream.primes.at(-1))).status).toBe(401);
    // What happens meanwhile waits in the log.
    registryOf(app).registerTool({ name: 'new', handler: () => 'new' });
    client.headers = await bearer(idp(), '', inSeconds(60));
    const resumed = await client.listen(stream.primes.at(-1));
    await resumed.count(1);
    expect(resumed.messages[0].method).toBe('notifications/tools/list_changed');
    resumed.destroy();
  });

  it('A13: a subscription ends when its token expires, without the result of a graceful end', async () => {
    const app = await start();
    const client = new ModernClient(app.url, await bearer(idp(), '', inSeconds(60)));
    const stream = await client.listen({ toolsListChanged: true });
    await clock.advance(60_000);
    expect(await stream.end()).toBe('end');
    expect(stream.messages.map(({ method }) => method)).toEqual(['notifications/subscriptions/acknowledged']);
    await app.settled({ subscriptions: 0, timers: 0 });
  });

  it('A13: a token within the clock tolerance is accepted, and its stream ends', async () => {
    const app = await start({ auth: { clockToleranceMs: 30_000 } });
    const client = await app.client(await bearer(idp(), '', inSeconds(60))).initialize();
    await clock.advance(70_000);
    const response = await client.get();
    expect(response.status).toBe(200);
    const stream = response.sse();
    await clock.advance(0);
    expect(await stream.end()).toBe('end');
  });

  it.each(ERAS)('A13: a call that began with a valid token is answered after it has expired (%s)', async (era) => {
    const held = gate();
    const app = await start({ sseAfterMs: 10 });
    registryOf(app).registerTool({ name: 'slow', handler: () => held.promise.then(() => 'done') });
    const { request } = await asker(app, era, await bearer(idp(), '', inSeconds(60)));
    const answer = request('tools/call', { name: 'slow', arguments: {} });
    await expect.poll(async () => (await app.service.counts()).inFlight).toBe(1);
    await clock.advance(10);
    const stream = (await answer).sse();
    await clock.advance(120_000);
    expect(stream.ended).toBeUndefined();
    held.open();
    await stream.end();
    expect(stream.messages.at(-1).result.content[0].text).toBe('done');
  });

  it('A13: streams stay open with closeStreamsOnExpiry false, and with tokens without an expiry', async () => {
    const staying = await start({ auth: { closeStreamsOnExpiry: false } });
    const one = await staying.client(await bearer(idp(), '', inSeconds(60))).initialize();
    const first = await one.listen();
    await clock.advance(120_000);
    expect(first.ended).toBeUndefined();
    first.destroy();
    const verifier = {
      verifyAccessToken: (token: string) =>
        Promise.resolve({ token, clientId: 'c', scopes: [], extra: { sub: 'ann' } }),
    };
    const endless = await start({ auth: { verifier } });
    const two = await endless.client({ authorization: 'Bearer x' }).initialize();
    const second = await two.listen();
    await clock.advance(10 ** 10);
    expect(second.ended).toBeUndefined();
    second.destroy();
  });

  it('A13: a stream whose client leaves first leaves no timer', async () => {
    const app = await start();
    const client = await app.client(await bearer(idp(), '', inSeconds(60))).initialize();
    const before = clock.pending;
    const stream = await client.listen();
    expect(clock.pending).toBeGreaterThan(before);
    stream.destroy();
    await app.settled({ openResponses: 0 });
    expect(clock.pending).toBe(before);
  });

  it('a token of months needs no timer', async () => {
    const app = await start();
    const client = await app.client(await bearer(idp(), '', inSeconds(10 ** 8))).initialize();
    const stream = await client.listen();
    expect(stream.ended).toBeUndefined();
    stream.destroy();
  });
});
