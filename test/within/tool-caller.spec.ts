import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Inject,
  Injectable,
  UseGuards,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { INestApplicationContext } from '@nestjs/common';
import {
  getMcpToken,
  InjectMcp,
  McpArgs,
  type McpCallEnd,
  type McpContext,
  McpCtx,
  type McpListedTool,
  McpSessionService,
  McpStreamableModule,
  type McpStreamableOptions,
  McpToolCaller,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { createMcpTestClient, expectNothingLeft, ManualClock } from 'nestjs-mcp-streamable/testing';
import { interval, lastValueFrom, map, Observable, take, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { forAiSdk, forOpenAi, type Message, Model, UserAgent } from '../../examples/snippets/user-agent.js';
import { gate } from '../support/app.js';
import { RecordedLog } from '../support/recorded-log.js';

const serverInfo = { name: 'test', version: '1.0.0' };

@Injectable()
class UserGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers, user } = context
      .switchToHttp()
      .getRequest<{ headers: Record<string, string>; user?: { id: string } }>();
    if (user?.id === 'anna' || headers['x-user'] === 'anna') return true;
    throw new ForbiddenException('Only Anna.');
  }
}

@Injectable()
class Doors {
  readonly reached = gate();
  readonly opened = gate();
  aborted: unknown;
  unsubscribed = false;
  later: Promise<string> | undefined;
}

@Injectable()
class Tools {
  constructor(
    @Inject(McpToolCaller) private readonly tools: McpToolCaller,
    @Inject(Doors) private readonly doors: Doors,
  ) {}

  @Tool({
    name: 'add',
    title: 'Add numbers',
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    outputSchema: z.object({ sum: z.number() }),
  })
  add(@McpArgs() { a, b }: { a: number; b: number }): { sum: number } {
    return { sum: a + b };
  }

  @Tool({ name: 'keep', inputSchema: z.object({ list: z.array(z.number()), at: z.string().optional() }) })
  keep(@McpArgs() args: { list: number[]; at?: string }): string {
    args.list.push(4);
    return typeof args.at;
  }

  @Tool({ name: 'who' })
  who(@McpCtx() ctx: McpContext): string {
    return `${ctx.principal} ${ctx.session?.id}`;
  }

  @Tool({ name: 'secret' })
  @UseGuards(UserGuard)
  secret(): string {
    return 'in';
  }

  @Tool({ name: 'fail' })
  fail(): never {
    throw new Error('No more room.');
  }

  @Tool({ name: 'count' })
  async count(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.progress(1, 2, 'one');
    await ctx.log('info', 'counting');
    await ctx.progress(2, 2);
    return 'counted';
  }

  @Tool({ name: 'wait' })
  async wait(@McpCtx() ctx: McpContext): Promise<string> {
    ctx.signal.addEventListener('abort', () => (this.doors.aborted = ctx.signal.reason));
    this.doors.reached.open();
    await this.doors.opened.promise;
    return 'through';
  }

  @Tool({ name: 'tick' })
  tick(): Observable<string> {
    return new Observable((subscriber) => {
      const inner = interval(10).pipe(map(String)).subscribe(subscriber);
      this.doors.reached.open();
      return () => {
        this.doors.unsubscribed = true;
        inner.unsubscribe();
      };
    });
  }

  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = z.object({ name: z.string() });
    const { action, content } = await ctx.elicit('name', { message: 'Your name?', requestedSchema });
    return `${action} ${content?.['name']}`;
  }

  @Tool({ name: 'think' })
  async think(@McpCtx() ctx: McpContext): Promise<string> {
    const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'Think!' } }];
    const { content } = await ctx.sample('thought', { messages, maxTokens: 10 });
    return JSON.stringify(content);
  }

  @Tool({ name: 'where' })
  async where(@McpCtx() ctx: McpContext): Promise<string> {
    return JSON.stringify(await ctx.roots('roots'));
  }

  /** What it starts goes on when it has returned. */
  @Tool({ name: 'background' })
  background(): string {
    this.doors.later = this.doors.opened.promise.then(async () => textOf(await this.tools.callTool('who')));
    return 'started';
  }

  @Tool({ name: 'ask later' })
  askLater(@McpCtx() ctx: McpContext): string {
    const asking = this.doors.opened.promise.then(() => this.ask(ctx));
    this.doors.later = asking.catch((error: { code: string }) => error.code);
    return 'started';
  }

  @Tool({ name: 'agent' })
  async agent(): Promise<string> {
    const inner = await this.tools.callTool('who');
    const secret = await this.tools.callTool('secret').catch(String);
    const other = await this.tools.callTool('who', {}, { principal: 'bert' });
    const denied = await this.tools.callTool('secret', {}, { principal: 'bert' }).catch(String);
    return [textOf(inner), textOf(secret), textOf(other), textOf(denied)].join(', ');
  }
}

