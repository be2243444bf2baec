import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable, UseGuards } from '@nestjs/common';
import {
  getMcpToken,
  McpArgs,
  type McpCallEnd,
  type McpCallInfo,
  type McpContext,
  McpCtx,
  type McpInstrumentation,
  type McpSessionEnd,
  McpSessionService,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { Observable } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ModernClient } from '../support/modern-client.js';
import { TestApp, serverInfo } from '../support/app.js';
import { Never } from '../support/users.js';

const spans = new AsyncLocalStorage<string>();

@Injectable()
class Tools {
  @Tool({ name: 'where', description: 'Says in which span it runs' })
  where(): Observable<string> {
    return new Observable((subscriber) => {
      subscriber.next(spans.getStore() ?? 'none');
      subscriber.complete();
    });
  }

  @Tool({ name: 'fails', description: 'Fails', inputSchema: z.object({ n: z.number() }) })
  fails(@McpArgs() { n }: { n: number }): never {
    throw new Error(`no ${n}`);
  }

  @Tool({ name: 'denied', description: 'Lets nobody in' })
  @UseGuards(Never)
  denied(): string {
    return 'in';
  }

  @Tool({ name: 'waits', description: 'Waits for its end' })
  waits(@McpCtx() ctx: McpContext): Promise<string> {
    return new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('over')));
  }
}

/** Keeps what it sees. */
class Recorder implements McpInstrumentation {
  readonly began: McpCallInfo[] = [];
  readonly ends: McpCallEnd[] = [];
  readonly sessions: McpSessionEnd[] = [];

  call<T>(info: McpCallInfo, run: () => T): T {
    this.began.push(info);
    return spans.run(`span of ${info.method} ${info.name ?? ''}`.trim(), run);
  }
  sessionEnded(end: McpSessionEnd): void {
    this.sessions.push(end);
    throw new Error('an instrumentation that fails');
  }
  ended(end: McpCallEnd): void {
    this.ends.push(end);
    throw new Error('an instrumentation that fails');
  }
}

function raise(text: string): never {
  throw new Error(text);
}

async function rejectsLater(_: McpCallInfo, run: () => unknown): Promise<never> {
  await run();
  raise('later');
}

