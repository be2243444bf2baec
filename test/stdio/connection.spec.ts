import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Scope,
  UnauthorizedException,
  UseGuards,
} from '@nestjs/common';
import type { INestApplicationContext } from '@nestjs/common';
import { APP_GUARD, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  McpArgs,
  McpCtx,
  type McpContext,
  McpExecutionContext,
  McpSessionService,
  McpStreamableModule,
  type McpStreamableOptions,
  Resource,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { serveMcpStdio } from 'nestjs-mcp-streamable/stdio';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { gate } from '../support/app.js';
import { LineClient } from './line-client.js';

const serverInfo = { name: 'test', version: '1.0.0' };

@Injectable()
class KeyGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers, user } = context
      .switchToHttp()
      .getRequest<{ headers: { key?: string }; user?: { name: string } }>();
    if (headers.key === 'open' || user?.name === McpExecutionContext.create(context).getName()) return true;
    throw new UnauthorizedException('The key is missing.');
  }
}

@Injectable()
class Waits {
  reached = gate();
  opened = gate();
  ended: string[] = [];
  destroyed = 0;

  onModuleDestroy(): void {
    this.destroyed++;
  }
}

@Injectable()
class Tools {
  constructor(@Inject(Waits) private readonly waits: Waits) {}

  @Tool({ name: 'echo', inputSchema: z.object({ text: z.string() }) })
  echo(@McpArgs('text') text: string): string {
    return text;
  }

  @Tool({ name: 'who' })
  who(@McpCtx() ctx: McpContext): string {
    return `${ctx.principal} ${ctx.session?.clientInfo.name}`;
  }

  @Tool({ name: 'secret' })
  @UseGuards(KeyGuard)
  secret(): string {
    return 'in';
  }

  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = z.object({ name: z.string() });
    const { action, content } = await ctx.elicit('name', { message: 'Your name?', requestedSchema });
    return `${action} ${content?.['name']}`;
  }

  @Tool({ name: 'wait' })
  async wait(@McpCtx() ctx: McpContext): Promise<string> {
    ctx.signal.addEventListener('abort', () => {
      this.waits.ended.push(String(ctx.signal.reason?.message ?? ctx.signal.reason));
      this.waits.opened.open();
    });
    await ctx.progress(1, 2);
    ctx.closeStream();
    await ctx.progress(2, 2);
    this.waits.reached.open();
    await this.waits.opened.promise;
    return 'through';
  }

  @Resource({ uri: 'test://note', name: 'note' })
  note(): string {
    return 'a note';
  }
}

let app: INestApplicationContext;
let clock: ManualClock;

async function start(options: Partial<McpStreamableOptions> = {}): Promise<INestApplicationContext> {
  clock = new ManualClock();
  const testing = Test.createTestingModule({
    imports: [McpStreamableModule.forRoot({ serverInfo, ...options })],
    providers: [Tools, Waits, KeyGuard],
  });
  app = await testing.overrideProvider(McpClock).useValue(clock).compile();
  return app;
}

const NOTHING = { sessions: 0, live: 0, inFlight: 0, outbound: 0, streams: 0, readers: 0, subscriptions: 0, logs: 0 };

afterEach(async () => {
  await app.close();
  expect(await app.get(McpSessionService).counts()).toMatchObject(NOTHING);
  expect(clock.pending).toBe(0);
});

const text = (answer: { result: { content: { text: string }[] } }): string => answer.result.content[0]!.text;
const call = (name: string, args: object = {}) => ({ name, arguments: args });

