import { getEventListeners, once } from 'node:events';
import { PassThrough } from 'node:stream';
import {
  type CallHandler,
  type CanActivate,
  Controller,
  type ExecutionContext,
  ForbiddenException,
  Get,
  Inject,
  Injectable,
  type INestApplication,
  type NestInterceptor,
  Param,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import {
  file,
  McpHandlerTimeoutError,
  McpArgs,
  type McpContext,
  McpCtx,
  McpRegistry,
  McpSessionService,
  McpStreamableModule,
  type McpStreamableOptions,
  McpToolCaller,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { McpTaskService, McpTasksModule } from 'nestjs-mcp-streamable/tasks';
import {
  createMcpTestClient,
  expectNothingLeft,
  ManualClock,
  type McpTestClient,
  type McpTestClientOptions,
} from 'nestjs-mcp-streamable/testing';
import { catchError, finalize, NEVER, type Observable } from 'rxjs';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { gate } from '../support/app.js';
import { eventually } from '../support/test-apps.js';
import { TaskCaller } from '../tasks/tasks-app.js';

const LIMIT_MS = 1_000;
const Label = { type: 'object', properties: { label: { type: 'string' } } } as const;
const YES = { type: 'object', properties: { yes: { type: 'boolean' } } } as const;

/** What the handlers have done, in order, and what they wait for. */
@Injectable()
class Work {
  readonly seen: string[] = [];
  readonly signals: AbortSignal[] = [];
  running = 0;
  most = 0;
  readonly #doors = new Map<string, ReturnType<typeof gate<string>>>();

  door(label: string): ReturnType<typeof gate<string>> {
    let door = this.#doors.get(label);
    if (!door) this.#doors.set(label, (door = gate()));
    return door;
  }

  /** What another test has seen is forgotten. */
  reset(): void {
    this.seen.length = this.signals.length = this.most = 0;
    this.#doors.clear();
  }

  /** Runs until its door opens, whatever its signal says. */
  async until(label: string, ctx: McpContext): Promise<string> {
    this.seen.push(`${label} runs`);
    this.signals.push(ctx.signal);
    this.most = Math.max(this.most, ++this.running);
    try {
      return await this.door(label).promise;
    } finally {
      this.running--;
    }
  }
}

@Injectable()
class NotMallory implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    if (headers['x-user'] === 'mallory') throw new ForbiddenException('Not you.');
    return true;
  }
}

/** Runs the method again when it has failed. */
@Injectable()
class Again implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(catchError(() => next.handle()));
  }
}

/** Sees how what it surrounds has ended. */
@Injectable()
class Seeing implements NestInterceptor {
  constructor(@Inject(Work) private readonly work: Work) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(finalize(() => this.work.seen.push('interceptor left')));
  }
}

@Injectable()
class Limited {
  constructor(@Inject(Work) private readonly work: Work) {}

  @Tool({ name: 'slow', timeoutMs: LIMIT_MS, inputSchema: Label })
  slow(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }

  @Resource({ uri: 'slow://fixed', name: 'fixed', timeoutMs: LIMIT_MS, maxConcurrent: 1 })
  fixed(@McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until('fixed', ctx);
  }

  @ResourceTemplate({ uriTemplate: 'slow://{id}/of', name: 'of', timeoutMs: LIMIT_MS, maxConcurrent: 1 })
  of(@McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until('of', ctx);
  }

  @Prompt({ name: 'slow', timeoutMs: LIMIT_MS, maxConcurrent: 1 })
  prompt(@McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until('prompt', ctx);
  }

  @Tool({ name: 'observable', timeoutMs: LIMIT_MS, maxConcurrent: 1 })
  observable(): Observable<never> {
    return NEVER.pipe(finalize(() => this.work.seen.push('unsubscribed')));
  }