describe('calls that are observed', () => {
  let app: TestApp;
  afterEach(() => app.close());

  async function start(instrumentation?: McpInstrumentation): Promise<McpSessionService> {
    const options = { serverInfo, ...(instrumentation && { instrumentation }) };
    app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot(options)],
      providers: [Tools, Never],
    });
    return app.app.get<McpSessionService>(getMcpToken(McpSessionService), { strict: false });
  }

  it('calls that are observed run inside of the instrumentation, guards, handler and Observable alike, in both eras', async () => {
    const recorder = new Recorder();
    await start(recorder);
    const legacy = await app.client().initialize();
    const answer = await (await legacy.call('where')).json();
    expect(answer).toMatchObject({ result: { content: [{ text: 'span of tools/call where' }] } });
    const modern = new ModernClient(app.client().url);
    const { result } = await modern.ask('tools/call', { name: 'where', arguments: {} });
    expect(result).toMatchObject({ content: [{ text: 'span of tools/call where' }] });
    expect(recorder.began).toMatchObject([
      {
        era: 'legacy',
        method: 'initialize',
        name: undefined,
        sessionId: legacy.sessionId,
        protocolVersion: '2025-11-25',
      },
      { era: 'legacy', method: 'tools/call', name: 'where', sessionId: legacy.sessionId, principal: undefined },
      { era: 'modern', method: 'tools/call', name: 'where', sessionId: undefined, protocolVersion: '2026-07-28' },
    ]);
    expect(recorder.began[2]!.meta).toMatchObject({ 'io.modelcontextprotocol/protocolVersion': '2026-07-28' });
    expect(recorder.ends.map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'ok']);
    expect(recorder.ends.every(({ durationMs }) => durationMs >= 0)).toBe(true);
  });

  it('calls that are observed end once, with what became of them', async () => {
    const sessions = await start();
    const client = await app.client().initialize();
    const ends: string[] = [];
    const hearing = sessions.calls$.subscribe(({ call, outcome }) =>
      ends.push(`${call.name ?? call.method} ${outcome}`),
    );
    await (await client.call('fails', { n: 1 })).text();
    await (await client.call('fails', { n: 'one' })).text();
    await (await client.call('denied')).text();
    await (await client.call('there is none')).text();
    await (await client.post({ jsonrpc: '2.0', id: 'odd', method: 'no/such/method' })).text();
    const waiting = client.call('waits', {}, { id: 'waiting' });
    await expect.poll(() => sessions.counts().then(({ inFlight }) => inFlight)).toBe(1);
    await client.notify('notifications/cancelled', { requestId: 'waiting' });
    await (await waiting).text();
    expect(ends).toEqual([
      'fails tool_error',
      'fails tool_error',
      'denied denied',
      'there is none -32602',
      'no/such/method -32601',
      'waits cancelled',
    ]);
    hearing.unsubscribe();
    await (await client.call('where')).text();
    expect(ends).toHaveLength(6);
  });

  it('calls that are observed say whether there is a handler of their name, and what it returned', async () => {
    const sessions = await start();
    const client = await app.client().initialize();
    const ends: McpCallEnd[] = [];
    sessions.calls$.subscribe((end) => ends.push(end));
    for (const name of ['where', 'fails', 'denied', 'there is none']) await (await client.call(name, { n: 1 })).text();
    expect(ends.map(({ call, handled }) => [call.name, handled])).toEqual([
      ['where', true],
      ['fails', true],
      ['denied', true],
      ['there is none', false],
    ]);
    expect(ends[0]!.result).toMatchObject({ content: [{ text: 'none' }] });
    expect(ends[3]!.result).toBeUndefined();
  });

  it('last as long as a subscription of a modern client does, and end well when it closes its response', async () => {
    const recorder = new Recorder();
    const sessions = await start(recorder);
    const modern = new ModernClient(app.client().url);
    const response = await modern.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
    await response.sse().count(1);
    expect(recorder.began).toMatchObject([{ era: 'modern', method: 'subscriptions/listen' }]);
    expect(recorder.ends).toEqual([]);
    response.destroy();
    await expect.poll(() => recorder.ends).toMatchObject([{ outcome: 'ok', call: { method: 'subscriptions/listen' } }]);
    expect(await sessions.counts()).toMatchObject({ subscriptions: 0 });
  });

  it('the end of an observed session is reported once, with how long they were', async () => {
    const recorder = new Recorder();
    const sessions = await start(recorder);
    const ends: McpSessionEnd[] = [];
    sessions.ends$.subscribe((end) => ends.push(end));
    const client = await app.client().initialize();
    await client.delete();
    const end = { sessionId: client.sessionId, protocolVersion: '2025-11-25', durationMs: expect.any(Number) };
    await expect.poll(() => recorder.sessions).toEqual([end]);
    expect(ends).toEqual([end]);
  });

  it('calls that are observed cost nothing while they are not observed: nothing is made of a call', async () => {
    const sessions = await start();
    const client = await app.client().initialize();
    expect(await (await client.call('where')).json()).toMatchObject({ result: { content: [{ text: 'none' }] } });
    expect(sessions.calls$).toBeInstanceOf(Observable);
  });

  it.each<[string, McpInstrumentation['call'], string[]]>([
    ['throws before the call', () => raise('early'), ['early']],
    ['throws after it', (_, run) => [run(), raise('late')] as never, ['late']],
    ['returns nothing', (_, run) => void run() as never, []],
    ['runs it twice', (_, run) => [run(), run()][1]!, []],
    ['rejects after it', rejectsLater as never, ['later']],
  ])('calls that are observed have their own outcome, once, if an instrumentation %s', async (_, call, reported) => {
    await start({ call });
    const modern = new ModernClient(app.client().url);
    const { result } = await modern.ask('tools/call', { name: 'where', arguments: {} });
    expect(result).toMatchObject({ content: [{ text: 'none' }] });
    expect(await modern.ask('no/such/method')).toMatchObject({ error: { code: -32601 } });
    const { result: failed } = await modern.ask('tools/call', { name: 'fails', arguments: { n: 1 } });
    expect(failed).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('no 1') }] });
    const told = app.log.texts('error').filter((text) => !text.startsWith('Tools.fails'));
    expect([...new Set(told)]).toEqual(reported);
  });

  it('calls that are observed end well though an instrumentation that writes down their ends, and those of sessions, rejects', async () => {
    const rejects = async (): Promise<void> => raise('away');
    await start({ call: (_, run) => run(), ended: rejects, sessionEnded: rejects });
    const client = await app.client().initialize();
    await client.delete();
    await expect.poll(() => app.log.texts('error')).toEqual(['away', 'away']);
  });

  it('calls that are observed need an instrumentation that is one', async () => {
    const options = { serverInfo, instrumentation: { ended: () => {} } as never };
    const starting = TestApp.of('fastify', { imports: [McpStreamableModule.forRoot(options)] });
    await expect(starting).rejects.toThrow(/"instrumentation".*call/);
    await start();
  });
});
