/* eslint-disable */
// @ts-nocheck
import { describe, it, afterEach } from 'vitest';
import { connect, constants } from 'node:http2';
import { once } from 'node:events';
import { Injectable, Scope } from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { ADAPTERS, TestApp, gate } from '../support/app.js';
import { modernApps } from '../support/modern-apps.js';
import { registryOf, logOf } from '../support/handlers-app.js';
import { ModernClient } from '../support/modern-client.js';
import { McpStreamableModule, McpSessionService, McpExecutionContext, Tool, Resource, ResourceTemplate, Prompt, Complete, McpCtx, McpArgs } from 'nestjs-mcp-streamable';
import { rawSocket, requestText } from '../support/raw-socket.js';
const timed = (p, ms = 3000) => Promise.race([p, new Promise((r) => setTimeout(() => r('HANG'), ms))]);
const show = (x) => { const s = typeof x === 'string' ? x : JSON.stringify(x); return s?.slice(0, 330); };
const out = (...a) => process.stderr.write('PP ' + a.map(show).join(' ') + '\n');
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const st = { n: 0, ab: 0 };
@Injectable()
class H {
  @Tool({ name: 'waits' }) waits(@McpCtx() ctx) { st.n++; ctx.signal.addEventListener('abort', () => st.ab++); return new Promise(() => {}); }
  @Tool({ name: 'streams' }) async streams(@McpCtx() ctx) { st.n++; ctx.signal.addEventListener('abort', () => st.ab++); await ctx.progress(1); return new Promise(() => {}); }
  @Tool({ name: 'ok' }) ok() { return 'ok'; }
  @ResourceTemplate({ uriTemplate: 'a://{ids*}/end', name: 't1' }) t1() { return 'x'; }
  @ResourceTemplate({ uriTemplate: 'b://{+path}{/seg*}/end', name: 't2' }) t2() { return 'x'; }
  @ResourceTemplate({ uriTemplate: 'c://{x}', name: 't3' }) t3(@McpArgs() a) { return JSON.stringify(a); }
}
@Injectable({ scope: Scope.REQUEST })
class R { constructor() { throw new Error('secret ctor'); } @Tool({ name: 'rs' }) rs() { return 'x'; } }

describe.each(['fastify'])('probe4 on %s', (adapter) => {
  it('h2', async () => {
    const endpoint = McpStreamableModule.forRoot({ serverInfo: { name: 'h2', version: '1' }, sseAfterMs: 100 });
    const testing = await Test.createTestingModule({ imports: [endpoint], providers: [H] }).compile();
    const app = testing.createNestApplication(new FastifyAdapter({ http2: true } as never));
    await app.listen(0, '127.0.0.1');
    const url = (await app.getUrl()).replace('[::1]', '127.0.0.1');
    const svc = app.get(McpSessionService, { strict: false });
    const session = connect(url);
    const c = new ModernClient(url + '/mcp');
    const post = (name) => { const m = c.message('tools/call', { name, arguments: {} }, { id: 1, progressToken: 1 }); const r = session.request({ ':path': '/mcp', ':method': 'POST', ...c.headersOf(m) }); r.on('error', () => {}); r.end(JSON.stringify(m)); return r; };
    const ok = post('ok'); const [h] = await once(ok, 'response'); let b = ''; ok.on('data', (d) => b += d); await once(ok, 'end'); out('h2 ok', h[':status'], b.slice(0, 60));
    const rs = Array.from({ length: 30 }, (_, i) => post(i % 2 ? 'waits' : 'streams'));
    while (st.n < 30) await sleep(10);
    await sleep(20);
    out('inflight', (await svc.counts()).inFlight);
    for (const r of rs.slice(0, 15)) r.close(constants.NGHTTP2_CANCEL);
    await sleep(300);
    out('after 15 resets', st, (await svc.counts()).inFlight);
    session.destroy(); await sleep(300);
    out('after destroy', st, (await svc.counts()).inFlight);
    await app.close();
  }, 20000);
});
describe.each(ADAPTERS)('probe4b on %s', (adapter) => {
  const start = modernApps(adapter, { providers: [H, R], sseAfterMs: 500, requestTimeoutMs: 5000 });
  it('uris', async () => {
    const { app, client } = await start();
    out(adapter, 'rs', await client.ask('tools/call', { name: 'rs', arguments: {} }));
    out(adapter, 'list', (await client.ask('tools/list')).result?.tools?.length);
    for (const uri of ['a://' + 'a,'.repeat(5000), 'a://' + ','.repeat(7000), 'b://' + '/'.repeat(7000), 'b://' + 'a/'.repeat(4000), 'b://' + ',/'.repeat(4000) + 'end', 'c://%E0%A4%A', 'c://%', 'c://constructor', 'c://' + 'x'.repeat(7000), '', 'c://\u0000']) {
      const t = Date.now();
      out(adapter, 'uri', uri.slice(0, 15), await timed(client.ask('resources/read', { uri }, {headers: {'mcp-name': '=?base64?' + Buffer.from(uri).toString('base64') + '?='}}).then((x) => x.error ?? x.result), 5000), Date.now() - t);
    }
    const t = Date.now();
    out(adapter, 'listen uris', await timed(client.request('subscriptions/listen', { notifications: { resourceSubscriptions: Array.from({ length: 1000 }, (_, i) => 'b://' + ',/'.repeat(900) + i) } }).then((x) => { x.destroy(); return x.status; }), 8000), Date.now() - t);
  }, 60000);
  it('2000', async () => {
    const { app, client } = await start({ handlers: { echo: async (a, ctx) => { await sleep(Math.random() * 50); await ctx.progress(1); return String(a.n); } } });
    const ids = [1, '1', -1, 0, '', 'x', 9007199254740991];
    const rs = await Promise.all(Array.from({ length: 1500 }, async (_, n) => { const id = ids[n % ids.length]; const r = await client.ask('tools/call', { name: 'echo', arguments: { n } }, { id, ...(n % 2 && { progressToken: 'same' }) });
      if (n % 10 === 0) { const m = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, _meta: client.message('x').params._meta } }; await (await client.post(m, { ...client.headersOf({ ...m, params: {} }) })).text(); }
      return r.id === id && r.result?.content?.[0]?.text === String(n); }));
    out(adapter, '1500 ok', rs.filter(Boolean).length);
  }, 60000);
});
