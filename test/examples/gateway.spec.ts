import { Injectable } from '@nestjs/common';
import {
  image,
  McpArgs,
  McpCtx,
  type McpContext,
  McpRegistry,
  Prompt,
  Resource,
  ResourceTemplate,
  text,
  Tool,
} from 'nestjs-mcp-streamable';
import {
  createMcpTestClient,
  ManualClock,
  type McpTestClient,
  type McpTestClientOptions,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { McpAuditModule, type McpAuditRecord } from 'nestjs-mcp-streamable/audit';
import { z } from 'zod';
import { GatewayPlugin, REMOTES } from '../../examples/gateway/src/gateway/gateway.plugin.js';
import type { RemoteOptions } from '../../examples/gateway/src/gateway/remote.options.js';
import { gate, TestApp, type TestAppOptions } from '../support/app.js';
import { loneFetch } from '../support/ways.js';

const PNG = Buffer.from('iVBORw0KGgo=', 'base64');
const City = z.object({ city: z.string() });

/** The handlers of a remote server. */
@Injectable()
class Weather {
  readonly gate = gate();
  cancelled = 0;
  running = 0;
  @Tool({ name: 'forecast', description: 'Forecasts', inputSchema: City })
  forecast(@McpArgs() { city }: { city: string }): string {
    return `Sun in ${city}`;
  }
  @Tool({ name: 'map', description: 'Draws' })
  map() {
    return [text('A map'), image(PNG)];
  }
  @Tool({ name: 'slow', description: 'Waits' })
  async slow(@McpCtx() ctx: McpContext): Promise<string> {
    this.running++;
    ctx.signal.addEventListener('abort', () => this.cancelled++);
    for (let step = 1; step <= 3; step++) await ctx.progress(step, 3, `step ${step}`);
    await this.gate.promise;
    return 'at last';
  }
  @Tool({ name: 'book', description: 'Asks' })
  async book(@McpCtx() ctx: McpContext): Promise<string> {
    ctx.signal.addEventListener('abort', () => this.cancelled++);
    const answer = await ctx.elicit('seat', {
      message: 'Which seat?',
      requestedSchema: z.object({ seat: z.string() }),
    });
    return answer.action === 'accept' ? `Seat ${answer.content.seat}` : answer.action;
  }
  @Resource({ uri: 'weather://now', name: 'now', mimeType: 'text/plain' })
  now(): string {
    return 'sunny';
  }
  @ResourceTemplate({ uriTemplate: 'weather://{city}/today', name: 'today' })
  today(@McpArgs() { city }: { city: string }): string {
    return `sunny in ${city}`;
  }
  @Prompt({ name: 'plan', arguments: [{ name: 'city', required: true }] })
  plan(@McpArgs() { city }: { city: string }): string {
    return `Plan a day in ${city}`;
  }
}

const apps: TestApp[] = [];
const clients: McpTestClient[] = [];

async function remote(options: Partial<TestAppOptions> = {}): Promise<TestApp> {
  const app = await TestApp.start({
    adapter: 'fastify',
    port: true,
    server: undefined,
    providers: [Weather],
    ...options,
  });
  apps.push(app);
  return app;
}

async function gateway(given: readonly RemoteOptions[], options: Partial<TestAppOptions> = {}): Promise<TestApp> {
  const remotes = given.map((each) => ({ ...each, client: { fetch: loneFetch, ...each.client } }));
  const app = await TestApp.start({
    adapter: 'fastify',
    server: undefined,
    principal: (request: { headers: Record<string, string> }) => request.headers['x-user'],
    ...options,
    providers: [GatewayPlugin, { provide: REMOTES, useValue: remotes }, ...(options.providers ?? [])],
  });
  apps.unshift(app);
  return app;
}

async function clientOf(app: TestApp, user?: string, options: McpTestClientOptions = {}): Promise<McpTestClient> {
  const client = await createMcpTestClient(app.app, { ...(user && { headers: { 'x-user': user } }), ...options });
  clients.push(client);
  return client;
}

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  for (const app of apps.splice(0)) await app.stop();
});

const accept = { elicit: () => ({ action: 'accept' as const, content: { seat: '4C' } }) };