  @Tool({ name: 'file', timeoutMs: LIMIT_MS })
  file(): unknown {
    const stream = new PassThrough();
    stream.write('the beginning');
    stream.on('close', () => this.work.seen.push('destroyed'));
    return file(stream, { name: 'a.txt' });
  }

  @Tool({ name: 'asks', timeoutMs: LIMIT_MS })
  async asks(@McpCtx() ctx: McpContext): Promise<string> {
    await this.work.until('before', ctx);
    await ctx.elicit('sure', { message: 'Sure?', requestedSchema: YES });
    return this.work.until('after', ctx);
  }

  @Tool({ name: 'two', maxConcurrent: 2, timeoutMs: LIMIT_MS, inputSchema: Label })
  @UseGuards(NotMallory)
  two(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }

  @Tool({ name: 'surrounded', maxConcurrent: 1, inputSchema: Label })
  @UseInterceptors(Seeing)
  surrounded(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }

  @Tool({ name: 'patient', maxConcurrent: 1, inputSchema: Label })
  patient(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }

  @Tool({ name: 'each', maxConcurrent: { max: 1, per: 'principal' }, timeoutMs: LIMIT_MS, inputSchema: Label })
  each(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }

  @Tool({ name: 'again', maxConcurrent: 1, inputSchema: Label })
  @UseInterceptors(Again)
  async again(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    const times = this.work.seen.filter((text) => text === `${label} runs`).length;
    return this.work.until(times === 0 ? label : `${label} again`, ctx);
  }

  @Tool({ name: 'task', task: 'optional', maxConcurrent: 1, timeoutMs: LIMIT_MS, inputSchema: Label })
  task(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }

  @Tool({ name: 'reports', maxConcurrent: 1, inputSchema: Label })
  async reports(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    await ctx.progress(1, 2, label);
    return this.work.until(label, ctx);
  }
}

@Injectable()
class Busy {
  constructor(@Inject(Work) private readonly work: Work) {}

  /** Ends when its call does. */
  @Tool({ name: 'busy', task: 'optional', maxConcurrent: 2, inputSchema: Label })
  async busy(@McpArgs('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    this.work.most = Math.max(this.work.most, ++this.work.running);
    try {
      await ctx.progress(1, 2, label);
      const aborted = once(ctx.signal, 'abort').then(() => 'aborted');
      return await Promise.race([this.work.door('busy').promise, aborted]);
    } finally {
      this.work.running--;
    }
  }
}

@Controller()
class Routes {
  constructor(@Inject(Work) private readonly work: Work) {}

  @Get('routed/:label')
  @Tool({ name: 'routed', timeoutMs: LIMIT_MS, inputSchema: Label })
  routed(@Param('label') label: string, @McpCtx() ctx: McpContext): Promise<string> {
    return this.work.until(label, ctx);
  }
}

interface Started {
  readonly app: INestApplication;
  readonly clock: ManualClock;
  readonly work: Work;
  connect(options?: McpTestClientOptions): Promise<McpTestClient>;
}

const apps: Started[] = [];
const clients: McpTestClient[] = [];
let shared: Promise<Started> | undefined;

async function expectClean({ app, work }: Started): Promise<void> {
  await expectNothingLeft(app);
  for (const signal of work.signals) expect(getEventListeners(signal, 'abort')).toEqual([]);
}
async function stop({ app, clock }: Started): Promise<void> {
  await app.close();
  expect(clock.pending).toBe(0);
}
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  if (shared) await expectClean(await shared);
  for (const own of apps.splice(0)) {
    await expectClean(own);
    await stop(own);
  }
});
afterAll(async () => {
  if (shared) await stop(await shared);
});

/** The app of the tests without options, or one of its own: tasks outlive a test. */
async function start(options?: Partial<McpStreamableOptions>): Promise<Started> {
  const started = await (options ? make(options) : (shared ??= make({})));
  if (options) apps.push(started);
  started.work.reset();
  return started;
}

