import { Inject, Injectable, Logger, Module } from '@nestjs/common';
import { McpStreamableModule, McpToolCaller } from 'nestjs-mcp-streamable';
import {
  McpAuditModule,
  type McpAuditModuleAsyncOptions,
  type McpAuditOptions,
  type McpAuditRecord,
  type McpAuditSink,
} from 'nestjs-mcp-streamable/audit';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestApp, serverInfo } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { Never } from '../support/users.js';
import { AuditApp, PaymentTools, Records } from './audit-app.js';

const refund = { name: 'refund', arguments: { order: 'A-1' } };
const SERVED = { result: { content: [{ text: 'refunded A-1' }] } };

/** A sink that a test fails, and holds. */
class FaultySink extends Records {
  fault: 'none' | 'throws' | 'rejects' | 'hangs' = 'none';
  readonly held: (() => void)[] = [];

  override write(record: McpAuditRecord): undefined {
    return this.#write(record) as undefined;
  }

  #write(record: McpAuditRecord): Promise<void> | void {
    if (this.fault === 'throws') throw new Error('The disk is full.');
    if (this.fault === 'rejects') return Promise.reject(new Error('The table is locked'));
    this.all.push(record);
    if (this.fault === 'hangs') return new Promise((resolve) => this.held.push(resolve));
  }

  release(): void {
    this.fault = 'none';
    for (const resolve of this.held.splice(0)) resolve();
  }
}