describe('lines of the input', () => {
  it('L1: lines of the input are read however they are cut into chunks, with CRLF, blank ones between them, and without an end at the end of the input', async () => {
    const client = await LineClient.of(await start());
    const line = (id: number, said: string): string =>
      JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: call('echo', { text: said }) });
    await client.initialize();
    const bytes = Buffer.from(`\r\n\n  \n${line(11, 'größer 😀')}\r\n${line(12, 'two')}\n${line(13, 'last')}`);
    for (const byte of bytes) client.write(Buffer.of(byte));
    client.input.end();
    expect(text(await client.answer(11))).toBe('größer 😀');
    expect(text(await client.answer(12))).toBe('two');
    expect(text(await client.answer(13))).toBe('last');
    await client.server.closed;
  });

  it('L1: lines of the input that are no messages are answered with an error, and what follows is served', async () => {
    const client = await LineClient.of(await start({ maxBodyBytes: 2_000 }));
    await client.initialize();
    const before = client.messages.length;
    const wrong = ['nonsense', '{"a":', '[]', '1', '{"jsonrpc":"1.0","id":7,"method":"ping"}', 'x'.repeat(5_000)];
    for (const each of wrong) client.write(`${each}\n`);
    client.write(Buffer.from([0xff, 0xfe, 0x0a]));
    client.notify('notifications/no/such');
    client.send({ id: 'unknown', result: {} });
    expect(text(await client.answer(client.request('tools/call', call('echo', { text: 'on' }))))).toBe('on');
    const errors = client.messages.slice(before, -1);
    expect(errors.map(({ id, error }) => [id, error.code])).toEqual([
      [null, -32700],
      [null, -32700],
      [null, -32600],
      [null, -32600],
      [7, -32600],
      [null, -32000],
      [null, -32700],
    ]);
    expect(errors[5].error.message).toContain('2000 bytes');
    await client.end();
  });

  it('E16: lines of the input with many values are answered with an error for their request, and what follows is served', async () => {
    const client = await LineClient.of(await start({ maxBodyValues: 1_000 }));
    await client.initialize();
    const list = Array.from({ length: 1_000 }, () => 1);
    const { error } = await client.answer(client.request('tools/call', call('echo', { text: 'x', list })));
    expect(error).toMatchObject({ code: -32000, message: expect.stringContaining('"maxBodyValues"') });
    expect(text(await client.answer(client.request('tools/call', call('echo', { text: 'on' }))))).toBe('on');
    await client.end();
  });

  it('lines of the input are all answered once when the client sends a flood of them', async () => {
    const client = await LineClient.of(await start());
    await client.initialize();
    const ids = Array.from({ length: 500 }, (_, at) => `flood-${at}`);
    for (const id of ids) client.request('ping', {}, id);
    await expect.poll(() => client.messages.length).toBe(ids.length + 1);
    expect(client.messages.slice(1).map(({ id }) => id)).toEqual(ids);
    await client.end();
  });

  it('L4: a client that does not read its answers is not read from, and misses none', async () => {
    const client = await LineClient.of(await start(), {}, { reads: false, highWaterMark: 1_000 });
    client.request('initialize', {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'slow', version: '1.0.0' },
    });
    const said = 'x'.repeat(500);
    for (let id = 100; id < 200; id++) client.request('tools/call', call('echo', { text: said }), id);
    await expect.poll(() => client.input.isPaused()).toBe(true);
    client.read();
    await client.answer(199);
    expect(client.messages).toHaveLength(101);
    await client.end();
  });
});