async function make(options: Partial<McpStreamableOptions>): Promise<Started> {
  const clock = new ManualClock();
  const testing = await Test.createTestingModule({
    imports: [
      McpStreamableModule.forRoot({
        serverInfo: { name: 'limits', version: '1.0.0' },
        principal: ({ headers }: { headers: Record<string, string> }) => headers['x-user'],
        ...options,
      }),
      McpTasksModule.forRoot(),
    ],
    controllers: [Routes],
    providers: [Work, Limited, Busy],
  })
    .overrideProvider(McpClock)
    .useValue(clock)
    .compile();
  const app = testing.createNestApplication(new FastifyAdapter(), { logger: false });
  await app.init();
  const connect = async (more: McpTestClientOptions = {}): Promise<McpTestClient> => {
    const client = await createMcpTestClient(app, more);
    clients.push(client);
    return client;
  };
  return { app, clock, work: app.get(Work), connect };
}

const seen = (work: Work, wanted: readonly string[]): Promise<void> =>
  eventually(() => expect(work.seen).toEqual(wanted));

/** Waits until so many calls are there, those that wait included. */
async function inFlight({ app, clock }: Started, count: number): Promise<void> {
  const sessions = app.get(McpSessionService, { strict: false });
  await eventually(async () => expect((await sessions.counts()).inFlight).toBe(count));
  // What they do until they run or wait takes no more than microtasks.
  await clock.advance(0);
}

const ERAS = ['legacy', 'modern'] as const;

describe.each(ERAS)('D32: a handler with timeoutMs (%s)', (era) => {
  it('a handler with timeoutMs is cancelled when it runs longer, and the model reads which tool and after how long', async () => {
    const { clock, work, connect } = await start();
    const mcp = await connect({ era });
    const call = mcp.callTool('slow', { label: 'A' });
    await seen(work, ['A runs']);
    await clock.advance(LIMIT_MS - 1);
    expect(work.signals[0]!.aborted).toBe(false);
    await clock.advance(1);
    const text =
      'The tool "slow" did not finish within 1000 ms ("timeoutMs") and was cancelled. Whether it had an effect is not known. Ask for less, or try again later.';
    expect(await call).toMatchObject({ isError: true, text });
    expect(work.signals[0]!.reason).toBeInstanceOf(McpHandlerTimeoutError);
    expect(work.signals[0]!.reason).toMatchObject({ code: 'HANDLER_TIMEOUT', message: text });
    work.door('A').open('too late');
  });

  it('a handler with timeoutMs answers within its time, and leaves no timer', async () => {
    const { clock, work, connect } = await start();
    const mcp = await connect({ era });
    const call = mcp.callTool('slow', { label: 'A' });
    await seen(work, ['A runs']);
    work.door('A').open('in time');
    expect((await call).text).toBe('in time');
    await clock.advance(LIMIT_MS);
    expect(work.signals[0]!.aborted).toBe(false);
  });

  it.each([
    ['resource', 'fixed', (mcp: McpTestClient) => mcp.read('slow://fixed'), 'The resource "slow://fixed"'],
    ['template', 'of', (mcp: McpTestClient) => mcp.read('slow://7/of'), 'The resource "slow://7/of"'],
    ['prompt', 'prompt', (mcp: McpTestClient) => mcp.prompt('slow'), 'The prompt "slow"'],
  ] as const)(
    'the timeout of a %s is a JSON-RPC error with the same text, and so is its turn',
    async (_kind, label, ask, name) => {
      const started = await start();
      const { clock, work, connect } = started;
      const mcp = await connect({ era });
      const asked = Promise.allSettled([ask(mcp), ask(mcp), ask(mcp)]);
      await inFlight(started, 3);
      await clock.advance(LIMIT_MS);
      // The place of the first is that of the second now; the third has waited too long.
      work.door(label).open('done');
      const [ran, second, waited] = await asked;
      expect(second.status).toBe('fulfilled');
      const error = (text: string) => ({ code: -32001, message: expect.stringContaining(text) });
      expect(ran).toMatchObject({ reason: error(`${name} did not finish within 1000 ms`) });
      const unstarted = `${name} was not started: at most 1 of its calls run at a time ("maxConcurrent")`;
      expect(waited).toMatchObject({ reason: error(unstarted) });
      expect(work.seen).toEqual([`${label} runs`, `${label} runs`]);
    },
  );

  it('a handler with timeoutMs that is a route too has the limit as a tool', async () => {
    const { clock, work, connect } = await start();
    const mcp = await connect({ era });
    const call = mcp.callTool('routed', { label: 'A' });
    await seen(work, ['A runs']);
    await clock.advance(LIMIT_MS);
    expect(await call).toMatchObject({ isError: true, text: expect.stringContaining('did not finish within 1000 ms') });
    work.door('A').open('too late');
  });

  it('a handler with timeoutMs that returns an Observable runs until that completes, and is unsubscribed', async () => {
    const { clock, work, connect } = await start();
    const mcp = await connect({ era });
    const call = mcp.callTool('observable');
    await eventually(() => expect(clock.pending).toBeGreaterThan(1));
    await clock.advance(LIMIT_MS);
    expect(await call).toMatchObject({ isError: true, text: expect.stringContaining('did not finish within 1000 ms') });
    expect(work.seen).toEqual(['unsubscribed']);
  });

  it('a handler with timeoutMs that returns a stream runs until that is read', async () => {
    const { clock, work, connect } = await start();
    const mcp = await connect({ era });
    const call = mcp.callTool('file');
    await eventually(() => expect(clock.pending).toBeGreaterThan(1));
    await clock.advance(LIMIT_MS);
    expect(await call).toMatchObject({ isError: true, text: expect.stringContaining('did not finish within 1000 ms') });
    await seen(work, ['destroyed']);
  });
});

