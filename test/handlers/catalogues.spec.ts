import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  Scope,
  UseGuards,
} from '@nestjs/common';
import {
  Confirm,
  type McpCaller,
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  McpHandlerDefinitionError,
  McpHandlers,
  McpRegistry,
  McpStreamableModule,
  type McpStreamableModuleOptions,
  McpToolCaller,
  McpToolName,
  Tool,
} from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { gate, serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';
import { eventually, sharedApp } from '../support/test-apps.js';

const note: McpCatalogueTool = {
  name: 'note',
  description: 'Writes a note',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  annotations: { readOnlyHint: true },
};

/** What a test lets `list()` return, by principal, and how often it was asked. */
let lists: (caller: McpCaller) => unknown;
let asked: McpCaller[];
let allowed: (name: string, caller: string | undefined) => boolean;
const called: unknown[] = [];

@Injectable()
class ByName implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const call = McpExecutionContext.create(context);
    if (allowed(call.getName(), call.getContext().principal)) return true;
    throw new ForbiddenException('Not in your plan.');
  }
}

@McpCatalogue({ maxTools: 5, maxPrincipals: 2, ttlMs: 60_000, listTimeoutMs: 1_000 })
@Injectable()
class Plugins {
  list(caller: McpCaller): Promise<McpCatalogueTool[]> {
    asked.push(caller);
    return lists(caller) as Promise<McpCatalogueTool[]>;
  }
  @UseGuards(ByName)
  call(@McpToolName() name: string, @McpArgs() args: object, @McpCtx() ctx: McpContext): string {
    called.push([name, args]);
    return `${name} of ${ctx.principal ?? 'nobody'}: ${JSON.stringify(args)}`;
  }
}

@McpCatalogue()
@Injectable()
class Connectors {
  list(): McpCatalogueTool[] {
    return [{ name: 'mail' }, { name: 'note', description: 'Of the connectors' }];
  }
  call(name: string, _args: object, ctx: McpContext): string {
    return `connector ${name} of ${ctx.principal}`;
  }
}

@Injectable()
class Decorated {
  @Tool({ name: 'status' })
  status(): string {
    return 'fine';
  }
}

const named = (...names: string[]): McpCatalogueTool[] => names.map((name) => ({ name }));