const textOf = (result: unknown): string => {
  if (typeof result === 'string') return result;
  return (result as { content: { text: string }[] }).content.map(({ text }) => text).join('\n');
};

let app: INestApplicationContext;
let clock: ManualClock;
let tools: McpToolCaller;
let doors: Doors;
const ends: McpCallEnd[] = [];

async function start(options: Partial<McpStreamableOptions> = {}): Promise<void> {
  clock = new ManualClock();
  ends.length = 0;
  const testing = Test.createTestingModule({
    imports: [McpStreamableModule.forRoot({ serverInfo, ...options })],
    providers: [Tools, Doors, UserGuard],
  });
  app = await testing.overrideProvider(McpClock).useValue(clock).compile();
  await app.init();
  tools = app.get(McpToolCaller);
  doors = app.get(Doors);
  app.get(McpSessionService).calls$.subscribe((end) => ends.push(end));
}

afterEach(async () => {
  expect(app.get(McpSessionService, { strict: false }).nodeCounts()).toMatchObject({ inFlight: 0, outbound: 0 });
  await app.close();
  expect(clock.pending).toBe(0);
});

/** Says what the script says, and keeps what it was told. */
class ScriptedModel extends Model {
  readonly told: { messages: readonly Message[]; tools: readonly McpListedTool[] }[] = [];
  constructor(private readonly script: Awaited<ReturnType<Model['next']>>[]) {
    super();
  }
  next(messages: readonly Message[], given: readonly McpListedTool[]): ReturnType<Model['next']> {
    this.told.push({ messages: [...messages], tools: given });
    return Promise.resolve(this.script.shift()!);
  }
}

describe('an agent of the app', () => {
  const anna = { principal: 'anna', request: { user: { id: 'anna' } } };
  const bert = { principal: 'bert', request: { user: { id: 'bert' } } };
  const names = (listed: readonly McpListedTool[]) => listed.map(({ name }) => name);

  it('an agent of the app is told of the tools that its user may call, on all pages, with their schemas', async () => {
    await start({ pageSize: 2 });
    const ofAnna = await tools.listTools(anna);
    const ofBert = await tools.listTools(bert);
    expect(names(ofAnna)).toEqual(expect.arrayContaining(['add', 'secret', 'agent']));
    expect(names(ofBert)).toEqual(names(ofAnna).filter((name) => name !== 'secret'));
    expect(names(await tools.listTools())).toEqual(names(ofBert));
    const add = ofBert.find(({ name }) => name === 'add')!;
    expect(add.title).toBe('Add numbers');
    expect(add.inputSchema).toEqual({
      type: 'object',
      properties: { a: { type: 'number' }, b: { type: 'number' } },
      required: ['a', 'b'],
    });
    expect(add.outputSchema).toMatchObject({ type: 'object', required: ['sum'] });
    expect(forOpenAi(add)).toEqual({ type: 'function', function: { name: 'add', parameters: add.inputSchema } });
    expect(ends.every(({ call: { method }, outcome }) => method === 'tools/list' && outcome === 'ok')).toBe(true);
  });

  it('an agent of the app calls tools as its user, and neither sees nor reaches what the user may not call', async () => {
    await start();
    const work = () =>
      new ScriptedModel([
        { call: { name: 'who', arguments: {} } },
        { call: { name: 'secret', arguments: {} } },
        { text: 'Done.' },
      ]);
    const forAnna = work();
    expect(await new UserAgent(forAnna, tools).ask('Who am I?', { id: 'anna' })).toBe('Done.');
    expect(forAnna.told.at(-1)!.messages.map(({ content }) => content)).toEqual([
      'Who am I?',
      expect.stringContaining('anna'),
      expect.stringContaining('in'),
    ]);
    const ofSdk = forAiSdk(await tools.listTools(anna), tools, anna);
    expect(textOf(await ofSdk['secret']!.execute({}))).toBe('in');
    const forBert = work();
    await expect(new UserAgent(forBert, tools).ask('Who am I?', { id: 'bert' })).rejects.toThrow('"secret" not found');
    expect(names(forBert.told[0]!.tools)).not.toContain('secret');
  });
});

