import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  ForbiddenException,
  Injectable,
  NotFoundException,
  ParseIntPipe,
  StreamableFile,
  UseGuards,
  UseInterceptors,
  type CanActivate,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { IsInt, IsString } from 'class-validator';
import {
  type McpHandlerSchema,
  McpArgs,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  McpMethod,
  type McpMethodOptions,
  McpSessionService,
  McpStreamableModule,
  type McpStreamableOptions,
  Tool,
} from 'nestjs-mcp-streamable';
import { map } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { HandlerCalls } from '../../src/core/methods/handler-calls.js';
import type { ServedMethod } from '../../src/core/plugins/served-method.js';
import { type McpEndpointHost, McpPlugin } from '../../src/core/plugins/mcp-plugin.js';
import { gate, ONE_ADAPTER, serverInfo, startFailure } from '../support/app.js';
import { eventually, officialClients, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';
import { loneFetch } from '../support/ways.js';

const SEARCH = 'com.example/search';
const UI = 'io.modelcontextprotocol/ui';
const declared = { extensions: { [SEARCH]: { fuzzy: true } } };

const Query = z.object({ text: z.string().min(1), limit: z.coerce.number().default(10) });

class CountDto {
  @IsString() text!: string;
  @IsInt() limit!: number;
}

let reached = gate();
let cancelled = gate();

@Injectable()
class StaffGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const call = McpExecutionContext.create(context);
    if (call.getArgs()['staff'] === true) return true;
    throw new ForbiddenException(`${call.getKind()} ${call.getName()} is for staff.`);
  }
}

@Injectable()
class SearchMethods {
  @McpMethod('acme/search', Query)
  search(@McpArgs() query: z.infer<typeof Query>, @McpCtx() ctx: McpContext): object {
    return { query, method: ctx.method, supports: ctx.clientSupports(SEARCH) ?? null };
  }
  @McpMethod('acme/count')
  count(@McpArgs() query: CountDto): object {
    return { isDto: query instanceof CountDto, limit: query.limit };
  }
  @UseGuards(StaffGuard)
  @McpMethod('acme/staff', { type: 'object' })
  staff(): object {
    return { staff: true };
  }
  @UseInterceptors({
    intercept: (_, next) => next.handle().pipe(map((result: object) => ({ ...result, wrapped: true }))),
  })
  @McpMethod('acme/piped', { type: 'object' })
  piped(@McpArgs('limit', ParseIntPipe) limit: number): object {
    return { limit };
  }
  @McpMethod('acme/slow')
  async slow(_params: object, ctx: McpContext): Promise<object> {
    await ctx.progress(1, 2, 'half');
    reached.open();
    ctx.signal.addEventListener('abort', () => cancelled.open());
    await cancelled.promise;
    return {};
  }
  @McpMethod('acme/nothing')
  nothing(): void {}
  @McpMethod('acme/text')
  text(): string {
    return 'no object';
  }
  @McpMethod('acme/file')
  file(): object {
    return new StreamableFile(Buffer.from('private'));
  }
  @McpMethod('acme/uncountable')
  uncountable(): object {
    return { count: 1n };
  }
  @McpMethod('acme/lost')
  lost(): never {
    throw new NotFoundException('There is no such index.');
  }
  @McpMethod('acme/asks')
  async asks(_params: object, ctx: McpContext): Promise<object> {
    return ctx.elicit('sure', { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } });
  }
  @McpMethod('acme/required', undefined, { extension: SEARCH })
  required(@McpCtx() ctx: McpContext): object {
    return { settings: ctx.clientSupports(SEARCH) };
  }
  @McpMethod('acme/modern', undefined, { era: 'modern', extension: 'com.example/modern-only' })
  modern(): object {
    return { era: 'modern' };
  }
  @McpMethod('acme/legacy', undefined, { era: 'legacy' })
  legacy(): object {
    return { era: 'legacy' };
  }
  @Tool({ name: 'supports' })
  supports(@McpCtx() ctx: McpContext): object {
    return { settings: ctx.clientSupports(SEARCH) ?? null, proto: ctx.clientSupports('__proto__/x') ?? null };
  }
}

