import { McpRegistry } from 'nestjs-mcp-streamable';
import { McpLiveModule, type McpLiveOptions } from 'nestjs-mcp-streamable/live';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { act, LiveReader } from './live-reader.js';

describe.each(ONE_ADAPTER)('actions of the live page on %s', (adapter) => {
  let app: TestApp;
  let page: string;
  let client: RawClient;
  let reader: LiveReader;
  let clock: ManualClock;
  let running: ReturnType<typeof gate>;
  let aborted: ReturnType<typeof gate>;

  beforeEach(async () => {
    clock = new ManualClock();
    [running, aborted] = [gate(), gate()];
    const live: McpLiveOptions = { unguarded: 'loopback' };
    app = await TestApp.start({
      adapter,
      clock,
      module: { imports: [McpLiveModule.forRoot(live)] },
      tools: {
        quick: () => 'done',
        waits: async (_, ctx) => {
          running.open(undefined);
          await new Promise((resolve) => {
            ctx.signal.addEventListener('abort', resolve);
          });
          aborted.open(undefined);
          return 'too late';
        },
      },
    });
    page = app.url.replace(/mcp$/, 'mcp-live');
    client = await app.client().initialize();
    reader = await LiveReader.open(page);
  });
  afterEach(async () => {
    reader.close();
    await app.close();
  });

  it('actions of the live page end a session, whose client gets 404', async () => {
    const { key } = reader.row('sessions');
    const { status, body, response } = await act(page, `sessions/${key}/end`);
    expect({ status, body }).toEqual({ status: 200, body: { ended: true } });
    expect(response.header('cache-control')).toBe('no-store');
    expect((await client.call('waits')).status).toBe(404);
    await clock.advance(500);
    await reader.until(({ first }) => first.sessions.size === 0);
    expect(reader.events).toContainEqual(expect.objectContaining({ what: 'session ended', outcome: 'terminated' }));
    expect(await act(page, `sessions/${key}/end`)).toMatchObject({ status: 404, body: { error: 'UNKNOWN_SESSION' } });
  });

  it('cancel a call: its client gets an error, and its handler the signal', async () => {
    const answer = client.call('waits');
    await running.promise;
    await clock.advance(500);
    await reader.until(({ first }) => first.calls.size === 1);
    const { key, ...call } = reader.row('calls');
    expect(call).toMatchObject({ method: 'tools/call', name: 'waits', client: 'raw', cancellable: true });
    expect(await act(page, `calls/${key}/cancel`)).toMatchObject({ status: 200, body: { cancelled: true } });
    await aborted.promise;
    expect(await (await answer).text()).toMatch(/"code":-32000,"message":"The operator/);
    expect(await act(page, `calls/${key}/cancel`)).toMatchObject({
      status: 404,
      body: { error: 'UNKNOWN_CALL', message: expect.stringContaining(reader.first.facts['node']) },
    });
    await clock.advance(500);
    await reader.until(({ first }) => first.calls.size === 0);
  });

  it('cancel a call without a session', async () => {
    const answer = new ModernClient(app.url).request('tools/call', { name: 'waits', arguments: {} });
    await running.promise;
    await clock.advance(500);
    await reader.until(({ first }) => first.calls.size === 1);
    expect(reader.row('calls')).toMatchObject({ session: null, revision: '2026-07-28' });
    await act(page, `calls/${reader.row('calls')['key']}/cancel`);
    expect(await (await answer).text()).toMatch(/"code":-32000,"message":"The operator/);
  });

  it('actions of the live page are refused of another origin, without the header of actions and by another name, and nothing ends', async () => {
    const { key } = reader.row('sessions');
    for (const [headers, error] of [
      [{ origin: undefined }, 'FORBIDDEN_ORIGIN'],
      [{ origin: 'https://evil.example' }, 'FORBIDDEN_ORIGIN'],
      [{ origin: 'http://127.0.0.1:1' }, 'FORBIDDEN_ORIGIN'],
      // Of a sandboxed frame.
      [{ origin: 'null' }, 'FORBIDDEN_ORIGIN'],
      [{ 'mcp-live-action': undefined }, 'MISSING_HEADER'],
      [{ 'mcp-live-action': 'yes' }, 'MISSING_HEADER'],
      [{ host: 'rebound.example' }, 'NOT_LOOPBACK'],
    ] as [Record<string, string | undefined>, string][])
      expect(await act(page, `sessions/${key}/end`, headers)).toMatchObject({ status: 403, body: { error } });
    expect(await app.service.list()).toHaveLength(1);
  });

  it('actions of the live page know no key that is none, whatever it means elsewhere', async () => {
    for (const key of ['__proto__', '..%2f..', '%00', 'x'.repeat(5_000)])
      for (const action of [`sessions/${key}/end`, `calls/${key}/cancel`, `tools/${key}/disable`])
        expect((await act(page, action)).status).toBeGreaterThanOrEqual(400);
    expect(await app.service.list()).toHaveLength(1);
  });

  it('switch a tool off, whose model reads that an operator did it, and on again', async () => {
    await (await client.call('quick')).text();
    await clock.advance(500);
    await reader.until(({ first }) => first.tools.has('tool quick'));
    const { id } = reader.first.tools.get('tool quick')!;
    expect(await act(page, `tools/${id}/disable`)).toMatchObject({ status: 200, body: { disabled: true } });
    const refused = await (await client.call('quick')).json();
    expect(refused.result.content[0].text).toMatch(/^The tool "quick" is switched off: The operator/);
    await clock.advance(500);
    await reader.until(({ first }) => first.tools.get('tool quick')!['off'] !== null);
    expect(await act(page, `tools/${id}/enable`)).toMatchObject({ status: 200, body: { enabled: true } });
    expect((await (await client.call('quick')).json()).result).toMatchObject({ content: [{ text: 'done' }] });
    expect(await act(page, `tools/${id}/disable`, { origin: 'https://evil.example' })).toMatchObject({ status: 403 });
    expect(await act(page, 'tools/unknown/disable')).toMatchObject({ status: 404, body: { error: 'UNKNOWN_TOOL' } });
    expect(app.log.texts('log').filter((text) => text.includes('live page'))).toHaveLength(2);
  });

  it('switch a tool on that was switched off elsewhere, and was never called, whatever its name', async () => {
    const registry = app.app.get(McpRegistry);
    await registry.disable('__proto__', { reason: '<b>down</b>' });
    await clock.advance(500);
    await reader.until(({ first }) => first.tools.has('tool __proto__'));
    const row = reader.first.tools.get('tool __proto__')!;
    expect(row).toMatchObject({ calls: 0, off: '<b>down</b>' });
    await act(page, `tools/${row['id']}/enable`);
    await clock.advance(500);
    await reader.until(({ first }) => !first.tools.has('tool __proto__'));
  });

  it('actions of the live page take no session id: the page does not have it', async () => {
    expect(await act(page, `sessions/${client.sessionId}/end`)).toMatchObject({ status: 404 });
    expect(reader.stream.body).not.toContain(client.sessionId);
    expect(reader.row('sessions')['id']).toBe(client.sessionId!.slice(0, 6));
  });
});