describe.each(['legacy', 'modern'] as const)('the gateway for a client of the era %s', (era) => {
  describe.each([['legacy'], ['modern']] as const)('over a server of the era %s', (only) => {
    it('serves tools, resources, templates and prompts of a remote server', async () => {
      const { url } = await remote({ eras: only });
      const app = await gateway([{ name: 'weather', url }]);
      const client = await clientOf(app, 'ann', { era });
      const names = (await client.list.tools()).map(({ name }) => name);
      expect(names).toEqual(['weather_book', 'weather_forecast', 'weather_map', 'weather_slow']);
      expect((await client.callTool('weather_forecast', { city: 'Zurich' })).text).toBe('Sun in Zurich');
      expect((await client.callTool('weather_map')).content).toMatchObject([{ type: 'text' }, { type: 'image' }]);
      expect(await client.read('weather://now')).toMatchObject({ contents: [{ text: 'sunny' }] });
      expect(await client.read('weather://Bern/today')).toMatchObject({ contents: [{ text: 'sunny in Bern' }] });
      expect(JSON.stringify(await client.prompt('weather_plan', { city: 'Rome' }))).toContain('Plan a day in Rome');
    });

    it('asks the user of the call', async () => {
      const { url } = await remote({ eras: only });
      const app = await gateway([{ name: 'weather', url }]);
      const client = await clientOf(app, 'ann', { era, ...accept });
      expect((await client.callTool('weather_book')).text).toBe('Seat 4C');
    });
  });
});

describe('a question of a server of a 2025 revision', () => {
  it('expires, and the call is cancelled, when the user does not answer', async () => {
    const clock = new ManualClock();
    const weather = await remote({ eras: 'legacy' });
    const app = await gateway([{ name: 'weather', url: weather.url }], { clock });
    const ann = app.modern({ 'x-user': 'ann' });
    const call = { name: 'weather_book', arguments: {} };
    const capabilities = { elicitation: { form: {} } };
    const { result } = await ann.ask('tools/call', call, { capabilities });
    expect(result).toMatchObject({ resultType: 'input_required' });
    await clock.advance(600_000);
    await expect.poll(() => weather.app.get(Weather).cancelled).toBe(1);
    const { requestState, inputRequests } = result as { requestState: string; inputRequests: object };
    const answer = { action: 'accept', content: { seat: '4C' } };
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer]));
    const late = await ann.ask('tools/call', { ...call, requestState, inputResponses }, { capabilities });
    expect(JSON.stringify(late)).toContain('The question has expired');
  });
});

const namesOf = async (client: McpTestClient): Promise<string[]> => (await client.list.tools()).map(({ name }) => name);
/** Lets time pass until something has happened. */
async function whileTimePasses<T>(clock: ManualClock, happening: Promise<T>): Promise<T> {
  const running = new Set([happening]);
  const end = () => running.clear();
  happening.then(end, end);
  while (running.size > 0) await clock.advance(100);
  return happening;
}
/** A server that is away says so soon. */
const soon = { retryMs: 60_000, client: { reconnect: { firstDelayMs: 1, maxAttempts: 1 } } };

