import { Injectable, Module } from '@nestjs/common';
import { McpSessionGuard, McpStreamableModule, McpToolCaller } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startFailure, TestApp, serverInfo } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { as, Never } from '../support/users.js';
import { AuditApp, PaymentTools, Records } from './audit-app.js';

/** All callers may use a session whose id they know. */
@Injectable()
class ForAll extends McpSessionGuard {
  protected override canAccess(): boolean {
    return true;
  }
}

describe('the audit of an endpoint', () => {
  let it_: AuditApp;
  beforeEach(() => {
    it_ = new AuditApp();
  });
  afterEach(() => it_.app.close());

  it('the audit of an endpoint has one record for each call, with who called what by which client, and its outcome', async () => {
    const app = await it_.start();
    const ann = await app.client(as('ann')).initialize();
    await (await ann.call('refund', { order: 'A-1' }, { id: 'first' })).text();
    await (await ann.call('refund', { order: 'none' })).text();
    await (await ann.call('refund', { order: 5 })).text();
    await (await ann.call('secret')).text();
    await (await ann.call('no such tool')).text();
    await (
      await ann.post({ jsonrpc: '2.0', id: 'r', method: 'resources/read', params: { uri: 'ledger://today' } })
    ).text();
    await (await ann.post({ jsonrpc: '2.0', id: 'p', method: 'prompts/get', params: { name: 'dun' } })).text();
    expect(it_.records.gists).toEqual([
      'served refund',
      'failed refund',
      'failed refund',
      'denied secret',
      'failed no such tool -32602',
      'served ledger://today',
      'served dun',
    ]);
    expect(it_.records.all[0]).toEqual({
      id: expect.stringMatching(/^\w{22}$/),
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      outcome: 'served',
      endpoint: 'mcp',
      nodeId: expect.stringMatching(/^\w+$/),
      method: 'tools/call',
      kind: 'tool',
      name: 'refund',
      principal: 'ann',
      ip: '127.0.0.1',
      clientName: 'raw',
      clientVersion: '1.0.0',
      sessionId: ann.sessionId,
      requestId: 'first',
      protocolVersion: '2025-11-25',
      arguments: { order: 'A-1' },
      argumentsHash: expect.stringMatching(/^sha256:[\da-f]{64}$/),
      durationMs: expect.any(Number),
    });
    expect(new Set(it_.records.all.map(({ id }) => id)).size).toBe(7);
    expect(it_.audit).toMatchObject({ written: 7, failures: 0, pending: 0 });
  });

  it('the audit of an endpoint has records of clients of revision 2026-07-28, which have no session', async () => {
    const app = await it_.start();
    const client = new ModernClient(app.url, as('bob'));
    await client.ask('tools/call', { name: 'refund', arguments: { order: 'B-2' } });
    await client.ask('tools/call', { name: 'confirm' }, { capabilities: { elicitation: {} } });
    expect(it_.records.gists).toEqual(['served refund', 'asked confirm']);
    expect(it_.records.all[0]).toMatchObject({ principal: 'bob', protocolVersion: '2026-07-28', clientName: 'raw' });
    expect(it_.records.all[0]).not.toHaveProperty('sessionId');
  });

  it('the audit of an endpoint has requests that are refused before there is a call, as far as they are known', async () => {
    const app = await it_.start(undefined, { maxSessionsPerPrincipal: 1 });
    const ann = await app.client(as('ann')).initialize();
    const bob = app.client(as('bob'));
    bob.sessionId = ann.sessionId;
    await (await bob.call('refund', { order: 'stolen' })).text();
    await (await app.client(as('ann')).post(app.client().initializeMessage())).text();
    await (await app.client().post('{', { origin: 'https://evil.example' })).text();
    expect(it_.records.gists).toEqual(['refused refund 404', 'refused initialize 429', 'refused 403']);
    expect(it_.records.all[0]).toEqual({
      id: expect.any(String),
      time: expect.any(String),
      outcome: 'refused',
      endpoint: 'mcp',
      nodeId: expect.any(String),
      method: 'tools/call',
      kind: 'tool',
      name: 'refund',
      principal: 'bob',
      ip: '127.0.0.1',
      status: 404,
      reason: 'SESSION_NOT_FOUND',
    });
    expect(it_.records.all[1]).toMatchObject({ principal: 'ann', option: 'maxSessionsPerPrincipal' });
    expect(it_.records.all[2]).not.toHaveProperty('principal');
  });

  it('the audit of an endpoint has no refusals with "refusals: false"', async () => {
    const app = await it_.start({ refusals: false });
    await (await app.client().post('{')).text();
    expect(it_.records.all).toEqual([]);
  });

  it('the audit of an endpoint has nothing of lists and pings, unless they fail', async () => {
    const app = await it_.start();
    const client = await app.client().initialize();
    for (const method of ['tools/list', 'ping', 'resources/list', 'prompts/list'])
      await (await client.post({ jsonrpc: '2.0', id: method, method })).text();
    const params = { cursor: 'odd' };
    await (await client.post({ jsonrpc: '2.0', id: 'l', method: 'tools/list', params })).text();
    await (await client.post({ jsonrpc: '2.0', id: 'u', method: `x${'y'.repeat(5_000)}` })).text();
    expect(it_.records.gists).toEqual(['failed tools/list -32602', `failed x${'y'.repeat(255)}… -32601`]);
  });

  it('the audit of an endpoint has a hash instead of the id of an anonymous session, whose id is its only credential', async () => {
    const app = await it_.start();
    const client = await app.client().initialize();
    await (await client.call('refund', { order: 'A-1' })).text();
    expect(it_.records.all[0]!.sessionId).toMatch(/^sha256:/);
    expect(JSON.stringify(it_.records.all)).not.toContain(client.sessionId);
  });

  it('the audit of an endpoint has a hash instead of the id for the anonymous owner of a session that another caller used first', async () => {
    const app = await it_.start({}, { sessionGuard: ForAll });
    const owner = await app.client().initialize();
    const staff = app.client(as('ann'));
    staff.sessionId = owner.sessionId;
    for (const client of [staff, owner]) await (await client.call('refund', { order: 'A-1' })).text();
    expect(it_.records.all.map(({ principal, sessionId }) => [principal, sessionId])).toEqual([
      ['ann', owner.sessionId],
      [undefined, expect.stringMatching(/^sha256:/)],
    ]);
  });

  it('the audit of an endpoint has cancelled calls, and those that the app itself makes', async () => {
    const app = await it_.start();
    const client = await app.client(as('ann')).initialize();
    const waiting = client.call('waits', {}, { id: 'w' });
    await expect.poll(() => it_.tools.runs).toEqual(['waits']);
    await client.notify('notifications/cancelled', { requestId: 'w' });
    await (await waiting).text();
    await app.app.get(McpToolCaller).callTool('refund', { order: 'C-3' }, { principal: 'cron' });
    expect(it_.records.all).toMatchObject([
      { outcome: 'cancelled', name: 'waits', principal: 'ann' },
      { outcome: 'served', name: 'refund', principal: 'cron', clientName: 'within' },
    ]);
  });

  it('the audit of an endpoint names the trace that the client sends, and none that is no trace', async () => {
    const app = await it_.start();
    const client = new ModernClient(app.url);
    const trace = '0af7651916cd43dd8448eb211c80319c';
    const sent = [`00-${trace}-b7ad6b7169203331-01`, `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, 'x', 5];
    for (const traceparent of sent) await client.ask('tools/call', { name: 'confirm' }, { meta: { traceparent } });
    expect(it_.records.all.map(({ traceId }) => traceId)).toEqual([trace, undefined, undefined, undefined]);
  });

  it('the audit of an endpoint has the client that sent a call, though many call at the same time', async () => {
    const app = await it_.start();
    const users = Array.from({ length: 20 }, (_, index) => `user${index}`);
    await Promise.all(
      users.map((user) =>
        new ModernClient(app.url, as(user)).ask('tools/call', { name: 'close', arguments: { user } }),
      ),
    );
    expect(it_.records.all.map(({ principal, arguments: args }) => [principal, args])).toEqual(
      expect.arrayContaining(users.map((user) => [user, { user }])),
    );
    expect(it_.records.all).toHaveLength(20);
  });
});

describe('the audit of an app', () => {
  it('the audit of an app covers all of its endpoints, each under its name', async () => {
    const records = new Records();
    @Module({
      imports: [
        McpStreamableModule.forRoot({ serverInfo, name: 'staff', path: 'staff' }),
        McpStreamableModule.forRoot({ serverInfo, path: 'mcp' }),
        McpAuditModule.forRoot({ sink: records }),
      ],
      providers: [PaymentTools, Never],
    })
    class App {}
    const app = await TestApp.of('fastify', { imports: [App] });
    await new ModernClient(`${app.base}/mcp`).ask('tools/call', { name: 'nothing' });
    await new ModernClient(`${app.base}/staff`).ask('tools/call', { name: 'nothing' });
    expect(records.all.map(({ endpoint }) => endpoint)).toEqual(['mcp', 'staff']);
    await app.shutDown();
  });

  it('several audits of an app record each call by their own options, and each that is required may refuse it', async () => {
    const [all, required] = [new Records(), new Records()];
    const app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo }),
        McpAuditModule.forRoot({ sink: all }),
        McpAuditModule.forRoot({ sink: required, required: true, redact: ['amount'], refusals: false }),
      ],
      providers: [PaymentTools, Never],
    });
    const client = new ModernClient(`${app.base}/mcp`);
    const close = async () => client.ask('tools/call', { name: 'close', arguments: { amount: 5, password: 'x' } });
    await close();
    expect(all.gists).toEqual(['served close']);
    expect(all.all[0]!.arguments).toEqual({ amount: 5, password: '[redacted]' });
    expect(required.gists).toEqual(['attempt close', 'served close']);
    expect(required.all[1]!.arguments).toEqual({ amount: '[redacted]', password: 'x' });
    required.write = () => {
      throw new Error('full');
    };
    expect((await close()).error).toMatchObject({ code: -32000 });
    expect(all.gists).toEqual(['served close', 'failed close -32000', 'refused close 503']);
    await app.close();
  });

  it('the audit of an app without an endpoint does not start, and says what to import', async () => {
    const error = await startFailure('fastify', () => ({ imports: [McpAuditModule.forRoot()] }));
    expect(error.message).toContain('Import McpStreamableModule.forRoot() too.');
  });

  it.each<[string, object, string]>([
    [
      'a function as sink',
      { sink: () => undefined },
      'The option "sink" must be an object with the method write(record)',
    ],
    ['a sink without a method', { sink: {} }, 'The option "sink" must be an object with the method write(record)'],
    ['a name that is no text', { redact: ['a', 5] }, 'The option "redact" must be an array of names'],
    ['a short key', { hashKey: 'short' }, 'at least 32 bytes'],
    ['no places', { maxPending: 0 }, 'The option "maxPending"'],
    ['an unknown option', { sinks: [] }, 'Did you mean "sink"?'],
  ])('the audit of an app is refused with %s', (_, options, text) => {
    expect(() => McpAuditModule.forRoot(options)).toThrow(text);
  });
});