describe.each(ERAS)('D32: a handler that asks its client (%s)', (era) => {
  it('a handler that asks its client is not charged for the time that the client takes to answer', async () => {
    const { clock, work, connect } = await start();
    const [asked, answer] = [gate(), gate()];
    const elicit = async () => {
      asked.open();
      await answer.promise;
      return { action: 'accept' as const, content: { yes: true } };
    };
    const mcp = await connect({ era, elicit });
    const call = mcp.callTool('asks');
    await seen(work, ['before runs']);
    await clock.advance(LIMIT_MS - 100);
    work.door('before').open('go on');
    await asked.promise;
    await clock.advance(20 * LIMIT_MS);
    answer.open();
    const run = ['before runs', ...(era === 'modern' ? ['before runs'] : []), 'after runs'];
    await seen(work, run);
    // What is left of its time; in revision 2026-07-28, where it runs again, it has the whole time.
    const leftMs = era === 'modern' ? LIMIT_MS : 100;
    await clock.advance(leftMs - 1);
    expect(work.signals.at(-1)!.aborted).toBe(false);
    await clock.advance(1);
    expect(await call).toMatchObject({ isError: true, text: expect.stringContaining('did not finish within 1000 ms') });
    work.door('after').open('too late');
  });
});

describe.each(ERAS)('D32: a handler with maxConcurrent (%s)', (era) => {
  it('a handler with maxConcurrent runs so many calls at a time, and the others in their order', async () => {
    const started = await start();
    const { work, connect } = started;
    const mcp = await connect({ era });
    const labels = ['A', 'B', 'C', 'D'];
    const calls = labels.map(async (label) => (await mcp.callTool('two', { label })).text);
    await inFlight(started, 4);
    expect(work.seen).toEqual(['A runs', 'B runs']);
    work.door('B').open('b');
    await seen(work, ['A runs', 'B runs', 'C runs']);
    work.door('A').open('a');
    await seen(work, ['A runs', 'B runs', 'C runs', 'D runs']);
    work.door('C').open('c');
    work.door('D').open('d');
    expect(await Promise.all(calls)).toEqual(['a', 'b', 'c', 'd']);
  });

  it('a handler with maxConcurrent tells the model of a call that waited longer than timeoutMs that it was not started', async () => {
    const started = await start();
    const { clock, work, connect } = started;
    const mcp = await connect({ era });
    const calls = ['A', 'B', 'C', 'D', 'E'].map((label) => mcp.callTool('two', { label }));
    await inFlight(started, 5);
    await clock.advance(LIMIT_MS);
    expect(await calls[4]).toMatchObject({
      isError: true,
      text: 'The tool "two" was not started: at most 2 of its calls run at a time ("maxConcurrent"), and this one waited 1000 ms for its turn ("timeoutMs"). Try again in a moment.',
    });
    for (const label of ['A', 'B', 'C', 'D']) work.door(label).open('done');
    expect((await calls[2])!.text).toBe('done');
    expect(work.seen).not.toContain('E runs');
  });

  it('a handler with maxConcurrent without timeoutMs lets calls wait until there is a place', async () => {
    const started = await start();
    const { clock, work, connect } = started;
    const mcp = await connect({ era });
    const calls = ['A', 'B'].map((label) => mcp.callTool('patient', { label }));
    await inFlight(started, 2);
    await clock.advance(100 * LIMIT_MS);
    work.door('B').open('b');
    work.door('A').open('a');
    expect((await Promise.all(calls)).map(({ text }) => text)).toEqual(['a', 'b']);
  });

  it('a handler with maxConcurrent does not run a call that was cancelled while it waited, and the next one takes its turn', async () => {
    const started = await start();
    const { work, connect } = started;
    const mcp = await connect({ era });
    const first = mcp.callTool('patient', { label: 'A' });
    await seen(work, ['A runs']);
    const leaving = new AbortController();
    const second = mcp.callTool('patient', { label: 'B' }, { signal: leaving.signal });
    await inFlight(started, 2);
    const third = mcp.callTool('patient', { label: 'C' });
    await inFlight(started, 3);
    leaving.abort();
    await expect(second).rejects.toThrow(/abort/i);
    await inFlight(started, 2);
    work.door('A').open('a');
    await first;
    await seen(work, ['A runs', 'C runs']);
    work.door('C').open('c');
    expect((await third).text).toBe('c');
    expect(work.seen).toEqual(['A runs', 'C runs']);
  });

  it('a handler with maxConcurrent completes the interceptors of a call that was cancelled while it waited', async () => {
    const started = await start();
    const { work, connect } = started;
    const mcp = await connect({ era });
    const first = mcp.callTool('surrounded', { label: 'A' });
    await seen(work, ['A runs']);
    const leaving = new AbortController();
    const second = mcp.callTool('surrounded', { label: 'B' }, { signal: leaving.signal });
    await inFlight(started, 2);
    leaving.abort();
    await expect(second).rejects.toThrow(/abort/i);
    await seen(work, ['A runs', 'interceptor left']);
    work.door('A').open('a');
    expect((await first).text).toBe('a');
  });

  it.each(['fails', 'is cancelled and goes on', 'loses its client'])(
    'a handler with maxConcurrent has a place again when a call %s',
    async (end) => {
      const started = await start();
      const { work, connect } = started;
      const [leaver, mcp] = [await connect({ era }), await connect({ era })];
      const leaving = new AbortController();
      const first = leaver.callTool('patient', { label: 'A' }, { signal: leaving.signal });
      const settled = Promise.allSettled([first]);
      await seen(work, ['A runs']);
      const second = mcp.callTool('patient', { label: 'B' });
      await inFlight(started, 2);
      if (end === 'fails') work.door('A').fail(new Error('broken'));
      else if (end === 'loses its client') await leaver.close();
      else leaving.abort();
      await seen(work, ['A runs', 'B runs']);
      work.door('B').open('b');
      expect((await second).text).toBe('b');
      await settled;
      work.door('A').open('too late');
    },
  );

  it('a handler with maxConcurrent gives its places only to callers that its guards accept', async () => {
    const started = await start();
    const { work, connect } = started;
    const mcp = await connect({ era });
    const mallory = await connect({ era, headers: { 'x-user': 'mallory' } });
    const calls = ['A', 'B', 'C'].map((label) => mcp.callTool('two', { label }));
    await inFlight(started, 3);
    await expect(mallory.callTool('two', { label: 'M' })).rejects.toThrow('not found');
    for (const label of ['A', 'B', 'C']) work.door(label).open('done');
    await Promise.all(calls);
    expect(work.seen).not.toContain('M runs');
  });

  it('a handler with maxConcurrent of each principal keeps the callers apart', async () => {
    const started = await start();
    const { clock, work, connect } = started;
    const of = (user?: string) => connect({ era, ...(user && { headers: { 'x-user': user } }) });
    const [anna, bert, nobody] = [await of('anna'), await of('bert'), await of()];
    const calls = [anna, bert, nobody].map((mcp, n) => mcp.callTool('each', { label: `${n}` }));
    await inFlight(started, 3);
    expect(work.seen).toEqual(['0 runs', '1 runs', '2 runs']);
    const more = ['next', 'late'].map((label) => anna.callTool('each', { label }));
    await inFlight(started, 5);
    work.door('1').open('done');
    await calls[1];
    expect(work.seen).toHaveLength(3);
    await clock.advance(LIMIT_MS);
    expect(await more[1]).toMatchObject({
      isError: true,
      text: expect.stringContaining('at most 1 of its calls run at a time for each caller'),
    });
    for (const label of ['0', '2', 'next']) work.door(label).open('done');
    expect((await more[0])!.text).toBe('done');
    await Promise.all(calls);
  });

  it('a handler with maxConcurrent counts its waiting calls for maxRunningCalls', async () => {
    const started = await start({ maxRunningCalls: 2 });
    const { work, connect } = started;
    const mcp = await connect({ era });
    const calls = ['A', 'B'].map((label) => mcp.callTool('patient', { label }));
    await inFlight(started, 2);
    await expect(mcp.callTool('patient', { label: 'C' })).rejects.toThrow(/maximum/);
    for (const label of ['A', 'B']) work.door(label).open('done');
    await Promise.all(calls);
  });

  it('a handler with maxConcurrent keeps its place when an interceptor runs the method again', async () => {
    const started = await start();
    const { work, connect } = started;
    const mcp = await connect({ era });
    const calls = ['A', 'B'].map((label) => mcp.callTool('again', { label }));
    await inFlight(started, 2);
    work.door('A').fail(new Error('once'));
    await seen(work, ['A runs', 'A again runs']);
    work.door('A again').open('a');
    work.door('B').open('b');
    expect((await Promise.all(calls)).map(({ text }) => text)).toEqual(['a', 'b']);
  });

  it('a handler with maxConcurrent sends progress of its running calls while others wait, and theirs in their turn', async () => {
    const started = await start();
    const { work, connect } = started;
    const mcp = await connect({ era });
    const messages: unknown[] = [];
    const onprogress = ({ message }: { message?: string | undefined }) => messages.push(message);
    const calls = ['A', 'B'].map((label) => mcp.callTool('reports', { label }, { onprogress }));
    await inFlight(started, 2);
    await eventually(() => expect(messages).toEqual(['A']));
    work.door('A').open('a');
    await eventually(() => expect(messages).toEqual(['A', 'B']));
    work.door('B').open('b');
    await Promise.all(calls);
  });

  it('a handler with maxConcurrent under load never runs more calls, and serves all of them', async () => {
    const started = await start();
    const { work, connect } = started;
    const callers = await Promise.all(Array.from({ length: 5 }, () => connect({ era })));
    work.door('x').open('done');
    const calls = callers.flatMap((mcp) => Array.from({ length: 40 }, () => mcp.callTool('two', { label: 'x' })));
    const results = await Promise.all(calls);
    expect(new Set(results.map(({ text }) => text))).toEqual(new Set(['done']));
    expect([work.most, work.running]).toEqual([2, 0]);
  });

  it.each([
    ['calls', false],
    ['tasks, where the era has them', undefined],
  ])(
    'a handler with maxConcurrent under load with progress and cancellation never runs more calls, and serves the others: %s',
    async (_what, tasks) => {
      const { work, connect } = await start();
      const callers = await Promise.all(Array.from({ length: 5 }, () => connect({ era, tasks })));
      const calls = callers.flatMap((mcp) =>
        Array.from({ length: 20 }, (_, n) => {
          const cancel = new AbortController();
          return { cancel, isCancelled: n % 3 === 0, ended: mcp.callTool('busy', { label: `${n}` }, cancel) };
        }),
      );
      const ended = Promise.allSettled(calls.map((call) => call.ended));
      await eventually(() => expect(work.running).toBe(2));
      for (const { cancel, isCancelled } of calls) if (isCancelled) cancel.abort();
      work.door('busy').open('done');
      const results = (await ended).map((end) => (end.status === 'fulfilled' ? end.value : undefined));
      for (const [at, { isCancelled }] of calls.entries()) {
        if (isCancelled) continue;
        expect([results[at]?.text, results[at]?.progress.length]).toEqual(['done', 1]);
      }
      await eventually(() => expect([work.most, work.running]).toEqual([2, 0]));
    },
  );

  it('a handler with maxConcurrent answers waiting calls with an error when the app shuts down', async () => {
    const started = await start({ drainMs: 0 });
    const { app, clock, work, connect } = started;
    const mcp = await connect({ era });
    const calls = Promise.allSettled(['A', 'B'].map((label) => mcp.callTool('patient', { label })));
    await inFlight(started, 2);
    await app.close();
    apps.pop();
    await calls;
    expect([clock.pending, work.seen]).toEqual([0, ['A runs']]);
    expect(work.signals[0]!.aborted).toBe(true);
    expect(getEventListeners(work.signals[0]!, 'abort')).toEqual([]);
    work.door('A').open('too late');
  });
});

