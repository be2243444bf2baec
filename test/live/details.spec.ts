import { type DynamicModule, Logger } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { McpLiveModule, type McpLiveOptions } from 'nestjs-mcp-streamable/live';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { WholeShop } from '../browser/live-shop.js';
import { QUICK } from '../support/adapters.js';
import { serverInfo, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import { sharedApp } from '../support/test-apps.js';
import { LiveReader } from './live-reader.js';
import { ShopTools } from './shop.js';

Logger.overrideLogger(false);

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const ORDER = { customer: 'a@example.com', lines: [{ sku: 'x', count: 2 }], token: 'hidden value' };

describe('what the page has opened', () => {
  let app: TestApp;
  let own: TestApp | undefined;
  let reader: LiveReader | undefined;

  const made = (
    live: Partial<McpLiveOptions> = {},
    imports: DynamicModule[] = [],
    endpoint: object = {},
  ): Promise<TestApp> => {
    const guarded = { unguarded: 'loopback' as const, ...live };
    return TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, ...endpoint }), McpLiveModule.forRoot(guarded), ...imports],
      providers: [WholeShop, ShopTools],
    });
  };
  /** For what does not depend on earlier calls. */
  const together = sharedApp(() => made());
  const share = async () => {
    app = await together();
  };
  const start = async (...options: Parameters<typeof made>): Promise<void> => {
    app = own = await made(...options);
  };
  afterEach(async () => {
    vi.unstubAllEnvs();
    reader?.close();
    reader = undefined;
    await own?.close();
    own = undefined;
  });
  const watch = async () => {
    reader = await LiveReader.open(`${app.base}/mcp-live`);
  };
  async function details(kind: string, key: string, headers: Record<string, string> = {}, page = 'mcp-live') {
    const query = new URLSearchParams({ endpoint: '0', kind, key }).toString();
    const response = await send(`${app.base}/${page}/details?${query}`, { method: 'GET', headers });
    return { status: response.status, body: await response.json() };
  }
  const modern = () => new ModernClient(app.client().url);
  /** Returns the record of the call that ended last. */
  async function latestCall(what: string) {
    const seen = await reader!.until(({ events }) => events.some((event) => event.what === what && event.call));
    const { call } = seen.events.findLast((event) => event.what === what)!;
    return details('call', call);
  }

  it('the live page shows of a tool: its description and schema, its guards, its weight, and how long its calls took', async () => {
    await start();
    await modern().ask('tools/call', { name: 'place_order', arguments: ORDER });
    const { body } = await details('tool', 'place_order');
    expect(body).toMatchObject({
      wire: {
        description: expect.stringContaining('Places an order'),
        inputSchema: { required: ['customer', 'lines'] },
      },
      origin: expect.stringContaining('WholeShop.place'),
      guards: ['StaffOnly'],
      endpointGuards: [],
      histogram: { counts: expect.arrayContaining([1]) },
    });
    expect(body.tokens).toBeGreaterThan(100);
    expect(body.tokens).toBeLessThan(1_000);
  });

  it('the live page shows of a tool: the scopes that it needs, and the advice of the doctor', async () => {
    await share();
    const { body } = await details('tool', 'fail');
    expect(body.scopes).toEqual(['shop:write']);
    expect(body.guards).toEqual([]);
    expect(body.advice).toContainEqual(expect.objectContaining({ rule: 'no-description', tool: 'fail' }));
    expect(body.advice.every(({ tool }: { tool: string }) => tool === 'fail')).toBe(true);
  });

  it.each([
    ['resource', 'shop://terms', { wire: { name: 'terms' } }],
    ['template', 'shop://orders/{id}', { wire: { name: 'order' } }],
    ['prompt', 'apology', { wire: { arguments: [{ name: 'customer', required: true }] } }],
  ])('the live page shows of a %s: what lists have of it', async (kind, key, body) => {
    await share();
    expect((await details(kind, key)).body).toMatchObject(body);
  });

  it.each([
    ['tool', 'nothing'],
    ['tool', '__proto__'],
    ['session', 'nothing'],
    ['call', '__proto__'],
    ['constructor', 'x'],
    ['', ''],
  ])('the live page has nothing of the %s "%s"', async (kind, key) => {
    await share();
    expect(await details(kind, key)).toMatchObject({ status: 404, body: { error: 'UNKNOWN' } });
  });

  it('the live page shows of a session: what its client declared, its settings and streams, and never its id', async () => {
    await share();
    const client = app.client();
    await client.initialize('2025-11-25', { elicitation: {}, sampling: {} });
    const stream = await client.listen();
    await (await client.post({ jsonrpc: '2.0', id: 9, method: 'logging/setLevel', params: { level: 'error' } })).text();
    await (
      await client.post({ jsonrpc: '2.0', id: 10, method: 'resources/subscribe', params: { uri: 'shop://terms' } })
    ).text();
    await watch();
    const { body } = await details('session', reader!.row('sessions')['key']);
    expect(body).toMatchObject({
      capabilities: { elicitation: {}, sampling: {} },
      logLevel: 'error',
      subscriptions: 1,
      streams: [{ standalone: true, readers: 1, delivered: 0, last: 0 }],
    });
    expect(JSON.stringify(body)).not.toContain(client.sessionId);
    expect(JSON.stringify(body)).not.toContain('shop://terms');
    await client.delete();
    await stream.end();
  });

  it('the live page shows of a call: its stages, its trace and what it sent, without any data of its caller', async () => {
    await share();
    await watch();
    const meta = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01` };
    const options = { progressToken: 1, logLevel: 'debug', meta };
    await modern().ask('tools/call', { name: 'place_order', arguments: ORDER }, options);
    const { body } = await latestCall('place_order');
    expect(body).toMatchObject({ running: false, outcome: 'ok', traceId: TRACE, payloads: false });
    expect(body.steps.map(({ what, text }: { what: string; text: string }) => `${what} ${text}`)).toEqual([
      'progress 1 of 2',
      'log info',
      'progress 2 of 2',
    ]);
    const { entered, returned, ended } = body.stages;
    expect([entered, returned, ended].toSorted((one, other) => one - other)).toEqual([entered, returned, ended]);
    for (const secret of ['a@example.com', 'hidden', 'invoice', 'A-1042', 'reserved'])
      expect(JSON.stringify(body)).not.toContain(secret);
  });

  it('the live page shows with payloads: arguments, result and messages, redacted as records of the audit log are', async () => {
    await start({ payloads: true }, [
      McpAuditModule.forRoot({ redact: ['TOKEN'], sink: { write() {} } }),
      McpAuditModule.forRoot({ redact: ['customer'], sink: { write() {} } }),
    ]);
    await modern().ask(
      'tools/call',
      { name: 'place_order', arguments: ORDER },
      { progressToken: 1, logLevel: 'debug' },
    );
    // It was recorded although no page was open.
    await watch();
    const { body } = await latestCall('place_order');
    expect(body.arguments).toEqual({ ...ORDER, customer: '[redacted]', token: '[redacted]' });
    expect(body.result).toMatchObject({ structuredContent: { id: 'A-1042', lines: 1 } });
    expect(body.steps[0]).toMatchObject({ what: 'progress', data: { message: 'Reserving the articles' } });
    expect(body.steps[1]).toMatchObject({ what: 'log', data: { data: { reserved: 1 } } });
    expect(JSON.stringify(body)).not.toMatch(/hidden value|a@example\.com/);
  });

  it('with payloads: a name in a text that is JSON is redacted, and long values are cut', async () => {
    await start({ payloads: true });
    await watch();
    const id = 'x'.repeat(20_000);
    await (await app.client().initialize()).delete();
    await modern().ask('tools/call', { name: 'leak', arguments: { id } });
    const { body } = await latestCall('leak');
    expect(JSON.stringify(body).length).toBeLessThan(18_000);
    expect(JSON.stringify(body.result)).toContain('[redacted]');
    expect(JSON.stringify(body)).not.toContain('letmein');
  });

  it('the live page shows with payloads: the text of an error, and questions with their answers in order', async () => {
    await start({ payloads: true });
    await watch();
    const client = app.client();
    await client.initialize('2025-11-25', { elicitation: {} });
    await (await client.call('nothing')).text();
    expect((await latestCall('nothing')).body).toMatchObject({ error: expect.stringContaining('nothing') });

    const response = await client.call('return_order', { id: 'A-7' });
    const stream = response.sse();
    await stream.until(() => stream.messages.some(({ method }) => method === 'elicitation/create'));
    const { id } = stream.messages.find(({ method }) => method === 'elicitation/create')!;
    const result = { action: 'accept', content: { reason: 'late', percent: 50 } };
    await (await client.post({ jsonrpc: '2.0', id, result })).text();
    await stream.end();
    const { body } = await latestCall('return_order');
    expect(body.steps.map(({ what, text }: { what: string; text: string }) => `${what} ${text}`)).toEqual([
      'question elicitation/create',
      'answer accept',
    ]);
    expect(body.steps[1].data).toEqual(result);
    await client.delete();
  });

  it('a call that a page has not seen begin has its event alone', async () => {
    await start();
    await modern().ask('tools/call', { name: 'find_order', arguments: {} });
    await watch();
    expect(reader!.events.at(-1)).toMatchObject({ what: 'find_order', tool: 'tool find_order' });
    expect(reader!.events.at(-1)!['call']).toBeUndefined();
  });

  it('several pages of an app record calls each for itself, whatever others do', async () => {
    await start({}, [McpLiveModule.forRoot({ unguarded: 'loopback', path: 'other', payloads: true })]);
    const other = await LiveReader.open(`${app.base}/other`);
    await watch();
    const call = async () => modern().ask('tools/call', { name: 'find_order', arguments: ORDER });
    const seen = async (page: LiveReader, count: number): Promise<string> => {
      await page.until(({ events }) => events.filter(({ call }) => call).length === count);
      return String(page.events.at(-1)!['call']);
    };
    await call();
    const [mine, theirs] = [await seen(reader!, 1), await seen(other, 1)];
    expect((await details('call', mine)).body).toMatchObject({
      payloads: false,
      stages: { entered: expect.any(Number) },
    });
    reader!.close();
    await call();
    const second = await seen(other, 2);
    for (const key of [theirs, second]) {
      const { body } = await details('call', key, {}, 'other');
      expect(body).toMatchObject({
        payloads: true,
        stages: { entered: expect.any(Number), returned: expect.any(Number) },
      });
      expect(body.arguments).toMatchObject({ token: '[redacted]' });
    }
    other.close();
  });

  it.skipIf(QUICK)('what the page has opened keeps the records of the latest 200 calls', async () => {
    await start();
    await watch();
    const client = modern();
    // An update has the latest events alone: however slow the machine is, each of these is among them.
    for (let count = 1; count <= 205; count++) {
      await client.ask('tools/call', { name: 'find_order', arguments: {} });
      if (count % 41 === 0) await reader!.until(({ events }) => events.length >= count);
    }
    const keys = reader!.events.map(({ call }) => String(call));
    const found = await Promise.all([keys[0]!, keys[4]!, keys[5]!, keys[204]!].map((key) => details('call', key)));
    expect(found.map(({ status }) => status)).toEqual([404, 404, 200, 200]);
  });

  it('what the page has opened lists all tools, resources and prompts, called or not', async () => {
    await start();
    await watch();
    const { tools, offers } = reader!.first;
    expect([...tools.keys()]).toEqual(expect.arrayContaining(['tool place_order', 'tool find_order']));
    expect(tools.get('tool place_order')).toMatchObject({
      calls: 0,
      about: 'Places an order and answers with its number. The customer gets an invoice by mail within the hour.',
    });
    expect([...offers.keys()]).toEqual([
      'resource shop://terms',
      'resource shop://catalog',
      'template shop://orders/{id}',
      'prompt apology',
    ]);
  });

  describe('trying it', () => {
    const trial = async (headers: Record<string, string> = {}) => {
      const response = await send(`${app.base}/mcp-live/trial?endpoint=0`, { method: 'GET', headers });
      return response.json();
    };

    it('trying a tool on the live page is allowed where the endpoint admits the page, outside of production', async () => {
      await share();
      expect(await trial()).toEqual({ allowed: true });
    });

    it('trying a tool on the live page is off in production, unless it was turned on', async () => {
      vi.stubEnv('NODE_ENV', 'production');
      await start();
      expect(await trial()).toMatchObject({ allowed: false, refusal: expect.stringContaining('tryIt: true') });
      await app.close();
      await start({ tryIt: true });
      expect(await trial()).toEqual({ allowed: true });
    });

    it('trying a tool on the live page is off with tryIt: false', async () => {
      await start({ tryIt: false });
      expect(await trial()).toMatchObject({ allowed: false });
    });
  });

  it('what the page has opened asks the guards of the page first', async () => {
    await start({ unguarded: undefined, guards: [{ canActivate: () => false }] });
    expect((await details('tool', 'find_order')).status).toBe(403);
    expect((await send(`${app.base}/mcp-live/trial`, { method: 'GET' })).status).toBe(403);
  });

  it('another origin reads neither', async () => {
    await share();
    expect((await details('tool', 'find_order', { origin: 'https://evil.example' })).status).toBe(403);
  });
});