/** A caller of one era: what it declares, and how it asks. */
const ERAS = {
  legacy: async (app: { client(): RawClient }, capabilities: object = {}) => {
    const client = await app.client().initialize(LATEST, capabilities);
    return async (method: string, params: Record<string, unknown> = {}) => {
      const response = await client.post({ jsonrpc: '2.0', id: 7, method, params });
      return { ...((await response.json()) as Answer), status: response.status };
    };
  },
  modern: async (app: { readonly url: string }, capabilities: object = {}) => {
    const client = new ModernClient(app.url);
    return async (method: string, params: Record<string, unknown> = {}) => {
      const response = await client.request(method, params, { id: 7, capabilities });
      return { ...((await response.json()) as Answer), status: response.status };
    };
  },
} as const;
interface Answer {
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

describe.each(ONE_ADAPTER.flatMap((adapter) => (['legacy', 'modern'] as const).map((era) => [adapter, era] as const)))(
  'methods of an extension, on %s, %s',
  (adapter, era) => {
    const start = testApps(adapter, { shared: true, providers: [SearchMethods, StaffGuard] });
    const connect = ERAS[era];

    it('X3: methods of an extension are served with checked params, and the context of the call', async () => {
      const ask = await connect(await start(), declared);
      const { result } = await ask('acme/search', { text: 'tea', limit: '3' });
      expect(result).toMatchObject({
        query: { text: 'tea', limit: 3 },
        method: 'acme/search',
        supports: { fuzzy: true },
        ...(era === 'modern' && { resultType: 'complete' }),
      });
      const { error } = await ask('acme/search', { text: '' });
      expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('text') });
    });

    it('methods of an extension accept a class as the schema, and refuse params that do not fit it', async () => {
      const ask = await connect(await start());
      expect((await ask('acme/count', { text: 'tea', limit: 3 })).result).toMatchObject({ isDto: true, limit: 3 });
      expect((await ask('acme/count', { text: 'tea', limit: 'x' })).error).toMatchObject({ code: -32602 });
    });

    it('methods of an extension run inside guards, interceptors and pipes of Nest', async () => {
      const ask = await connect(await start());
      expect(await ask('acme/staff', { staff: true })).toMatchObject({ status: 200, result: { staff: true } });
      const denied = await ask('acme/staff');
      expect(denied).toMatchObject({ status: 403, error: { message: 'method acme/staff is for staff.' } });
      expect((await ask('acme/piped', { limit: '12' })).result).toMatchObject({ limit: 12, wrapped: true });
      expect((await ask('acme/piped', { limit: 'x' })).error).toMatchObject({ code: -32602 });
    });

    it('methods of an extension answer with an object, an empty one for nothing, and with errors of the protocol', async () => {
      const ask = await connect(await start());
      const { result } = await ask('acme/nothing');
      expect(Object.keys(result!).filter((key) => key !== 'resultType' && key !== '_meta')).toEqual([]);
      expect((await ask('acme/text')).error).toMatchObject({ code: -32603 });
      const file = await ask('acme/file');
      expect(file.error).toMatchObject({ code: -32603, message: expect.stringContaining('StreamableFile') });
      expect((await ask('acme/lost')).error).toMatchObject({ code: -32602, message: 'There is no such index.' });
      expect((await ask('acme/unknown')).error).toMatchObject({ code: -32601 });
    });

    it('methods of an extension are served only in the eras that they name', async () => {
      const ask = await connect(await start(), { extensions: { 'com.example/modern-only': {} } });
      const [modern, legacy] = [await ask('acme/modern'), await ask('acme/legacy')];
      expect((era === 'modern' ? modern : legacy).result).toMatchObject({ era });
      expect((era === 'modern' ? legacy : modern).error).toMatchObject({ code: -32601 });
    });

    it('X3: methods of an extension that the client did not declare are refused, and served to one that did', async () => {
      const app = await start();
      const served = await (await connect(app, declared))('acme/required');
      expect(served.result).toMatchObject({ settings: { fuzzy: true } });
      const { status, error } = await (
        await connect(app, { extensions: { 'com.example/other': {} } })
      )('acme/required');
      expect(error!.message).toContain(`"${SEARCH}"`);
      if (era === 'legacy') return expect(error).toMatchObject({ code: -32601 });
      expect({ status, code: error!.code, data: error!.data }).toEqual({
        status: 400,
        code: -32021,
        data: { requiredCapabilities: { extensions: { [SEARCH]: {} } } },
      });
    });

    it('X1: methods of an extension are declared with their extension, with the settings of the option, in the eras that have them', async () => {
      const app = await start({ extensions: { [SEARCH]: { languages: ['en'] }, [UI]: {} } });
      const client = await officialOf(app.url, era);
      const { extensions } = client.getServerCapabilities()!;
      await client.close();
      expect(extensions).toEqual({
        [SEARCH]: { languages: ['en'] },
        [UI]: {},
        ...(era === 'modern' && { 'com.example/modern-only': {} }),
      });
    });

    it('X2: tools can read the settings of an extension that the client declared', async () => {
      const app = await start();
      const call = { name: 'supports', arguments: {} };
      const structured = async (capabilities: object) =>
        (await (await connect(app, capabilities))('tools/call', call)).result!['structuredContent'];
      expect(await structured(declared)).toEqual({ settings: { fuzzy: true }, proto: null });
      expect(await structured({})).toEqual({ settings: null, proto: null });
    });
  },
);