describe('D32: anonymous callers of a handler with places of each principal', () => {
  it.each([
    ['legacy', 'are callers of their own with a session', ['A runs', 'B runs']],
    ['modern', 'are one caller without sessions', ['A runs']],
  ] as const)('(%s) %s', async (era, _claim, running) => {
    const started = await start();
    const { work, connect } = started;
    const clientsOf = [await connect({ era }), await connect({ era })];
    const calls = ['A', 'B'].map((label, n) => clientsOf[n]!.callTool('each', { label }));
    await inFlight(started, 2);
    expect(work.seen).toEqual(running);
    for (const label of ['A', 'B']) work.door(label).open('done');
    await Promise.all(calls);
  });
});

describe('D32: a call that waits for its turn', () => {
  it('a call that waits for its turn has its connection kept open by comments', async () => {
    const started = await start({ sseAfterMs: 100, keepAliveMs: 1_000 });
    const { clock, work, connect } = started;
    const mcp = await connect();
    const first = mcp.callTool('patient', { label: 'A' });
    await seen(work, ['A runs']);
    const params = { name: 'patient', arguments: { label: 'B' } };
    const posted = new TaskCaller(mcp.fetch).post('tools/call', params);
    await inFlight(started, 2);
    await clock.advance(100);
    const response = await posted;
    await clock.advance(3_000);
    work.door('A').open('a');
    work.door('B').open('b');
    expect((await response.text()).match(/^:/gm)).toHaveLength(3);
    expect((await first).text).toBe('a');
  });
});