describe('a legacy client', () => {
  it('L2: a legacy client has a session of its own: log level, changes, its principal; and it ends with the input', async () => {
    const client = await LineClient.of(await start(), { principal: 'anna' });
    const { result } = await client.initialize();
    expect(result).toMatchObject({ protocolVersion: '2025-11-25', serverInfo });
    const service = app.get(McpSessionService);
    expect(await service.list()).toMatchObject([{ principal: 'anna', clientInfo: { name: 'lines' } }]);
    expect(text(await client.answer(client.request('tools/call', call('who'))))).toBe('anna lines');
    await client.answer(client.request('resources/subscribe', { uri: 'test://note' }));
    await service.resourceUpdated('test://note');
    await client.next({ method: 'notifications/resources/updated', params: { uri: 'test://note' } });
    await client.end();
  });

  it('L2: a legacy client that sends all at once is answered in order', async () => {
    const client = await LineClient.of(await start());
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
    client.request('initialize', params, 1);
    client.notify('notifications/initialized');
    client.request('tools/call', call('who'), 2);
    client.input.end();
    await client.server.closed;
    expect(client.messages.map(({ id }) => id)).toEqual([1, 2]);
  });

  it('L2: a legacy client that calls before initialize, or initializes twice, is told that initialize comes first and that there is one session', async () => {
    const client = await LineClient.of(await start());
    expect((await client.answer(client.request('tools/list'))).error).toMatchObject({
      code: -32600,
      message: expect.stringContaining('before "initialize"'),
    });
    await client.initialize();
    const second = client.request('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} });
    expect((await client.answer(second)).error).toMatchObject({ code: -32600 });
    await client.end();
  });

  it('L2: a legacy client is asked questions, and reads a stream to its end though the handler closes it', async () => {
    const client = await LineClient.of(await start());
    await client.initialize({ elicitation: {} });
    const asking = client.request('tools/call', call('ask'));
    const { id } = await client.next({ method: 'elicitation/create' });
    client.send({ id, result: { action: 'accept', content: { name: 'Anna' } } });
    expect(text(await client.answer(asking))).toBe('accept Anna');
    const waiting = client.request('tools/call', { ...call('wait'), _meta: { progressToken: 'p' } });
    await app.get(Waits).reached.promise;
    app.get(Waits).opened.open();
    expect(text(await client.answer(waiting))).toBe('through');
    const progress = client.messages.filter(({ method }) => method === 'notifications/progress');
    expect(progress.map(({ params }) => params.progress)).toEqual([1, 2]);
    await client.end();
  });

  it('L3: a legacy client cancels a call, which is not answered', async () => {
    const client = await LineClient.of(await start());
    await client.initialize();
    const waiting = client.request('tools/call', call('wait'));
    await app.get(Waits).reached.promise;
    client.notify('notifications/cancelled', { requestId: waiting, reason: 'enough' });
    await expect.poll(() => app.get(Waits).ended).toEqual(['enough']);
    await client.answer(client.request('ping'));
    expect(client.messages.some(({ id }) => id === waiting)).toBe(false);
    await client.end();
  });

  it('L5: a legacy client whose session the app ends gets the end of the output', async () => {
    const client = await LineClient.of(await start());
    await client.initialize();
    await app.get(McpSessionService).terminateAll();
    await client.server.closed;
    expect(client.input.isPaused()).toBe(true);
  });
});

describe('a modern client', () => {
  it('L2: a modern client discovers, calls, and is asked by results', async () => {
    const client = await LineClient.of(await start(), { principal: 'anna' });
    const { result } = await client.answer(client.modern('server/discover'));
    expect(result).toMatchObject({ resultType: 'complete', supportedVersions: expect.arrayContaining(['2026-07-28']) });
    expect(text(await client.answer(client.modern('tools/call', call('who'))))).toBe('anna undefined');
    const asked = await client.answer(client.modern('tools/call', call('ask'), { elicitation: { form: {} } }));
    expect(asked.result).toMatchObject({ resultType: 'input_required', inputRequests: { name: {} } });
    const { requestState } = asked.result;
    const inputResponses = { name: { action: 'accept', content: { name: 'Anna' } } };
    const again = { ...call('ask'), inputResponses, requestState };
    expect(text(await client.answer(client.modern('tools/call', again, { elicitation: { form: {} } })))).toBe(
      'accept Anna',
    );
    await client.end();
  });

  it('L2, L3: a modern client cancels a call by a notification, which is not answered, and its id is free', async () => {
    const client = await LineClient.of(await start());
    const waiting = client.modern('tools/call', call('wait'));
    await app.get(Waits).reached.promise;
    expect((await client.answer(client.modern('ping', {}, {}, waiting))).error).toMatchObject({ code: -32600 });
    client.notify('notifications/cancelled', { requestId: waiting });
    await expect.poll(() => app.get(Waits).ended).toHaveLength(1);
    client.messages.length = 0;
    expect(text(await client.answer(client.modern('tools/call', call('who'), {}, waiting)))).toBe(
      'undefined undefined',
    );
    await client.end();
  });

  it('L3: a modern client subscribes to changes until it cancels, and is told when the app closes', async () => {
    const client = await LineClient.of(await start());
    const filter = { notifications: { resourceSubscriptions: ['test://note'] } };
    const [first, second] = [
      client.modern('subscriptions/listen', filter),
      client.modern('subscriptions/listen', filter),
    ];
    const of = (id: unknown) => ({ 'io.modelcontextprotocol/subscriptionId': id });
    await expect.poll(() => client.messages.map(({ params }) => params._meta)).toEqual([of(first), of(second)]);
    const service = app.get(McpSessionService);
    await service.resourceUpdated('test://note');
    await expect.poll(() => client.messages).toHaveLength(4);
    client.notify('notifications/cancelled', { requestId: first });
    await expect.poll(() => service.nodeCounts().subscriptions).toBe(1);
    await service.resourceUpdated('test://note');
    await expect.poll(() => client.messages).toHaveLength(5);
    await app.close();
    expect(client.messages.at(-1)).toMatchObject({ id: second, result: { resultType: 'complete' } });
    await client.server.closed;
  });

  it('a modern client that names a revision unknown to the server is refused', async () => {
    const client = await LineClient.of(await start());
    client.send({
      id: 1,
      method: 'tools/list',
      params: { _meta: { 'io.modelcontextprotocol/protocolVersion': '2030-01-01' } },
    });
    expect((await client.answer(1)).error.code).toBeLessThan(-32000);
    await client.end();
  });
});

describe('an endpoint', () => {
  it('an endpoint of one era tells clients of the other era which revisions it serves', async () => {
    const legacy = await LineClient.of(await start({ eras: 'legacy' }));
    const { error } = await legacy.answer(legacy.modern('server/discover'));
    expect(error).toMatchObject({ code: -32022, data: { supported: expect.arrayContaining(['2025-11-25']) } });
    await legacy.initialize();
    await legacy.end();
    const modern = await LineClient.of(await start({ eras: 'modern' }));
    expect((await modern.initialize()).error).toMatchObject({ code: -32022, data: { supported: ['2026-07-28'] } });
    await modern.end();
  });

  it('an endpoint without sessions serves both eras', async () => {
    const client = await LineClient.of(await start({ sessions: 'off' }));
    expect((await client.initialize()).result).toMatchObject({ serverInfo });
    expect(text(await client.answer(client.request('tools/call', call('echo', { text: 'x' }))))).toBe('x');
    await client.end();
  });

  it('L3: an endpoint without sessions cancels a call, in both eras', async () => {
    const client = await LineClient.of(await start({ sessions: 'off' }));
    for (const request of [client.request, client.modern]) {
      const waits = app.get(Waits);
      [waits.reached, waits.opened, waits.ended] = [gate(), gate(), []];
      const waiting = request.call(client, 'tools/call', call('wait'));
      await waits.reached.promise;
      client.notify('notifications/cancelled', { requestId: waiting });
      await expect.poll(() => waits.ended).toHaveLength(1);
      await client.answer(client.request('ping'));
      expect(client.messages.some(({ id }) => id === waiting)).toBe(false);
    }
    await client.end();
  });

  it('an endpoint runs the guards of its handlers, which find the object given as the request, and no header', async () => {
    const closed = await LineClient.of(await start());
    await closed.initialize();
    const denied = { message: 'The key is missing.' };
    expect((await closed.answer(closed.request('tools/call', call('secret')))).error).toMatchObject(denied);
    expect((await closed.answer(closed.modern('tools/call', call('secret')))).error).toMatchObject(denied);
    await closed.end();
    for (const request of [{ headers: { key: 'open' } }, { user: { name: 'secret' } }]) {
      const open = await LineClient.of(await start(), { request });
      expect(text(await open.answer(open.modern('tools/call', call('secret'))))).toBe('in');
      await open.end();
    }
  });

  it('an endpoint runs global guards and providers of request scope around handlers, with a request for each message', async () => {
    const seen: unknown[] = [];
    class Everywhere implements CanActivate {
      canActivate(context: ExecutionContext): boolean {
        seen.push(context.switchToHttp().getRequest());
        return true;
      }
    }
    @Injectable({ scope: Scope.REQUEST })
    class Scoped {
      constructor(@Inject(REQUEST) private readonly request: { user: string }) {}

      @Tool({ name: 'user' })
      user(): string {
        return `${this.request.user} ${seen.includes(this.request)}`;
      }
    }
    clock = new ManualClock();
    const testing = Test.createTestingModule({
      imports: [McpStreamableModule.forRoot({ serverInfo })],
      providers: [Scoped, { provide: APP_GUARD, useClass: Everywhere }],
    });
    app = await testing.overrideProvider(McpClock).useValue(clock).compile();
    const client = await LineClient.of(app, { request: { user: 'anna' } });
    for (let round = 0; round < 2; round++) {
      expect(text(await client.answer(client.modern('tools/call', call('user'))))).toBe('anna true');
    }
    expect(seen).toHaveLength(2);
    expect(seen[0]).not.toBe(seen[1]);
    await client.end();
  });

  it('an endpoint with tokens over HTTP starts without HTTP, and knows the scopes of the token that it was given', async () => {
    class Notes {
      @Tool({ name: 'write' })
      @RequireScopes('notes:write')
      write(@McpCtx() ctx: McpContext): string {
        return ctx.auth!.clientId;
      }
    }
    const verifier = { verifyAccessToken: () => Promise.reject(new Error('There is no HTTP.')) };
    const auth = { resource: 'https://x.example/mcp', authorizationServers: ['https://login.example'], verifier };
    const token = { token: 't', clientId: 'me', scopes: ['notes:write'] };
    for (const request of [{}, { auth: token }]) {
      clock = new ManualClock();
      const testing = Test.createTestingModule({
        imports: [McpStreamableModule.forRoot({ serverInfo, auth })],
        providers: [Notes],
      });
      app = await testing.overrideProvider(McpClock).useValue(clock).compile();
      const client = await LineClient.of(app, { request });
      const { result, error } = await client.answer(client.modern('tools/call', call('write')));
      if ('auth' in request) expect(result.content).toMatchObject([{ text: 'me' }]);
      else expect(error.message).toContain('notes:write');
      await client.end();
    }
  });

  it('an endpoint is served beside the live page and the metrics, which see its calls', async () => {
    clock = new ManualClock();
    const registry = new Registry();
    const testing = Test.createTestingModule({
      imports: [
        McpStreamableModule.forRoot({ serverInfo }),
        McpLiveModule.forRoot({ unguarded: 'loopback' }),
        McpPrometheusModule.forRoot({ registry }),
      ],
      providers: [Tools, Waits, KeyGuard],
    });
    app = await testing.overrideProvider(McpClock).useValue(clock).compile();
    const client = await LineClient.of(app);
    await client.initialize();
    await client.answer(client.request('tools/call', call('who')));
    expect(await registry.metrics()).toMatch(/duration_seconds_count\{.*gen_ai_tool_name="who"\} 1/);
    await client.end();
  });

  it('an endpoint is chosen by its name when the app has several', async () => {
    const forRoot = (name: string) =>
      McpStreamableModule.forRoot({ serverInfo: { name, version: '1' }, name, path: name });
    clock = new ManualClock();
    const several = Test.createTestingModule({ imports: [forRoot('orders'), forRoot('admin')] });
    const other = await several.overrideProvider(McpClock).useValue(clock).compile();
    await expect(LineClient.of(other)).rejects.toThrow('The endpoints of the app are "orders", "admin".');
    const client = await LineClient.of(other, { endpoint: 'admin' });
    expect((await client.initialize()).result.serverInfo.name).toBe('admin');
    await client.end();
    const none = await Test.createTestingModule({}).compile();
    await expect(LineClient.of(none)).rejects.toThrow('no MCP endpoint');
    await start();
  });
});

describe('the end of a connection', () => {
  it.each(['legacy', 'modern'] as const)('L5: the end of the input lets calls end, for a while (%s)', async (era) => {
    const client = await LineClient.of(await start(), { drainMs: 500 });
    if (era === 'legacy') await client.initialize();
    const send = era === 'legacy' ? client.request.bind(client) : client.modern.bind(client);
    const waiting = send('tools/call', call('wait'));
    await app.get(Waits).reached.promise;
    client.input.end();
    await new Promise(setImmediate);
    app.get(Waits).opened.open();
    await client.server.closed;
    expect(text(await client.answer(waiting))).toBe('through');
    expect(app.get(Waits).ended).toEqual([]);
  });

  it.each(['legacy', 'modern'] as const)(
    'L5: the end of the input cancels calls that last longer (%s)',
    async (era) => {
      const client = await LineClient.of(await start(), { drainMs: 500 });
      if (era === 'legacy') await client.initialize();
      const send = era === 'legacy' ? client.request.bind(client) : client.modern.bind(client);
      send('tools/call', call('wait'));
      await app.get(Waits).reached.promise;
      client.input.end();
      await expect.poll(() => client.input.readableEnded).toBe(true);
      await clock.advance(500);
      await client.server.closed;
      expect(app.get(Waits).ended).toHaveLength(1);
    },
  );

  it.each(['legacy', 'modern'] as const)('L5: the end of the app answers what runs (%s)', async (era) => {
    const client = await LineClient.of(await start());
    if (era === 'legacy') await client.initialize();
    const send = era === 'legacy' ? client.request.bind(client) : client.modern.bind(client);
    const waiting = send('tools/call', call('wait'));
    await app.get(Waits).reached.promise;
    await app.close();
    expect((await client.answer(waiting)).error.message).toContain('shutting down');
    await client.server.closed;
    expect(client.input.listenerCount('data')).toBe(0);
  });

  it('L5: the end of the app lets calls end, and ends subscriptions after them', async () => {
    const client = await LineClient.of(await start({ drainMs: 1_000 }));
    const listening = client.modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
    const waiting = client.modern('tools/call', call('wait'));
    await app.get(Waits).reached.promise;
    const closing = app.close();
    app.get(Waits).opened.open();
    await closing;
    expect(client.messages.filter(({ id }) => id !== undefined).map(({ id }) => id)).toEqual([waiting, listening]);
    await client.server.closed;
  });

  it.each(['input', 'app'] as const)('L5: the end of the %s runs the hooks of the app once', async (what) => {
    const client = await LineClient.of(await start());
    await client.initialize();
    if (what === 'input') await client.end();
    else await app.close();
    await client.server.closed;
    expect(app.get(Waits).destroyed).toBe(1);
  });

  it.each(['input', 'output'] as const)('L5: the end of the %s while the app begins closes the app', async (which) => {
    const streams = { input: new PassThrough(), output: new PassThrough() };
    await start();
    await once(streams[which].destroy(), 'close');
    const { closed } = await serveMcpStdio(app, streams);
    await closed;
    expect(app.get(Waits).destroyed).toBe(1);
  });

  it('L5: the end of the output ends the connection, and cancels the calls on it', async () => {
    const client = await LineClient.of(await start());
    client.modern('tools/call', call('wait'));
    await app.get(Waits).reached.promise;
    client.output.destroy(new Error('EPIPE'));
    await client.server.closed;
    expect(app.get(Waits).ended).toHaveLength(1);
  });
});