describe('a sink', () => {
  let it_: AuditApp;
  let clock: ManualClock;
  let sink: FaultySink;
  beforeEach(() => {
    [it_, clock, sink] = [new AuditApp(), new ManualClock(), new FaultySink()];
  });
  afterEach(async () => {
    sink.release();
    await it_.app.close();
  });
  const start = async (options: McpAuditOptions = {}): Promise<ModernClient> => {
    await it_.start({ sink, ...options }, {}, clock);
    return new ModernClient(it_.app.url);
  };
  const lines = (): string[] => it_.app.log.texts('error').filter((text) => text.includes('record was not written'));

  it.each(['throws', 'rejects'] as const)(
    'a sink that %s costs no call; what is lost is counted, and logged once a minute',
    async (fault) => {
      const client = await start();
      sink.fault = fault;
      for (let count = 0; count < 3; count++) expect(await client.ask('tools/call', refund)).toMatchObject(SERVED);
      expect(it_.audit).toMatchObject({ failures: 3, written: 0, pending: 0 });
      expect(lines()).toEqual([
        expect.stringMatching(/The (disk is full|table is locked)\. The number of records .* is 1\./),
      ]);
      await clock.advance(60_000);
      await client.ask('tools/call', refund);
      expect(lines()).toHaveLength(2);
      expect(lines()[1]).toContain('since the start is 4.');
      sink.release();
      await client.ask('tools/call', refund);
      expect(it_.audit).toMatchObject({ failures: 4, written: 1 });
    },
  );

  it('a sink that hangs costs no call, and takes no more memory than it has places', async () => {
    const client = await start({ maxPending: 5 });
    sink.fault = 'hangs';
    for (let count = 0; count < 12; count++) expect(await client.ask('tools/call', refund)).toMatchObject(SERVED);
    expect(it_.audit).toMatchObject({ pending: 5, failures: 7, written: 0 });
    expect(sink.all).toHaveLength(5);
    await clock.advance(5_000);
    expect(it_.audit).toMatchObject({ pending: 5, failures: 12 });
    expect(lines()).toHaveLength(1);
    sink.release();
    await clock.advance(0);
    await client.ask('tools/call', refund);
    expect(it_.audit).toMatchObject({ pending: 0, failures: 12, written: 1 });
  });

  /** Calls from within: no network plays a part. */
  async function manyCalls(): Promise<void> {
    const caller = it_.app.app.get(McpToolCaller);
    await Promise.all(Array.from({ length: 200 }, (_, n) => caller.callTool('refund', { order: `${n}` })));
  }

  it('a sink gets each of many calls at once', async () => {
    await start({ maxPending: 20 });
    await manyCalls();
    expect(new Set(sink.all.map(({ arguments: args }) => JSON.stringify(args))).size).toBe(200);
    expect(it_.audit).toMatchObject({ written: 200, failures: 0, pending: 0 });
  });

  it('a sink that hangs during many calls has as many of their records as places, and the others are counted', async () => {
    await start({ maxPending: 20 });
    sink.fault = 'hangs';
    await manyCalls();
    expect(it_.audit).toMatchObject({ pending: 20, failures: 180 });
    expect([sink.all.length, it_.tools.runs.length, clock.pending]).toEqual([20, 200, 21]);
    sink.release();
    await clock.advance(0);
    expect(it_.audit).toMatchObject({ pending: 0, written: 20 });
    expect(clock.pending).toBe(1);
  });

  it('a sink that hangs during a flood of refusals has places for calls, and loses no refusal', async () => {
    const client = await start({ maxPending: 2, required: true });
    const refused = async () => (await it_.app.client().post('x', { 'content-type': 'text/plain' })).text();
    sink.fault = 'hangs';
    for (let count = 0; count < 50; count++) await refused();
    expect(it_.audit).toMatchObject({ pending: 1, failures: 0 });
    sink.release();
    await clock.advance(1_000);
    expect(await client.ask('tools/call', refund)).toMatchObject(SERVED);
    await refused();
    expect(sink.gists).toEqual(['refused 415', 'refused 415', 'attempt refund', 'served refund']);
    expect(sink.all[0]).not.toHaveProperty('count');
    expect(sink.all[1]).toMatchObject({ count: 49, status: 415, ip: '127.0.0.1' });
    await clock.advance(1_000);
    expect(sink.all[4]).toMatchObject({ outcome: 'refused', status: 415 });
    expect(clock.pending).toBe(1);
    expect(it_.audit).toMatchObject({ pending: 0, failures: 0, written: 5 });
  });

  it('a sink has its last records before the app has closed', async () => {
    const client = await start();
    sink.fault = 'hangs';
    await client.ask('tools/call', refund);
    let closed = false;
    const closing = it_.app.shutDown().then(() => (closed = true));
    await clock.advance(1_000);
    expect(closed).toBe(false);
    sink.release();
    await closing;
    expect(it_.audit).toMatchObject({ written: 1, pending: 0 });
    // What `afterEach` closes.
    it_ = new AuditApp();
    await it_.start();
  });

  describe('that is required', () => {
    it('a sink that is required has the attempt before the handler runs, then the outcome with the same id', async () => {
      const client = await start({ required: true });
      sink.fault = 'hangs';
      const answer = client.ask('tools/call', refund);
      await clock.advance(0);
      await expect
        .poll(() => sink.all)
        .toMatchObject([{ outcome: 'attempt', name: 'refund', arguments: { order: 'A-1' } }]);
      expect(it_.tools.runs).toEqual([]);
      sink.release();
      expect(await answer).toMatchObject(SERVED);
      expect(sink.gists).toEqual(['attempt refund', 'served refund']);
      expect(sink.all[0]!.id).toBe(sink.all[1]!.id);
    });

    it.each(['throws', 'rejects'] as const)(
      'a required sink %s: no handler runs, and the client may try again',
      async (fault) => {
        const client = await start({ required: true });
        sink.fault = fault;
        const refused = await client.request('tools/call', refund);
        expect([refused.status, refused.header('retry-after')]).toEqual([503, '5']);
        expect(await refused.text()).toMatch(/"code":-32000,"message":"This server records each call/);
        const legacy = await it_.app.client().initialize();
        expect(await (await legacy.call('refund', refund.arguments)).json()).toMatchObject({ error: { code: -32000 } });
        const read = { jsonrpc: '2.0', id: 'r', method: 'resources/read', params: { uri: 'ledger://today' } };
        expect(await (await legacy.post(read)).json()).toMatchObject({ error: { code: -32000 } });
        expect(it_.tools.runs).toEqual([]);
        expect(await (await legacy.post({ jsonrpc: '2.0', id: 'l', method: 'tools/list' })).json()).toHaveProperty(
          'result',
        );
        sink.release();
        expect(await client.ask('tools/call', refund)).toMatchObject(SERVED);
      },
    );

    it('a required sink hangs: the call is refused when its time is over, and at once when there is no place', async () => {
      const client = await start({ required: true, maxPending: 1, timeoutMs: 2_000 });
      sink.fault = 'hangs';
      const first = client.request('tools/call', refund);
      await expect.poll(() => it_.audit.pending).toBe(1);
      expect((await client.request('tools/call', refund)).status).toBe(503);
      await clock.advance(2_000);
      // By then its response has become a stream.
      expect(await (await first).text()).toMatch(/"code":-32000,"message":"This server records each call/);
      expect(it_.tools.runs).toEqual([]);
    });

    it('a required sink is slow: a call that is cancelled meanwhile has no effect', async () => {
      await start({ required: true });
      const client = await it_.app.client().initialize();
      sink.fault = 'hangs';
      const call = client.call('refund', refund.arguments, { id: 'c' });
      await expect.poll(() => sink.all).toHaveLength(1);
      await client.notify('notifications/cancelled', { requestId: 'c' });
      await (await call).text();
      sink.release();
      await clock.advance(0);
      expect(it_.tools.runs).toEqual([]);
      expect(sink.gists).toEqual(['attempt refund', 'cancelled refund']);
    });
  });
});

describe('the sink of an app', () => {
  @Injectable()
  class Table {
    readonly rows: McpAuditRecord[] = [];
  }
  @Module({ providers: [Table], exports: [Table] })
  class TableModule {}
  @Injectable()
  class TableSink implements McpAuditSink {
    constructor(@Inject(Table) private readonly table: Table) {}
    async write(record: McpAuditRecord): Promise<void> {
      this.table.rows.push(record);
      await Promise.resolve();
    }
  }
  @Injectable()
  class AuditConfig {
    constructor(@Inject(TableSink) private readonly sink: TableSink) {}
    createMcpAuditOptions(): McpAuditOptions {
      return { sink: this.sink };
    }
  }
  @Module({ imports: [TableModule], providers: [TableSink, AuditConfig], exports: [TableSink, AuditConfig] })
  class ConfigModule {}
  const asynchronously = (options: McpAuditModuleAsyncOptions) => McpAuditModule.forRootAsync(options);

  it.each([
    ['a class with what the module imports', () => McpAuditModule.forRoot({ sink: TableSink, imports: [TableModule] })],
    ['a class that a module provides', () => McpAuditModule.forRoot({ sink: TableSink, imports: [ConfigModule] })],
    [
      'from useFactory',
      () =>
        asynchronously({
          imports: [ConfigModule],
          inject: [TableSink],
          useFactory: (sink: TableSink) => Promise.resolve({ sink }),
        }),
    ],
    [
      'a class, from useFactory',
      () => asynchronously({ imports: [TableModule], useFactory: () => ({ sink: TableSink }) }),
    ],
    ['from useClass', () => asynchronously({ imports: [ConfigModule], useClass: AuditConfig })],
    ['from useExisting', () => asynchronously({ imports: [ConfigModule], useExisting: AuditConfig })],
  ])('the sink of an app may be %s', async (_, audit) => {
    const app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo }), audit()],
      providers: [PaymentTools, Never],
    });
    await new ModernClient(app.url).ask('tools/call', refund);
    expect(app.app.get(Table, { strict: false }).rows).toMatchObject([{ outcome: 'served', name: 'refund' }]);
    await app.close();
  });

  it('the sink of an app is the log of the app by default: one line of JSON for each record, without raw control characters', async () => {
    const app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo }), McpAuditModule.forRoot()],
      providers: [PaymentTools, Never],
    });
    const order = 'a\u001b[2J\u007f\u0085\u009b2J\u2028\u202e\u2066\u{e0041}z';
    await new ModernClient(app.url).ask('tools/call', { name: 'refund', arguments: { order } });
    const [line, ...others] = app.log.texts('log').filter((text) => text.startsWith('{"'));
    expect(JSON.parse(line!)).toMatchObject({ outcome: 'served', name: 'refund', arguments: { order } });
    expect(line).toContain(String.raw`a\u001b[2J\u007f\u0085\u009b2J\u2028\u202e\u2066\udb40\udc41z`);
    expect(others).toEqual([]);
    await app.close();
    Logger.flush();
  });
});