describe('D32: a task of a tool with limits', () => {
  const begin = (mcp: McpTestClient, label: string) => mcp.callTool('task', { label });

  it('a task of a tool with limits is made at once, counts while its work runs, and ends with the text when its time is over', async () => {
    const started = await start({});
    const { clock, work, connect } = started;
    const mcp = await connect();
    const [first, second] = [begin(mcp, 'A'), begin(mcp, 'B')];
    const tasks = started.app.get(McpTaskService, { strict: false });
    await eventually(() => expect([tasks.running, work.seen]).toEqual([2, ['A runs']]));
    await clock.advance(LIMIT_MS);
    const text = 'did not finish within 1000 ms';
    expect(await first).toMatchObject({ isError: true, text: expect.stringContaining(text) });
    await seen(work, ['A runs', 'B runs']);
    work.door('B').open('b');
    expect((await second).text).toBe('b');
    const statuses = (await tasks.list()).map(({ status }) => status);
    // A result with `isError` is one (T2).
    expect(statuses).toEqual(['completed', 'completed']);
    work.door('A').open('too late');
  });

  it('a task of a tool with limits that is cancelled while it waits does not run', async () => {
    const started = await start({});
    const { work, connect } = started;
    const mcp = await connect();
    const first = begin(mcp, 'A');
    await seen(work, ['A runs']);
    const tasks = started.app.get(McpTaskService, { strict: false });
    const [running] = await tasks.list();
    const second = Promise.allSettled([begin(mcp, 'B')]);
    await eventually(() => expect(tasks.running).toBe(2));
    await tasks.cancel((await tasks.list()).find(({ id }) => id !== running!.id)!.id);
    await second;
    work.door('A').open('a');
    expect((await first).text).toBe('a');
    expect(work.seen).toEqual(['A runs']);
  });
});