describe('a catalogue of tools per caller', () => {
  let app: TestApp;
  const clock = new ManualClock();
  beforeEach(() => {
    asked = [];
    called.length = 0;
    allowed = () => true;
    lists = ({ principal }) => (principal === 'ann' ? [note] : named('nothing'));
  });

  type Catalogue = new (...args: never[]) => object;
  const launch = sharedApp((options: Partial<McpStreamableModuleOptions>, providers: Catalogue[]) =>
    TestApp.of(
      'fastify',
      { imports: [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard], ...options })], providers },
      undefined,
      clock,
    ),
  );
  const start = async (
    options: Partial<McpStreamableModuleOptions> = {},
    providers: Catalogue[] = [Plugins, Decorated],
  ): Promise<void> => {
    app = await launch(options, providers);
    // What another test has listed is forgotten.
    if (providers.includes(Plugins)) registry().changed(Plugins);
  };
  const client = (user?: string, url = app.url) => new ModernClient(url, user === undefined ? {} : as(user));
  const listed = async (of: ModernClient, params: Record<string, unknown> = {}): Promise<string[]> =>
    (await of.ask('tools/list', params)).result.tools.map(({ name }: { name: string }) => name);
  const registry = (): McpRegistry => app.app.get(McpRegistry);

  it('a catalogue of tools per caller is listed behind the decorated tools, for its caller alone, and is asked once', async () => {
    await start();
    const [ann, bob] = [client('ann'), client('bob')];
    expect(await listed(ann)).toEqual(['status', 'note']);
    expect(await listed(bob)).toEqual(['status', 'nothing']);
    const { result } = await ann.ask('tools/list');
    expect(result.tools[1]).toEqual(note);
    expect(result.cacheScope).toBe('private');
    const { result: call } = await ann.ask('tools/call', { name: 'note', arguments: { text: 'hello' } });
    expect(call.content[0].text).toBe('note of ann: {"text":"hello"}');
    expect(asked.map(({ principal }) => principal)).toEqual(['ann', 'bob']);
    const session = await app.client(as('ann')).initialize();
    const answer = await (await session.call('note', { text: 'hi' })).json();
    expect(answer.result.content[0].text).toBe('note of ann: {"text":"hi"}');
    expect(asked).toHaveLength(2);
  });

  it('a catalogue of tools per caller answers a call of a tool that the list of the caller lacks like one of an unknown tool', async () => {
    await start();
    const bob = client('bob');
    const hidden = await bob.ask('tools/call', { name: 'note', arguments: { text: 'x' } });
    const unknown = await bob.ask('tools/call', { name: 'nope', arguments: { text: 'x' } });
    const odd = await bob.ask('tools/call', { name: '__proto__' });
    const same = (answer: unknown) => JSON.stringify(answer).replaceAll(/note|nope|__proto__|"id":\d+/g, '');
    expect(same(hidden)).toBe(same(unknown));
    expect(same(odd)).toBe(same(unknown));
    expect(called).toEqual([]);
  });

  it('a catalogue of tools per caller checks the arguments by the schema of the tool', async () => {
    await start();
    const { result } = await client('ann').ask('tools/call', { name: 'note', arguments: { text: 7 } });
    expect(result).toMatchObject({ isError: true });
    expect(result.content[0].text).toContain('text: must be string');
    expect(called).toEqual([]);
  });

  it('a catalogue of tools per caller is hidden by a guard on call that needs no arguments, tool by tool', async () => {
    lists = () => named('a', 'b');
    allowed = (name, principal) => name === 'a' || principal === 'ann';
    await start();
    expect(await listed(client('ann'))).toEqual(['status', 'a', 'b']);
    expect(await listed(client('bob'))).toEqual(['status', 'a']);
    const { error } = await client('bob').ask('tools/call', { name: 'b' });
    expect(error.code).toBe(-32602);
    expect(called).toEqual([]);
  });

  it('a catalogue of tools per caller asks list() once for callers that come at the same time, and what it says before a change is not kept', async () => {
    const answer = gate<McpCatalogueTool[]>();
    lists = () => answer.promise;
    await start();
    const both = [listed(client('ann')), listed(client('ann'))];
    await eventually(async () => expect((await app.service.counts()).inFlight).toBe(2));
    expect(asked).toHaveLength(1);
    registry().changed(Plugins, 'ann');
    lists = () => named('new');
    answer.open(named('old'));
    expect(await Promise.all(both)).toEqual([
      ['status', 'old'],
      ['status', 'old'],
    ]);
    expect(await listed(client('ann'))).toEqual(['status', 'new']);
    expect(asked).toHaveLength(2);
  });

  it('a catalogue of tools per caller is asked again after a change for this principal, whose clients of both eras are notified, and no others', async () => {
    await start();
    const streams = await Promise.all(
      ['ann', 'bob'].map(async (user) => {
        await listed(client(user));
        const modern = await client(user).listen({ toolsListChanged: true });
        const session = await app.client(as(user)).initialize();
        return { user, modern, legacy: await session.listen() };
      }),
    );
    const [ofAnn, ofBob] = streams as [(typeof streams)[0], (typeof streams)[0]];
    lists = () => named('changed');
    registry().changed(Plugins, 'ann');
    await ofAnn.modern.count(2);
    await ofAnn.legacy.count(1);
    expect(ofAnn.legacy.messages[0].method).toBe('notifications/tools/list_changed');
    expect(await listed(client('ann'))).toEqual(['status', 'changed']);
    expect(await listed(client('bob'))).toEqual(['status', 'nothing']);
    expect([ofBob.modern.messages.length, ofBob.legacy.messages.length]).toEqual([1, 0]);
    registry().changed(Plugins);
    await Promise.all([ofBob.modern.count(2), ofBob.legacy.count(1), ofAnn.modern.count(3), ofAnn.legacy.count(2)]);
    expect(await listed(client('bob'))).toEqual(['status', 'changed']);
    expect(() => registry().changed(Decorated)).toThrow(McpHandlerDefinitionError);
    for (const { modern } of streams) modern.destroy();
  });

  it('a catalogue of tools per caller keeps one list for anonymous callers, which null drops', async () => {
    await start();
    await listed(client());
    await listed(client());
    registry().changed(Plugins, null);
    await listed(client());
    expect(asked.map(({ principal }) => principal)).toEqual([undefined, undefined]);
  });

  it('a catalogue of tools per caller keeps so many lists for so long, and drops the one that was not used', async () => {
    await start();
    for (const user of ['ann', 'bob', 'ann', 'cleo', 'ann', 'bob']) await listed(client(user));
    expect(asked.map(({ principal }) => principal)).toEqual(['ann', 'bob', 'cleo', 'bob']);
    await clock.advance(60_000);
    await listed(client('bob'));
    expect(asked).toHaveLength(5);
  });

  it('a catalogue of tools per caller keeps the lists of tenants in the path apart', async () => {
    lists = ({ routeParams }) => named(`of_${routeParams?.['tenant']}`);
    await start({ path: ':tenant/mcp' });
    const at = (tenant: string) => client('ann', app.url.replace(/\/mcp$/, `/${tenant}/mcp`));
    expect(await listed(at('acme'))).toEqual(['status', 'of_acme']);
    expect(await listed(at('zeta'))).toEqual(['status', 'of_zeta']);
    expect(await listed(at('acme'))).toEqual(['status', 'of_acme']);
    const { error } = await at('zeta').ask('tools/call', { name: 'of_acme' });
    expect(error.code).toBe(-32602);
  });

  it('a catalogue of tools per caller does not list for a narrower token what a wider one of the same user gets', async () => {
    lists = ({ scopes }) => named(...(scopes ?? []));
    const scoped: CanActivate = {
      canActivate(context) {
        const request = context.switchToHttp().getRequest();
        const scopes = String(request.headers['x-scopes']).split(' ');
        request.auth = { token: 'secret', clientId: 'c', scopes, extra: { sub: 'ann' } };
        return true;
      },
    };
    await start({ guards: [scoped] });
    const of = (scopes: string) => new ModernClient(app.url, { 'x-scopes': scopes });
    expect(await listed(of('write read'))).toEqual(['status', 'read', 'write']);
    expect(await listed(of('read'))).toEqual(['status', 'read']);
    expect(await listed(of('read write read'))).toEqual(['status', 'read', 'write']);
    expect(asked.map(({ scopes }) => scopes)).toEqual([['read', 'write'], ['read']]);
  });

  it('a catalogue of tools per caller goes on in pages from the decorated tools into the catalogues, also when tools come and go', async () => {
    lists = () => named('c', 'a', 'b', 'd');
    await start({ pageSize: 2 }, [Decorated, Plugins, Connectors]);
    const ann = client('ann');
    const pages: string[][] = [];
    let cursor: string | undefined;
    do {
      const { result } = await ann.ask('tools/list', cursor === undefined ? {} : { cursor });
      pages.push(result.tools.map(({ name }: { name: string }) => name));
      cursor = result.nextCursor;
      lists = () => named('c', 'aa', 'b', 'd');
      registry().changed(Plugins, 'ann');
    } while (cursor !== undefined && pages.length < 9);
    expect(pages).toEqual([
      ['status', 'a'],
      ['aa', 'b'],
      ['c', 'd'],
      ['mail', 'note'],
    ]);
    const bad = await ann.ask('tools/list', { cursor: Buffer.from('3:x:').toString('base64url') });
    expect(bad.error.code).toBe(-32602);
  });

  it('a catalogue of tools per caller ends with a full page, without an empty one behind it', async () => {
    lists = () => named('a');
    await start({ pageSize: 2 });
    expect((await client('ann').ask('tools/list')).result.nextCursor).toBeUndefined();
    lists = () => [];
    registry().changed(Plugins);
    expect((await client('ann').ask('tools/list')).result.nextCursor).toBeUndefined();
  });

  it('a catalogue of tools per caller leaves a name to the decorated tool, to the registered one, and to the catalogue that comes first; each is logged once', async () => {
    lists = () => [...named('status', 'late', 'fine'), note];
    await start({}, [Decorated, Plugins, Connectors]);
    registry().registerTool({ name: 'late', handler: () => 'registered' });
    const ann = client('ann');
    for (let time = 0; time < 3; time++) {
      expect(await listed(ann)).toEqual(['status', 'late', 'fine', 'note', 'mail']);
    }
    const text = async (name: string, args = {}) =>
      (await ann.ask('tools/call', { name, arguments: args })).result.content[0].text;
    expect(await text('status')).toBe('fine');
    expect(await text('late')).toBe('registered');
    expect(await text('note', { text: 'x' })).toContain('note of ann');
    expect(await text('mail')).toBe('connector mail of ann');
    expect(app.log.texts().filter((line) => line.includes('is left out'))).toHaveLength(3);
  });

  it('a catalogue of tools per caller leaves out tools that cannot be served, serves the others, and logs why, once', async () => {
    const cyclic: Record<string, unknown> = { name: 'cyclic' };
    cyclic['inputSchema'] = cyclic;
    const bad: unknown[] = [
      null,
      { name: '' },
      { name: 'root', inputSchema: { type: 'string' } },
      cyclic,
      { name: 'broken', inputSchema: { type: 'object', properties: { a: { type: 'strng' } } } },
    ];
    const more: unknown[] = [
      { name: 'huge', description: 'x'.repeat(300_000) },
      { name: 'mirrored', inputSchema: { type: 'object', properties: { a: { type: 'number', 'x-mcp-header': 'A' } } } },
      { name: 'slow', task: 'optional' },
      { name: '__proto__' },
      { name: '__proto__', description: 'second' },
    ];
    lists = ({ principal }) => (principal === 'ann' ? bad : more);
    await start();
    for (let time = 0; time < 2; time++) {
      expect(await listed(client('ann'))).toEqual(['status']);
      expect(await listed(client('bob'))).toEqual(['status', '__proto__']);
      registry().changed(Plugins);
    }
    const { result } = await client('bob').ask('tools/call', { name: '__proto__' });
    expect(result.content[0].text).toBe('__proto__ of bob: {}');
    expect(app.log.texts().filter((line) => line.includes('A tool is left out'))).toHaveLength(8);
    expect(app.log.texts().filter((line) => line.includes('twice'))).toHaveLength(1);
  });

  it('M4: headers that repeat arguments of a tool of a catalogue must equal them', async () => {
    const inputSchema = { type: 'object', properties: { zone: { type: 'string', 'x-mcp-header': 'Zone' } } };
    lists = () => [{ name: 'mirrored', inputSchema }];
    await start();
    const call = (headers = {}) => client('ann').call('mirrored', { zone: 'a' }, { headers, id: 1 });
    // The list is asked for by the first call, and known to the others.
    for (const headers of [{}, {}, { 'mcp-param-zone': 'b' }]) {
      await expectRefusal(await call(headers), { status: 400, code: -32020, id: 1, says: ['Mcp-Param-Zone'] });
    }
    expect(called).toEqual([]);
    const served = await (await call({ 'mcp-param-zone': 'a' })).json();
    expect(served.result.content[0].text).toBe('mirrored of ann: {"zone":"a"}');
  });

  it('a catalogue of tools per caller leaves out what has a function or an unknown property, also after another caller got a tool of the same text', async () => {
    const plain = { name: 'remove', description: 'Removes all', _meta: {} };
    const hidden = Object.create({ middleware: 'ignore' }, Object.getOwnPropertyDescriptors(plain)) as object;
    const others: Record<string, object> = {
      bob: { ...plain, confirm: () => 'Really?' },
      cid: { ...plain, guards: [() => false] },
      dan: { ...plain, visible: () => false },
      eve: { ...plain, _meta: { view: () => 'x' } },
      fay: { ...plain, onlyFor: undefined, description: () => 'Removes all' },
      gus: { ...plain, toJSON: () => plain },
      hal: hidden,
    };
    lists = ({ principal = '' }) => [(others[principal] ?? plain) as McpCatalogueTool];
    await start();
    expect(await listed(client('ann'))).toEqual(['status', 'remove']);
    for (const user of Object.keys(others)) {
      expect(await listed(client(user))).toEqual(['status']);
      const { error } = await client(user).ask('tools/call', { name: 'remove' });
      expect(error).toMatchObject({ code: -32602 });
    }
    const lines = app.log.texts().filter((line) => line.includes('A tool is left out'));
    const named = lines.map((line) => /"remove" of Plugins.*it has "(\w+)"|its "(\w+)" is a function/.exec(line));
    expect(named.map((match) => match?.[1] ?? match?.[2])).toEqual([
      'confirm',
      'guards',
      'visible',
      'view',
      'description',
      'toJSON',
      'middleware',
    ]);
  });

  it('a catalogue of tools per caller keeps tools apart whose only difference JSON has no number for', async () => {
    const sizes: Record<string, unknown> = { ann: Infinity, bob: null };
    lists = ({ principal = '' }) => [{ name: 'sized', maxResultBytes: sizes[principal] }] as McpCatalogueTool[];
    await start();
    expect(await listed(client('ann'))).toEqual(['status', 'sized']);
    expect(await listed(client('bob'))).toEqual(['status']);
  });

  it('a catalogue of tools per caller serves the first tools of a list that is too long, and logs that', async () => {
    lists = () => named(...Array.from({ length: 1_000 }, (_, n) => `t${String(n)}`));
    await start();
    expect(await listed(client('ann'))).toHaveLength(6);
    expect(app.log.texts().some((line) => line.includes('1000 tools; the first 5 are served'))).toBe(true);
  });

  it.each([
    ['throws', () => Promise.reject(new Error('The database is away.')), 'The database is away.'],
    [
      'throws at once',
      () => {
        throw new Error('Not ready.');
      },
      'Not ready.',
    ],
    ['returns no list', () => ({ tools: [] }), 'must return an array of tools'],
  ])(
    'a catalogue of tools per caller whose list() %s is absent, is logged once, and is asked again',
    async (_what, list, text) => {
      lists = list;
      await start({}, [Plugins, Decorated, Connectors]);
      const ann = client('ann');
      for (let time = 0; time < 2; time++) expect(await listed(ann)).toEqual(['status', 'mail', 'note']);
      expect(asked).toHaveLength(2);
      expect(app.log.texts().filter((line) => line.includes(text))).toHaveLength(1);
      expect((await ann.ask('tools/call', { name: 'missing' })).error.code).toBe(-32602);
      lists = () => named('back');
      expect(await listed(ann)).toContain('back');
    },
  );

  it('a catalogue of tools per caller whose list() hangs is absent after listTimeoutMs, and calls of decorated tools do not wait', async () => {
    const never = gate<McpCatalogueTool[]>();
    lists = () => never.promise;
    await start();
    const waiting = listed(client('ann'));
    await eventually(() => expect(asked).toHaveLength(1));
    const { result } = await client('ann').ask('tools/call', { name: 'status' });
    expect(result.content[0].text).toBe('fine');
    await clock.advance(1_000);
    expect(await waiting).toEqual(['status']);
    expect(app.log.texts().some((line) => line.includes('did not answer within 1000 ms'))).toBe(true);
    never.open(named('late'));
    lists = () => named('now');
    expect(await listed(client('ann'))).toEqual(['status', 'now']);
  });

  it('a catalogue of tools per caller is asked beside the others: a call waits for "listTimeoutMs" once, however many of them hang', async () => {
    const hangs = (): Promise<never> => new Promise(() => {});
    @McpCatalogue({ listTimeoutMs: 1_000 })
    class Others {
      list(): Promise<McpCatalogueTool[]> {
        return hangs();
      }
      call(): string {
        return 'never';
      }
    }
    @McpCatalogue({ listTimeoutMs: 1_000 })
    class Third {
      async list(): Promise<McpCatalogueTool[]> {
        return named('third');
      }
      call(name: string): string {
        return name;
      }
    }
    lists = hangs;
    await start({}, [Plugins, Others, Third]);
    const call = client('ann').ask('tools/call', { name: 'third' });
    await eventually(() => expect(asked).toHaveLength(1));
    await clock.advance(1_000);
    expect((await call).result.content[0].text).toBe('third');
  });

  it('a catalogue of tools per caller is listed and called by the app itself, for a principal', async () => {
    await start();
    const tools = app.app.get(McpToolCaller);
    expect((await tools.listTools({ principal: 'ann' })).map(({ name }) => name)).toEqual(['status', 'note']);
    const { content } = await tools.callTool('note', { text: 'x' }, { principal: 'ann' });
    expect(content).toMatchObject([{ text: 'note of ann: {"text":"x"}' }]);
    await expect(tools.callTool('note', { text: 'x' }, { principal: 'bob' })).rejects.toThrow('note');
  });

  it('a catalogue of tools per caller belongs to its endpoint, in an app with several', async () => {
    @McpHandlers({ endpoint: 'staff' })
    @Injectable()
    class ForStaff extends Plugins {}
    app = await TestApp.of(
      'fastify',
      {
        imports: [
          McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard] }),
          McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard], name: 'staff', path: 'staff' }),
        ],
        providers: [ForStaff, Decorated],
      },
      undefined,
      clock,
    );
    const base = app.url.replace(/\/\w+$/, '');
    expect(await listed(client('ann', `${base}/mcp`))).toEqual(['status']);
    expect(await listed(client('ann', `${base}/staff`))).toEqual(['note']);
    await app.close();
  });

  it('a catalogue of tools per caller holds back tools without readOnlyHint at an endpoint with "readOnly", and results above maxResultBytes', async () => {
    lists = () => [note, { name: 'write' }, { ...note, name: 'long', maxResultBytes: 10 }];
    await start({ readOnly: true }, [Plugins]);
    expect(await listed(client('ann'))).toEqual(['long', 'note']);
    const { result } = await client('ann').ask('tools/call', { name: 'long', arguments: { text: 'long enough' } });
    expect(result).toMatchObject({ isError: true });
  });

  it('a catalogue of tools per caller cannot be made for each request, or without its methods; the start says so', async () => {
    @McpCatalogue()
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest extends Connectors {}
    @Injectable({ scope: Scope.REQUEST })
    class Db {}
    @McpCatalogue()
    @Injectable()
    class Injects extends Connectors {
      constructor(readonly db: Db) {
        super();
      }
    }
    Reflect.defineMetadata('design:paramtypes', [Db], Injects);
    @Injectable()
    class Nothing {}
    (McpCatalogue() as (target: unknown) => void)(Nothing);
    await expect(start({}, [PerRequest])).rejects.toThrow('it has @McpCatalogue() and is not a singleton');
    await expect(start({}, [Injects, Db])).rejects.toThrow('injects Db, which is made for each request');
    await expect(start({}, [Nothing])).rejects.toThrow('no method "list"');
    expect(() => McpCatalogue({ maxTool: 5 } as never)(Connectors)).toThrow('maxTool');
  });

  it('a catalogue of tools per caller does not start with @Confirm() on "call", which would ask nobody; the error says how to ask', async () => {
    @McpCatalogue()
    class Asks extends Connectors {
      @Confirm('Sure?')
      override call(name: string): string {
        return name;
      }
    }
    await expect(start({}, [Asks])).rejects.toThrow('Give the tools that list() returns the option "confirm".');
  });

  it('a catalogue of tools per caller works beside a guard of the app that is made for each request', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest implements CanActivate {
      canActivate(): boolean {
        return true;
      }
    }
    @McpCatalogue()
    @Injectable()
    class Guarded extends Connectors {
      @UseGuards(PerRequest)
      override call(name: string): string {
        return name;
      }
    }
    await start({}, [Guarded]);
    expect(await listed(client('ann'))).toEqual(['mail', 'note']);
    expect((await client('ann').ask('tools/call', { name: 'mail' })).result.content[0].text).toBe('mail');
  });
});