describe('a remote server behind the gateway', () => {
  it('a remote server is a clear error of its tools and one line in the log when it dies, and the rest of the list stays', async () => {
    const [dying, other] = [await remote(), await remote()];
    const app = await gateway([
      { name: 'dying', url: dying.url, listTtlMs: 0, ...soon },
      { name: 'other', url: other.url },
    ]);
    const client = await clientOf(app);
    const names = await namesOf(client);
    expect(names.filter((name) => name.startsWith('dying_'))).toHaveLength(4);
    apps.splice(apps.indexOf(dying), 1);
    await dying.shutDown();
    for (let time = 0; time < 2; time++) {
      const { text, isError } = await client.callTool('dying_forecast', { city: 'Bern' });
      expect([isError, text]).toEqual([true, expect.stringContaining('The server dying is away')]);
      expect(await namesOf(client)).toEqual(names);
    }
    expect((await client.callTool('other_forecast', { city: 'Bern' })).text).toBe('Sun in Bern');
    expect(app.log.texts('warn').filter((line) => line.includes('dying is away'))).toHaveLength(1);
  });

  it('a remote server is left out of lists while it hangs, and lists do not wait for it twice', async () => {
    const clock = new ManualClock();
    const other = await remote();
    const hangs = { fetch: () => new Promise<never>(() => {}) };
    const app = await gateway(
      [
        { name: 'hanging', url: other.url, client: hangs },
        { name: 'other', url: other.url },
      ],
      { clock },
    );
    const client = await clientOf(app);
    const listed = namesOf(client);
    await expect.poll(() => clock.pending).toBeGreaterThan(0);
    expect((await whileTimePasses(clock, listed)).every((name) => name.startsWith('other_'))).toBe(true);
    expect(await namesOf(client)).toHaveLength(4);
    expect(app.log.texts('warn').filter((line) => line.includes('hanging is away'))).toHaveLength(1);
  });

  it.each(['before it has answered', 'after it has answered'])(
    'is announced to clients when it is there again: it was away %s',
    async (when) => {
      const clock = new ManualClock();
      const weather = await remote({ eras: 'modern' });
      let isAway = when === 'before it has answered';
      const fetch = (...request: Parameters<typeof loneFetch>) =>
        isAway ? Promise.reject(new TypeError('It is away.')) : loneFetch(...request);
      const app = await gateway([{ name: 'weather', url: weather.url, client: { fetch } }], { clock });
      const client = await clientOf(app, 'ann', { era: 'legacy' });
      let announced = 0;
      client.client.setNotificationHandler('notifications/tools/list_changed', () => void announced++);
      await whileTimePasses(clock, namesOf(client));
      isAway = true;
      await clock.advance(60_000);
      expect(await whileTimePasses(clock, namesOf(client))).toHaveLength(when === 'before it has answered' ? 0 : 4);
      announced = 0;
      isAway = false;
      const announcedAfter = async (ms: number): Promise<number> => {
        await clock.advance(ms);
        return announced;
      };
      await expect.poll(() => announcedAfter(1_000)).toBeGreaterThan(0);
      expect(await namesOf(client)).toHaveLength(4);
      expect(app.log.texts('log').filter((line) => line.includes('weather is there again'))).toHaveLength(1);
    },
  );

  it.each(['legacy', 'modern'] as const)(
    'announces changes of its lists to clients of the gateway (%s)',
    async (eras) => {
      const weather = await remote({ eras });
      const app = await gateway([{ name: 'weather', url: weather.url }]);
      const client = await clientOf(app, 'ann', { era: 'legacy' });
      expect(await namesOf(client)).toHaveLength(4);
      let announced = 0;
      client.client.setNotificationHandler('notifications/tools/list_changed', () => void announced++);
      const registry = weather.app.get(McpRegistry, { strict: false });
      registry.registerTool({ name: 'added', handler: () => 'new' });
      await expect.poll(() => announced).toBeGreaterThan(0);
      expect(await namesOf(client)).toContain('weather_added');
      expect((await client.callTool('weather_added')).text).toBe('new');
    },
  );

  it('a remote server may flood the gateway with progress and handlers', async () => {
    const weather = await remote();
    const registry = weather.app.get(McpRegistry, { strict: false });
    const handler = async (_args: object, ctx: McpContext): Promise<string> => {
      for (let step = 1; step <= 2_000; step++) await ctx.progress(step, 2_000);
      return 'done';
    };
    for (let index = 0; index < 300; index++) registry.registerTool({ name: `a${index}`, handler });
    const app = await gateway([{ name: 'weather', url: weather.url, maxHandlers: 100 }]);
    const client = await clientOf(app);
    const names = await namesOf(client);
    expect(names).toHaveLength(100);
    expect(app.log.texts('warn').join()).toContain('the first 100 are served');
    const { text, progress } = await client.callTool(names.find((name) => name.startsWith('weather_a'))!);
    expect(text).toBe('done');
    expect(progress.length).toBeGreaterThan(1_000);
  });

  it.each(['legacy', 'modern'] as const)(
    'gets the cancellation of a call, and sends its progress (%s)',
    async (era) => {
      const weather = await remote();
      const app = await gateway([{ name: 'weather', url: weather.url }]);
      const client = await clientOf(app, 'ann', { era });
      const { gate, ...state } = weather.app.get(Weather);
      expect(state.cancelled).toBe(0);
      const abort = new AbortController();
      const seen: unknown[] = [];
      const call = client.callTool(
        'weather_slow',
        {},
        {
          signal: abort.signal,
          onprogress: ({ message }) => void (seen.push(message) === 3 && abort.abort()),
        },
      );
      await expect(call).rejects.toThrow(/abort/i);
      await expect.poll(() => weather.app.get(Weather).cancelled).toBe(1);
      expect(seen).toEqual(['step 1', 'step 2', 'step 3']);
      gate.open();
    },
  );
});

/** Says who calls; its tool `secret` is for ann. */
@Injectable()
class Accounts {
  @Tool({ name: 'whoami', description: 'Says who you are' })
  whoami(@McpCtx() ctx: McpContext): string {
    return String(ctx.principal);
  }
}