describe('D32: a call from within the app', () => {
  it('a call from within the app has the limits of the tool, and leaves the queue when its subscriber does', async () => {
    const started = await start({});
    const { app, clock, work } = started;
    const tools = app.get(McpToolCaller, { strict: false });
    const first = tools.callTool('two', { label: 'A' });
    const second = tools.callTool('two', { label: 'B' });
    const unsubscribed = tools.callTool$('two', { label: 'C' }).subscribe();
    const fourth = tools.callTool('two', { label: 'D' });
    await inFlight(started, 4);
    unsubscribed.unsubscribe();
    work.door('A').open('a');
    await first;
    await seen(work, ['A runs', 'B runs', 'D runs']);
    await clock.advance(LIMIT_MS);
    for (const call of [second, fourth]) {
      const content = [{ text: expect.stringContaining('did not finish within 1000 ms') }];
      expect(await call).toMatchObject({ isError: true, content });
    }
    for (const label of ['B', 'D']) work.door(label).open('too late');
  });
});

describe('D32: a tool that is registered at run time', () => {
  it('a tool that is registered at run time has limits too, and shares its places with its replacement', async () => {
    const started = await start({});
    const { app, clock, work, connect } = started;
    const mcp = await connect();
    const handler = ({ label }: Record<string, unknown>, ctx: McpContext) => work.until(String(label), ctx);
    const limits = { timeoutMs: LIMIT_MS, maxConcurrent: 1 };
    const tool = app
      .get(McpRegistry, { strict: false })
      .registerTool({ name: 'registered', inputSchema: Label, ...limits, handler });
    const first = mcp.callTool('registered', { label: 'A' });
    await seen(work, ['A runs']);
    tool.update({ description: 'Another one.' });
    const second = mcp.callTool('registered', { label: 'B' });
    await inFlight(started, 2);
    expect(work.seen).toEqual(['A runs']);
    await clock.advance(LIMIT_MS);
    expect(await first).toMatchObject({
      isError: true,
      text: expect.stringContaining('did not finish within 1000 ms'),
    });
    await seen(work, ['A runs', 'B runs']);
    work.door('B').open('b');
    expect((await second).text).toBe('b');
    work.door('A').open('too late');
  });
});