describe('a tool that the app calls itself', () => {
  it('a tool that the app calls itself gets validated arguments, and its result is that of a client', async () => {
    await start();
    const result = await tools.callTool('add', { a: 1, b: 2 });
    expect(result).toEqual({ content: [{ type: 'text', text: '{"sum":3}' }], structuredContent: { sum: 3 } });
    expect(await tools.callTool('add', { a: 'one', b: 2 })).toMatchObject({ isError: true });
    expect(await tools.callTool('fail')).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('No more room.') }],
    });
    await expect(tools.callTool('no such')).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining('no such'),
    });
    expect(ends.map(({ call, outcome }) => [call.name, outcome])).toEqual([
      ['add', 'ok'],
      ['add', 'tool_error'],
      ['fail', 'tool_error'],
      ['no such', -32602],
    ]);
  });

  it('a tool that the app calls itself gets a copy of its arguments as JSON has them, and not the objects of the caller', async () => {
    await start();
    const args = { list: [1, 2, 3], at: new Date(0) };
    expect(textOf(await tools.callTool('keep', args))).toBe('string');
    expect(args.list).toEqual([1, 2, 3]);
    await expect(tools.callTool('keep', { list: 1n })).rejects.toThrow(TypeError);
  });

  it('E16: a tool that the app calls itself is not called with more values than a client may send', async () => {
    await start({ maxBodyValues: 1_000 });
    const list = Array.from({ length: 1_000 }, () => 1);
    await expect(tools.callTool('keep', { list })).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      message: expect.stringContaining('"maxBodyValues"'),
    });
    expect(textOf(await tools.callTool('keep', { list: list.slice(10) }))).toBe('undefined');
  });

  it('a tool that the app calls itself has the caller that the options name, or an anonymous one; its guards decide', async () => {
    await start();
    expect(textOf(await tools.callTool('who'))).toBe('undefined undefined');
    expect(textOf(await tools.callTool('who', {}, { principal: 'anna' }))).toBe('anna undefined');
    await expect(tools.callTool('secret')).rejects.toThrow('Tool "secret" not found');
    expect(textOf(await tools.callTool('secret', {}, { request: { user: { id: 'anna' } } }))).toBe('in');
    expect(ends.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'denied', 'ok']);
  });

  it('within a handler is called by the caller of that, unless another one is named', async () => {
    clock = new ManualClock();
    const principal = ({ headers }: { headers: Record<string, string | undefined> }) => headers['x-user'];
    const module = await Test.createTestingModule({
      imports: [McpStreamableModule.forRoot({ serverInfo, principal })],
      providers: [Tools, Doors, UserGuard],
    })
      .overrideProvider(McpClock)
      .useValue(clock)
      .compile();
    const http = module.createNestApplication();
    app = http;
    const mcp = await createMcpTestClient(http, { headers: { 'x-user': 'anna' } });
    expect((await mcp.callTool('agent')).text).toEqual(
      expect.stringMatching(/^anna undefined, in, bert undefined, .*Tool "secret" not found/),
    );
    await mcp.close();
    await expectNothingLeft(http);
  });

  it('a tool that the app calls itself is not called by a caller whose call is over', async () => {
    await start();
    expect(textOf(await tools.callTool('background', {}, { principal: 'anna' }))).toBe('started');
    doors.opened.open();
    expect(await doors.later).toBe('undefined undefined');
  });

  it('a tool that the app calls itself reports progress, then its result', async () => {
    await start();
    expect(await lastValueFrom(tools.callTool$('count').pipe(toArray()))).toEqual([
      { type: 'progress', progress: 1, total: 2, message: 'one' },
      { type: 'progress', progress: 2, total: 2 },
      { type: 'result', result: { content: [{ type: 'text', text: 'counted' }] } },
    ]);
    const heard: number[] = [];
    await tools.callTool('count', {}, { onprogress: ({ progress }) => heard.push(progress) });
    expect(heard).toEqual([1, 2]);
  });

  it('a tool that the app calls itself is cancelled by unsubscribing, and by a signal', async () => {
    await start();
    const subscription = tools.callTool$('wait').subscribe();
    await doors.reached.promise;
    subscription.unsubscribe();
    expect(doors.aborted).toBeInstanceOf(Error);
    const controller = new AbortController();
    const call = tools.callTool('tick', {}, { signal: controller.signal });
    await doors.reached.promise;
    await expect.poll(() => app.get(McpSessionService).nodeCounts().inFlight).toBe(1);
    controller.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
    await expect.poll(() => doors.unsubscribed).toBe(true);
    await expect(tools.callTool('who', {}, { signal: controller.signal })).rejects.toThrow('enough');
    expect(ends.map(({ outcome }) => outcome)).toEqual(['cancelled', 'cancelled']);
    doors.opened.open();
  });

  it('a tool that the app calls itself is cancelled by a signal that its first progress aborts', async () => {
    await start();
    const controller = new AbortController();
    const onprogress = () => controller.abort(new Error('enough'));
    await expect(tools.callTool('count', {}, { signal: controller.signal, onprogress })).rejects.toThrow('enough');
    expect(ends.map(({ outcome }) => outcome)).toEqual(['cancelled']);
  });

  it('a tool that the app calls itself has its result although the progress callback throws, which is logged', async () => {
    await start();
    const log = new RecordedLog().attach();
    const onprogress = () => {
      throw new Error('a mistake');
    };
    expect(textOf(await tools.callTool('count', {}, { onprogress }))).toBe('counted');
    expect(log.texts('error')).toEqual(['a mistake', 'a mistake']);
    log.release();
  });

  it('a tool that the app calls itself cannot ask its caller any more when it has ended', async () => {
    await start();
    let asked = 0;
    const elicit = () => {
      asked++;
      return { action: 'decline' as const };
    };
    await tools.callTool('ask later', {}, { elicit });
    doors.opened.open();
    expect(await doors.later).toBe('CALL_OVER');
    expect(asked).toBe(0);
  });

  it('a tool that the app calls itself is not called before it is subscribed to, and anew each time', async () => {
    await start();
    const call$ = tools.callTool$('who').pipe(take(1));
    expect(ends).toEqual([]);
    await lastValueFrom(call$);
    await lastValueFrom(call$);
    expect(ends).toHaveLength(2);
  });

  it('a tool that the app calls itself asks a caller that answers questions, and gets an error from one that does not', async () => {
    await start();
    const asked: unknown[] = [];
    const elicit = (params: { message: string }) => {
      asked.push(params.message);
      return { action: 'accept' as const, content: { name: 'Anna' } };
    };
    expect(textOf(await tools.callTool('ask', {}, { elicit }))).toBe('accept Anna');
    expect(asked).toEqual(['Your name?']);
    const sample = async () => ({
      model: 'm',
      role: 'assistant' as const,
      content: { type: 'text' as const, text: 'Hm.' },
    });
    expect(textOf(await tools.callTool('think', {}, { sample }))).toContain('Hm.');
    expect(textOf(await tools.callTool('where', {}, { roots: [{ uri: 'file:///a' }] }))).toContain('file:///a');
    for (const [name, option] of [
      ['ask', 'elicit'],
      ['think', 'sample'],
      ['where', 'roots'],
    ] as const) {
      const result = await tools.callTool(name);
      expect(result.isError).toBe(true);
      expect(textOf(result)).toContain(`the option "${option}"`);
    }
    expect(
      await tools.callTool('ask', {}, { elicit: () => ({ action: 'accept', content: { name: 5 } }) as never }),
    ).toMatchObject({ isError: true });
  });

  it('a tool that the app calls itself whose question is not answered is cancelled all the same', async () => {
    await start();
    const controller = new AbortController();
    const asked = gate();
    const elicit = () => {
      asked.open();
      return new Promise<never>(() => {});
    };
    const call = tools.callTool('ask', {}, { elicit, signal: controller.signal });
    await asked.promise;
    controller.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
  });

  it('a tool that the app calls itself is ended by the time limit that calls of clients have', async () => {
    await start({ requestTimeoutMs: 1_000 });
    const call = tools.callTool('wait');
    const failed = call.catch((error: unknown) => error);
    await doors.reached.promise;
    await clock.advance(1_000);
    expect(await failed).toMatchObject({ code: -32001 });
    doors.opened.open();
  });

  it('a tool that the app calls itself ends when the app closes, which waits for it as for calls of clients', async () => {
    await start({ drainMs: 1_000 });
    const call = tools.callTool('wait');
    await doors.reached.promise;
    const closing = app.close();
    await expect.poll(() => app.get(McpSessionService).accepting).toBe(false);
    doors.opened.open();
    expect(textOf(await call)).toBe('through');
    await closing;
    await expect(tools.callTool('who')).rejects.toThrow('shutting down');
  });

  it('a tool that the app calls itself fails with an error when the app closes without waiting for it', async () => {
    await start();
    const call = tools.callTool('wait');
    const failed = call.catch((error: unknown) => error);
    await doors.reached.promise;
    await app.close();
    expect(String(await failed)).toContain('shutting down');
    doors.opened.open();
  });

  it('a tool that the app calls itself can be a tool of an SDK server of the app', async () => {
    clock = new ManualClock();
    const server = (): McpServer => {
      const made = new McpServer(serverInfo);
      made.registerTool('own', { inputSchema: z.object({ n: z.number() }) }, async ({ n }, ctx) => {
        await ctx.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken: ctx.mcpReq._meta!.progressToken!, progress: n },
        });
        return { content: [{ type: 'text', text: `own ${n}` }] };
      });
      return made;
    };
    const testing = Test.createTestingModule({ imports: [McpStreamableModule.forRoot({ serverInfo, server })] });
    app = await testing.overrideProvider(McpClock).useValue(clock).compile();
    await app.init();
    const heard: number[] = [];
    const result = await app
      .get(McpToolCaller)
      .callTool('own', { n: 3 }, { onprogress: ({ progress }) => heard.push(progress) });
    expect(textOf(result)).toBe('own 3');
    expect(heard).toEqual([3]);
  });

  it('a tool that the app calls itself is looked up in the endpoint that the caller names', async () => {
    @Injectable()
    class Agent {
      constructor(@InjectMcp(McpToolCaller, 'admin') readonly admin: McpToolCaller) {}
    }
    clock = new ManualClock();
    const endpoint = (name: string) => McpStreamableModule.forRoot({ serverInfo, name, path: name });
    const testing = Test.createTestingModule({
      imports: [endpoint('orders'), endpoint('admin'), McpStreamableModule.forFeature([AdminTools], 'admin')],
      providers: [Agent, AdminTools],
    });
    app = await testing.overrideProvider(McpClock).useValue(clock).compile();
    await app.init();
    expect(textOf(await app.get(Agent).admin.callTool('reset'))).toBe('done');
    const orders = app.get<McpToolCaller>(getMcpToken(McpToolCaller, 'orders'), { strict: false });
    await expect(orders.callTool('reset')).rejects.toMatchObject({ code: -32602 });
  });
});

@Injectable()
class AdminTools {
  @Tool({ name: 'reset' })
  reset(): string {
    return 'done';
  }
}