describe.each(ONE_ADAPTER)('methods of an extension, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [SearchMethods, StaffGuard] });
  const connect = officialClients();

  it('methods of an extension report progress to the official client, and are cancelled by it', async () => {
    const app = await start();
    for (const mode of ['legacy', 'modern'] as const) {
      [reached, cancelled] = [gate(), gate()];
      const client = await officialOf(app.url, mode);
      const messages: unknown[] = [];
      const cancel = new AbortController();
      const running = client.request({ method: 'acme/slow', params: {} }, z.looseObject({}), {
        signal: cancel.signal,
        onprogress: ({ message }) => void messages.push(message),
      });
      await reached.promise;
      await eventually(() => expect(messages).toEqual(['half']));
      cancel.abort();
      await expect(running).rejects.toThrow(/abort/i);
      await cancelled.promise;
      await client.close();
    }
  });

  it('methods of an extension may ask a client with a session, and get an error for any other', async () => {
    const app = await start();
    const asked = await new ModernClient(app.url).ask('acme/asks', {}, { capabilities: { elicitation: {} } });
    expect(asked.error).toMatchObject({ code: -32603, message: expect.stringContaining('only "tools/call"') });
    const client = await connect(app);
    await expect(client.request({ method: 'acme/asks' }, z.looseObject({}))).rejects.toThrow(/elicitation|asked/i);
    const answering = await officialOf(app.url, 'legacy', { elicitation: {} });
    answering.setRequestHandler('elicitation/create', () => ({ action: 'decline' }));
    expect(await answering.request({ method: 'acme/asks' }, z.looseObject({}))).toEqual({ action: 'decline' });
    await answering.close();
  });

  it('methods of an extension are reported as failed to observers too when their result cannot be JSON', async () => {
    const app = await start();
    const outcomes: unknown[] = [];
    for (const node of app.nodes) {
      const { calls$ } = node.app.get(McpSessionService, { strict: false });
      calls$.subscribe(({ outcome }) => void outcomes.push(outcome));
    }
    for (const connectTo of Object.values(ERAS)) {
      const { status, error } = await (await connectTo(app))('acme/uncountable');
      expect({ status, code: error!.code }).toEqual({ status: 200, code: -32603 });
    }
    expect(outcomes.filter((outcome) => outcome !== 'ok')).toEqual([-32603, -32603]);
  });

  it('methods of an extension are served without sessions, where the declaration of a client is unknown', async () => {
    const app = await start({ sessions: 'off' });
    const client = await connect(app);
    expect(await client.request({ method: 'acme/required' }, z.looseObject({}))).toEqual({});
    expect(client.getServerCapabilities()?.extensions).toEqual({ [SEARCH]: {} });
  });

  it('an endpoint without extensions declares none', async () => {
    const { url } = await handlersApp();
    const { result } = await new ModernClient(url).ask('server/discover');
    expect(result.capabilities).not.toHaveProperty('extensions');
  });
  const handlersApp = testApps(adapter, { shared: true });
});

/** As modules of this package add theirs. */
@Injectable()
class CountingPlugin extends McpPlugin {
  readonly ring = 'app';

  attach(host: McpEndpointHost): undefined {
    if (!host.isDefault) return;
    const count: ServedMethod = {
      read: ({ params }) => params,
      serve: async (_params, call) => ({ method: host.get(HandlerCalls).context(call).method, counted: 3 }),
    };
    const id = 'io.modelcontextprotocol/counting';
    host.extend({ id, settings: { upTo: 3 }, era: 'modern', methods: { 'tasks/count': count } });
  }
}

@Injectable()
class ElsewherePlugin extends CountingPlugin {
  override readonly endpoint = 'nowhere';
}