describe('the users of the gateway', () => {
  const principal = ({ headers }: { headers: Record<string, string> }): string | undefined =>
    /^Bearer token of (\w+)$/.exec(headers['authorization'] ?? '')?.[1];

  it('the users have sessions, lists and credentials of their own at a remote server', async () => {
    const server = await remote({ providers: [Accounts], principal });
    const registry = server.app.get(McpRegistry, { strict: false });
    const visible = (caller: { principal: string | undefined }): boolean => caller.principal === 'ann';
    registry.registerTool({ name: 'secret', handler: (_args, ctx) => `of ${ctx.principal}`, visible });
    const tokens = new Map([
      ['ann', 'token of ann'],
      ['gus', 'token of gus'],
    ]);
    const token = ({ principal: user }: { principal: string }): string | undefined => tokens.get(user);
    const app = await gateway([{ name: 'far', url: server.url, token }]);
    const [ann, gus, eve, anonymous] = [
      await clientOf(app, 'ann'),
      await clientOf(app, 'gus'),
      await clientOf(app, 'eve'),
      await clientOf(app),
    ];
    const asked = await Promise.all(
      Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? ann : gus).callTool('far_whoami')),
    );
    expect([await namesOf(ann), await namesOf(gus)]).toEqual([['far_secret', 'far_whoami'], ['far_whoami']]);
    await expect(gus.callTool('far_secret')).rejects.toThrow('not found');
    expect(asked.map(({ text }) => text)).toEqual(
      Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? 'ann' : 'gus')),
    );
    for (const none of [eve, anonymous]) {
      expect(await namesOf(none)).toEqual([]);
      await expect(none.callTool('far_whoami')).rejects.toThrow('not found');
    }
    tokens.delete('gus');
    expect(await namesOf(gus)).toEqual([]);
    await expect(gus.callTool('far_whoami')).rejects.toThrow('not found');
    expect((await ann.callTool('far_whoami')).text).toBe('ann');
  });
});

describe('the app of the gateway', () => {
  it('the gateway has sessions at a remote server for users that call it, and closes those of others', async () => {
    const clock = new ManualClock();
    const server = await remote({ eras: 'legacy', providers: [Accounts] });
    const token = ({ principal }: { principal: string }): string => principal;
    const app = await gateway([{ name: 'far', url: server.url, token, idleMs: 60_000 }], { clock });
    const [ann, gus] = [await clientOf(app, 'ann'), await clientOf(app, 'gus')];
    await ann.callTool('far_whoami');
    await gus.callTool('far_whoami');
    expect(await server.service.counts()).toMatchObject({ sessions: 2 });
    await clock.advance(50_000);
    await ann.callTool('far_whoami');
    await clock.advance(50_000);
    await ann.callTool('far_whoami');
    await expect.poll(async () => (await server.service.counts()).sessions).toBe(1);
    await gus.callTool('far_whoami');
    expect(await server.service.counts()).toMatchObject({ sessions: 2 });
  });

  it('limits how many calls of a remote tool run at a time, of all users', async () => {
    const weather = await remote();
    const token = ({ principal }: { principal: string }): string => principal;
    const app = await gateway([{ name: 'weather', url: weather.url, token, tool: () => ({ maxConcurrent: 1 }) }]);
    const [ann, gus] = [await clientOf(app, 'ann'), await clientOf(app, 'gus')];
    const handlers = weather.app.get(Weather);
    const first = ann.callTool('weather_slow');
    await expect.poll(() => handlers.running).toBe(1);
    const second = gus.callTool('weather_slow');
    await gus.callTool('weather_map');
    expect(handlers.running).toBe(1);
    handlers.gate.open();
    expect([(await first).text, (await second).text]).toEqual(['at last', 'at last']);
    expect(handlers.running).toBe(2);
  });

  it('decides about tools of remote servers: prefix, off switch, questions, limits, audit', async () => {
    const records: McpAuditRecord[] = [];
    const weather = await remote();
    const app = await gateway(
      [
        {
          name: 'weather',
          url: weather.url,
          prefix: 'w.',
          tool: ({ name }) => ({
            ...(name === 'forecast' && { confirm: 'Look at {city}?' }),
            ...(name === 'slow' && { timeoutMs: 50, maxConcurrent: 1 }),
          }),
        },
      ],
      { module: { imports: [McpAuditModule.forRoot({ sink: { write: (record) => void records.push(record) } })] } },
    );
    const asked: string[] = [];
    const elicit = ({ message }: { message: string }) => {
      asked.push(message);
      return { action: 'accept' as const, content: {} };
    };
    const client = await clientOf(app, 'ann', { elicit });
    expect((await client.callTool('w.forecast', { city: 'Bern' })).text).toBe('Sun in Bern');
    expect(asked).toEqual(['Look at "Bern"?']);
    const late = await client.callTool('w.slow');
    expect([late.isError, late.text]).toEqual([true, expect.stringContaining('50 ms')]);
    await expect.poll(() => weather.app.get(Weather).cancelled).toBe(1);
    weather.app.get(Weather).gate.open();
    const registry = app.app.get(McpRegistry, { strict: false });
    await registry.disable('w.map', { reason: 'The printer is broken.' });
    expect(await namesOf(client)).not.toContain('w.map');
    expect((await client.callTool('w.map')).text).toContain('The printer is broken.');
    await expect
      .poll(() => records)
      .toContainEqual(
        expect.objectContaining({
          principal: 'ann',
          name: 'w.forecast',
          outcome: 'served',
          arguments: { city: 'Bern' },
        }),
      );
  });
});
