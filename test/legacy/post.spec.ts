import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, gate, TestApp } from '../support/app.js';

describe.each(ADAPTERS)('POST on %s', (adapter) => {
  let app: TestApp;
  const release = { current: gate() };

  beforeEach(async () => {
    release.current = gate();
    app = await TestApp.start({
      adapter,
      sseAfterMs: 60_000,
      tools: {
        quick: () => 'quick',
        talks: async (_, ctx) => {
          await ctx.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data: 'one' } });
          await ctx.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data: 'two' } });
          return 'said';
        },
        waits: async () => {
          await release.current.promise;
          return 'waited';
        },
      },
    });
  });
  afterEach(() => app.close());

  it('P1: answers notifications and responses with 202 and nothing else', async () => {
    const client = await app.client().initialize();
    const response = await client.post({ jsonrpc: '2.0', id: 'nobody-waits', result: {} });
    expect(response.status).toBe(202);
    expect(response.header('content-type')).toBeUndefined();
    expect(await response.text()).toBe('');
  });

  it('P3: answers with JSON when the answer comes first', async () => {
    const client = await app.client().initialize();
    const response = await client.call('quick');
    expect(response.status).toBe(200);
    expect(response.header('content-type')).toMatch('application/json');
    expect(response.header('mcp-session-id')).toBeUndefined();
    expect((await response.json()).result.content[0].text).toBe('quick');
    await app.settled({ inFlight: 0, streams: 0, loggedStreams: 0, events: 0 });
  });

  it('P2: carries every message of a request in order and ends after the answer', async () => {
    const client = await app.client().initialize();
    const stream = (await client.call('talks')).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.messages.map((m) => m.params?.data ?? m.result.content[0].text)).toEqual(['one', 'two', 'said']);
    const id = stream.primes[0]!.slice(0, -2);
    expect(stream.primes).toEqual([`${id}_0`]);
    expect(stream.events.map((event) => event.id)).toEqual([`${id}_1`, `${id}_2`, `${id}_3`]);
    await app.settled({ inFlight: 0, streams: 0, readers: 0 });
  });
});