describe.each(ONE_ADAPTER)('an extension of a plugin, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [CountingPlugin] });

  it('X1: an extension of a plugin is declared, and its methods are served to clients that declare it', async () => {
    const app = await start({ extensions: { [SEARCH]: {} } });
    const capabilities = { extensions: { 'io.modelcontextprotocol/counting': {} } };
    const ask = await ERAS.modern(app, capabilities);
    const { result } = await ask('server/discover');
    expect(result!['capabilities']).toMatchObject({ extensions: { 'io.modelcontextprotocol/counting': { upTo: 3 } } });
    expect((await ask('tasks/count')).result).toMatchObject({ method: 'tasks/count', counted: 3 });
    expect(await (await ERAS.modern(app))('tasks/count')).toMatchObject({ status: 400, error: { code: -32021 } });
    expect((await (await ERAS.legacy(app, capabilities))('tasks/count')).error).toMatchObject({ code: -32601 });
  });

  it('an extension of a plugin is added to the endpoint that the plugin names, or chooses', async () => {
    const failure = await startFailure(adapter, () => ({
      imports: [McpStreamableModule.forRoot({ serverInfo })],
      providers: [ElsewherePlugin],
    }));
    expect(failure.message).toContain('"nowhere"');
    const app = await start({
      module: { imports: [McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin' })] },
    });
    const bare = { url: app.url.replace(/mcp$/, 'admin') };
    const { result } = await (await ERAS.modern(bare))('server/discover');
    expect(result!['capabilities']).not.toHaveProperty('extensions');
  });
});

describe.each(ONE_ADAPTER)('the start fails, on %s,', (adapter) => {
  const failureOf = (providers: Type[], options: Partial<McpStreamableOptions> = {}) =>
    startFailure(adapter, () => ({ imports: [McpStreamableModule.forRoot({ serverInfo, ...options })], providers }));
  const withMethod = (method: unknown, options?: McpMethodOptions, schema?: McpHandlerSchema): Type => {
    class Refused {
      @McpMethod(method as string, schema, options)
      served(): object {
        return {};
      }
    }
    return Refused;
  };

  it('the start fails for a method with a name that is none of an extension', async () => {
    const { name, message } = await failureOf([withMethod('rpc.acme/x')]);
    expect(name).toBe('McpHandlerDefinitionError');
    expect(message).toContain('"rpc.acme/x"');
  });

  it('the start fails for a method that is declared twice', async () => {
    const failure = await failureOf([withMethod('acme/search'), withMethod('acme/search')]);
    expect(failure).toMatchObject({ name: 'McpDuplicateHandlerError', kind: 'method', key: 'acme/search' });
  });

  it('the start fails for the extension of a method, or of the option, whose id is none', async () => {
    const { message } = await failureOf([withMethod('acme/x', { extension: 'search' })]);
    expect(message).toContain('"search"');
    const option = await failureOf([], { extensions: { search: {} } });
    expect(option).toMatchObject({ name: 'McpOptionError', message: expect.stringContaining('"search"') });
  });

  it('the start fails for options that a method does not have, eras that do not exist, and schemas that cannot be used', async () => {
    expect(() => withMethod('acme/x', { extensions: SEARCH } as never)).toThrow('Did you mean "extension"?');
    expect((await failureOf([withMethod('acme/x', { era: 'both' as never })])).message).toContain('"both"');
    expect((await failureOf([withMethod('acme/x', {}, z.string())])).message).toContain('its "schema" cannot be used');
  });

  it('the start fails for settings that cannot be JSON', async () => {
    const failure = await failureOf([], { extensions: { [SEARCH]: { count: 1n } } });
    expect(failure).toMatchObject({ name: 'McpOptionError', message: expect.stringContaining('JSON') });
  });

  it('the start fails for extensions beside servers of the app, which declare their own', async () => {
    const server = () => ({}) as never;
    const option = await failureOf([], { server, extensions: { [SEARCH]: {} } });
    expect(option).toMatchObject({ name: 'McpOptionError', option: 'extensions' });
    expect((await failureOf([withMethod('acme/x')], { server })).message).toContain('"server"');
    expect((await failureOf([CountingPlugin], { server })).message).toContain('"server"');
  });
});

describeRedis('the extensions that a client declares at initialize', () => {
  let room: RedisRoom;
  beforeEach(async () => void (room = await RedisRoom.open()));
  // Before those of the apps, which go first.
  afterEach(() => room.close());
  const start = testApps(ONE_ADAPTER[0]!, {
    shared: true,
    providers: [SearchMethods, StaffGuard],
    requestStateKeys: ['a secret that all nodes of a deployment know'],
  });

  it('X2: the extensions that a client declares at initialize are known to another node from the record of the session', async () => {
    const [first, second] = [await start({ backend: room.node() }), await start({ backend: room.node() })];
    const there = second.client();
    there.sessionId = (await first.client().initialize(LATEST, declared)).sessionId;
    const response = await there.post({ jsonrpc: '2.0', id: 1, method: 'acme/required' });
    expect((await response.json()).result).toEqual({ settings: { fuzzy: true } });
    await second.service.terminate(there.sessionId!);
    await first.settled({ sessions: 0, live: 0 });
  });
});

async function officialOf(url: string, era: 'legacy' | 'modern', capabilities: object = {}): Promise<Client> {
  const mode = era === 'modern' ? { pin: '2026-07-28' } : 'legacy';
  const client = new Client({ name: 'official', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: loneFetch }));
  return client;
}
