/* eslint-disable */
// @ts-nocheck
import { describe, it, afterEach } from 'vitest';
import { Injectable, UseGuards, UseInterceptors, UseFilters, UnauthorizedException, ForbiddenException, createParamDecorator } from '@nestjs/common';
import { ADAPTERS, TestApp, gate } from '../support/app.js';
import { modernApps } from '../support/modern-apps.js';
import { registryOf, logOf } from '../support/handlers-app.js';
import { ModernClient } from '../support/modern-client.js';
import { as } from '../support/users.js';
import { rawSocket, requestText } from '../support/raw-socket.js';
import { McpExecutionContext, Tool, Resource, ResourceTemplate, Prompt, Complete, McpCtx, McpArgs } from 'nestjs-mcp-streamable';
import { Observable, of, throwError, tap, map, concat, defer, from, interval, catchError } from 'rxjs';
import { z } from 'zod';

const timed = (p, ms = 3000) => Promise.race([p, new Promise((r) => setTimeout(() => r('HANG'), ms))]);
const show = (x) => { const s = typeof x === 'string' ? x : JSON.stringify(x); return s?.slice(0, 330); };
const out = (...a) => process.stderr.write('PP ' + a.map(show).join(' ') + '\n');
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const caps = { elicitation: { form: {}, url: {} }, sampling: {tools:{}}, roots: {} };
const F = { message: 'm', requestedSchema: { type: 'object', properties: { n: { type: 'string' } }, required: ['n'] } };
const ctxOf = (c) => McpExecutionContext.create(c).getContext();
const asks = (name) => ({ async canActivate(c) { await ctxOf(c).elicit(name, F); return true; } });
const asksFalse = { canActivate(c) { ctxOf(c).elicit('g', F).catch(() => {}); return false; } };
const asksThrows = { async canActivate(c) { try { await ctxOf(c).elicit('g', F); } catch { throw new ForbiddenException('no'); } return true } };
const askInt = { async intercept(c, next) { await ctxOf(c).elicit('i', F); return next.handle(); } };
const askIntAfter = { intercept(c, next) { return next.handle().pipe(tap(() => { ctxOf(c).elicit('after', F).catch(() => {}); })); } };
const askPipe = createParamDecorator(async (d, c) => (await ctxOf(c).elicit('p', F)).action);
const hangGuard = { canActivate: () => new Promise(() => {}) };
const throwGuard = { canActivate: () => { throw new Error('secret guard'); } };

@Injectable()
class H {
  @Tool({ name: 'guard' }) @UseGuards(asks('g')) guard() { return 'in'; }
  @Tool({ name: 'guardFalse' }) @UseGuards(asksFalse) guardFalse() { return 'in'; }
  @Tool({ name: 'guardThrows' }) @UseGuards(asksThrows) guardThrows() { return 'in'; }
  @Tool({ name: 'int' }) @UseInterceptors(askInt) int() { return 'in'; }
  @Tool({ name: 'intAfter' }) @UseInterceptors(askIntAfter) intAfter() { return 'in'; }
  @Tool({ name: 'param' }) param(@askPipe() p) { return 'p ' + p; }
  @Tool({ name: 'fin' }) async fin(@McpCtx() ctx) { try { await ctx.elicit('a', F); } finally { await ctx.elicit('b', F); } return 'x'; }
  @Tool({ name: 'swallow' }) async swallow(@McpCtx() ctx) { try { await ctx.elicit('a', F); } catch {} return 'swallowed'; }
  @Tool({ name: 'timer' }) timer(@McpCtx() ctx) { setTimeout(() => ctx.elicit('late', F), 20); return 'early'; }
  @Tool({ name: 'timerThrow' }) timerThrow(@McpCtx() ctx) { setTimeout(async () => { try { await ctx.elicit('late', F); } catch (e) { out('late error', e.name, e.message); } }, 20); return 'early'; }
  @Tool({ name: 'obs' }) obs(@McpCtx() ctx) { return defer(() => from(ctx.elicit('o', F))).pipe(map((r) => 'got ' + r.action)); }
  @Tool({ name: 'obsCatch' }) obsCatch(@McpCtx() ctx) { return defer(() => from(ctx.elicit('o', F))).pipe(catchError(() => of('caught'))); }
  @Tool({ name: 'iter' }) async *iter(@McpCtx() ctx) { await ctx.progress(1); const r = await ctx.elicit('o', F); yield 'got ' + r.action; }
  @Tool({ name: 'changing' }) async changing(@McpCtx() ctx) { const r = await ctx.elicit('c', { message: 'm' + Math.random(), requestedSchema: F.requestedSchema }); return r.action; }
  @Tool({ name: 'twoSame' }) async twoSame(@McpCtx() ctx) { await Promise.all([ctx.elicit('c', F), ctx.elicit('c', { ...F, message: 'other' })]); return 'x'; }
  @Tool({ name: 'onceFail' }) async onceFail(@McpCtx() ctx) { let n = 0; try { await ctx.once('k', () => { n++; throw new Error('x'); }); } catch {} await ctx.once('k', () => ++n); await ctx.elicit('q', F); return 'n' + n; }
  @Tool({ name: 'onceSlow' }) async onceSlow(@McpCtx() ctx) { ctx.once('slow', async () => { await sleep(200); return 'slow'; }); await ctx.elicit('q', F); return await ctx.once('slow', () => 'again'); }
  @Tool({ name: 'onceAsk' }) async onceAsk(@McpCtx() ctx) { return JSON.stringify(await ctx.once('k', async () => (await ctx.elicit('inner', F)).content)); }
  @Tool({ name: 'onceHang' }) async onceHang(@McpCtx() ctx) { ctx.once('hang', () => new Promise(() => {})); await ctx.elicit('q', F); return 'x'; }
  @Tool({ name: 'onceSelf' }) async onceSelf(@McpCtx() ctx) { await ctx.once('k', () => ctx.once('k', () => 1)); return 'x'; }
  @Tool({ name: 'hugeOnce' }) async hugeOnce(@McpCtx() ctx) { await ctx.once('k', () => 'x'.repeat(100000)); await ctx.elicit('q', F); return 'x'; }
  @Tool({ name: 'hugeAnswer' }) async hugeAnswer(@McpCtx() ctx) { await ctx.elicit('n', F); await ctx.elicit('q', F); return 'x'; }
  @Tool({ name: 'order', inputSchema: z.object({ a: z.any(), b: z.any() }) }) async order(@McpArgs() a, @McpCtx() ctx) { const r = await ctx.elicit('q', F); return r.content?.n ?? r.action; }
  @Tool({ name: 'other', inputSchema: z.object({ a: z.any(), b: z.any() }) }) async other(@McpArgs() a, @McpCtx() ctx) { const r = await ctx.elicit('q', F); return r.content?.n ?? r.action; }
  @Resource({ uri: 'a://ok', name: 'ok', cache: { ttlMs: 1, scope: 'public' } }) ok() { return 'ok'; }
  @Resource({ uri: 'a://hang', name: 'hang' }) @UseGuards(hangGuard) hang() { return 'ok'; }
  @Resource({ uri: 'a://throw', name: 'throw' }) @UseGuards(throwGuard) throw_() { return 'ok'; }
  @Resource({ uri: 'a://asks', name: 'asks' }) @UseGuards(asks('g')) asks() { return 'ok'; }
  @Tool({ name: 'state' }) async state(@McpCtx() ctx) { const s = await ctx.state(); await s.patch({ a: 1 }); return s.handle; }
  @Tool({ name: 'open' }) async open(@McpArgs() { handle }, @McpCtx() ctx) { const s = await ctx.state(handle); return JSON.stringify(s.data); }
  @Prompt({ name: 'pc' }) pc() { return 'x'; }
}

describe.each(ADAPTERS)('probe3 on %s', (adapter) => {
  const start = modernApps(adapter, { providers: [H], sseAfterMs: 500 });
  const call = (client, name, args = {}, more = {}, opts = {}) => timed(client.ask('tools/call', { name, arguments: args, ...more }, { capabilities: caps, ...opts }).catch((e) => 'ERR ' + e.message), 1500);
  it('asks', async () => {
    const { app, client } = await start({ requestTimeoutMs: 5000 });
    for (const name of ['guard', 'guardFalse', 'guardThrows', 'int', 'intAfter', 'param', 'fin', 'swallow', 'timer', 'timerThrow', 'obs', 'obsCatch', 'iter', 'changing', 'twoSame', 'onceFail', 'onceSlow', 'onceAsk', 'onceHang', 'onceSelf', 'hugeOnce']) {
      const r1 = await call(client, name, {}, {}, { progressToken: 1 });
      const q = r1?.result?.inputRequests;
      out(adapter, name, q ? { asks: Object.keys(q), st: !!r1.result.requestState } : r1);
      if (q) {
        let last = r1; 
        for (let i = 0; i < 4 && last?.result?.inputRequests; i++) {
          const ir = Object.fromEntries(Object.keys(last.result.inputRequests).map((k) => [k, { action: 'accept', content: { n: 'N' } }]));
          last = await call(client, name, {}, { inputResponses: ir, requestState: last.result.requestState }, { progressToken: 1 });
        }
        out(adapter, name, '  then', last?.result?.content ?? last);
      }
    }
    const big = { n: { action: 'accept', content: { n: 'x'.repeat(100000) } } };
    out('hugeAnswer', await call(client, 'hugeAnswer', {}, { inputResponses: big }));
    out('log', logOf(app).texts('error').map((t) => t.slice(0, 120)).join(' | ').slice(0, 2500), logOf(app).texts('warn').join('|').slice(0, 300));
  }, 60000);
  it('state', async () => {
    const { app, client } = await start();
    const { app: app2, client: c2 } = await start();
    const anna = new ModernClient(app.url, as('anna')), bert = new ModernClient(app.url, as('bert'));
    const r = (await call(anna, 'order', { a: 'é', b: { x: 1, y: 2 } })).result;
    const ir = { inputResponses: { q: { action: 'accept', content: { n: 'N' } } }, requestState: r.requestState };
    const t = (label, p) => p.then((x) => out(adapter, label, x.result?.content?.[0]?.text ?? x.error ?? x));
    await t('same', call(anna, 'order', { a: 'é', b: { x: 1, y: 2 } }, ir));
    await t('keyorder', call(anna, 'order', { b: { y: 2, x: 1 }, a: 'é' }, ir));
    await t('nfd', call(anna, 'order', { a: 'é'.normalize('NFD'), b: { x: 1, y: 2 } }, ir));
    await t('args', call(anna, 'order', { a: 'e', b: { x: 1, y: 2 } }, ir));
    await t('args+', call(anna, 'order', { a: 'é', b: { x: 1, y: 2 }, c: 1 }, ir));
    await t('num', call(anna, 'order', { a: 'é', b: { x: 1.0, y: 2e0 } }, ir));
    await t('other', call(anna, 'other', { a: 'é', b: { x: 1, y: 2 } }, ir));
    await t('bert', call(bert, 'order', { a: 'é', b: { x: 1, y: 2 } }, ir));
    await t('anon', call(client, 'order', { a: 'é', b: { x: 1, y: 2 } }, ir));
    await t('app2', call(new ModernClient(app2.url, as('anna')), 'order', { a: 'é', b: { x: 1, y: 2 } }, ir));
    await t('extra param', call(anna, 'order', { a: 'é', b: { x: 1, y: 2 } }, { ...ir, task: { ttl: 1 } }));
    await t('trunc', call(anna, 'order', { a: 'é', b: { x: 1, y: 2 } }, { ...ir, requestState: r.requestState.slice(0, -1) }));
    await t('pad', call(anna, 'order', { a: 'é', b: { x: 1, y: 2 } }, { ...ir, requestState: r.requestState + '=' }));
    await t('10MB', call(anna, 'order', { a: 'é', b: { x: 1, y: 2 } }, { ...ir, requestState: 'A'.repeat(3e6) }));
    const h = (await call(anna, 'state')).result.content[0].text;
    await t('open anna', call(anna, 'open', { handle: h }));
    await t('open bert', call(bert, 'open', { handle: h }));
    await t('open anon', call(client, 'open', { handle: h }));
    for (const bad of ['', 'constructor', null, 1, {}, h.toLowerCase(), h + ' ', 'state x ' + h]) await t('open ' + JSON.stringify(bad), call(anna, 'open', { handle: bad }));
    const legacy = await app.client(as('anna')).initialize();
    await t('open sid', call(anna, 'open', { handle: legacy.sessionId }));
    const x = await legacy.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, { 'mcp-session-id': h });
    out(adapter, 'handle as session', x.status);
  }, 60000);
  it('subs', async () => {
    const { app, client } = await start();
    out(adapter, 'discover', (await client.ask('server/discover')).result);
    const t = async (label, n) => { const r = await timed(client.request('subscriptions/listen', { notifications: n }), 1000).catch((e) => e.message); out(adapter, label, r === 'HANG' ? r : r.status); return r; };
    const r1 = await t('hang', { resourceSubscriptions: ['a://hang', 'a://ok'] });
    const r2 = await t('throw', { resourceSubscriptions: ['a://throw', 'a://ok', 'a://asks', 'nope'] });
    const s2 = r2.sse(); await timed(s2.count(1), 1000); out(adapter, s2.messages[0]);
    const uris = Array.from({ length: 1000 }, (_, i) => 'a://ok' + (i ? '?' + 'x'.repeat(100) + i : ''));
    const r3 = await t('1000', { resourceSubscriptions: uris });
    out(adapter, 'read public', (await client.ask('resources/read', { uri: 'a://ok' })).result);
    out(adapter, 'read anna', (await new ModernClient(app.url, as('anna')).ask('resources/read', { uri: 'a://ok' })).result);
    out(adapter, 'list', (({ resources, ...x }) => x)((await client.ask('resources/list')).result));
    out(adapter, 'complete', await call(client, 'x'), (await client.ask('completion/complete', { ref: { type: 'ref/prompt', name: 'pc' }, argument: { name: 'constructor', value: 'x' } })).result);
    const bt = Date.now(); await app.app.close(); out(adapter, 'close ms', Date.now() - bt); await sleep(100);
    out(adapter, 'end', s2.messages.at(-1), s2.ended);
    (r3.sse?.()).destroy(); s2.destroy();
  }, 60000);
  it('floods', async () => {
    const st = { done: 0, err: 0, ab: 0 };
    const { app, client } = await start({ handlers: {
      flood: async (a, ctx) => { for (let i = 0; i < 200000; i++) ctx.log('info', 'x'.repeat(1000)); st.done++; return 'done'; },
      floodAwait: async (a, ctx) => { for (let i = 0; i < 20000 && !ctx.signal.aborted; i++) await ctx.log('info', 'x'.repeat(1000)); st.done++; return 'done'; },
      quick: () => 'quick',
      hugeP: async (a, ctx) => { await ctx.progress(1); return 'x'.repeat(30e6); },
    } });
    const before = process.memoryUsage().rss / 1e6;
    const bt = Date.now();
    const r = await timed(client.request('tools/call', { name: 'flood', arguments: {} }, { logLevel: 'debug' }).then(async (x) => { const s = x.sse(); return [await s.end(), s.messages.length]; }).catch((e) => 'ERR ' + e.message), 8000);
    out(adapter, 'flood', r, Date.now() - bt, st, 'rss', before, process.memoryUsage().rss / 1e6);
    const socks = [];
    for (let i = 0; i < 20; i++) { const m = client.message('tools/call', { name: 'floodAwait', arguments: {} }, { logLevel: 'debug' }); const s = await rawSocket(client); s.pause(); s.write(requestText({ url: client.url, usualHeaders: client.headersOf(m) }, 'POST', { body: m })); socks.push(s); }
    await sleep(500);
    const q0 = Date.now(); await (await client.call('quick')).text(); out(adapter, 'quick in', Date.now() - q0, st, 'rss', process.memoryUsage().rss / 1e6, (await app.service.counts()).inFlight);
    for (const s of socks) s.destroy();
    await sleep(300);
    out(adapter, 'after', st, (await app.service.counts()).inFlight, app.openResponses, app.clock.pending);
    // slow reader huge with progress
    const rr = await client.call('hugeP', {}, { progressToken: 1 }); let n = 0; rr.message.on('data', (d) => n += d.length); await timed(new Promise((r) => rr.message.on('end', r)), 5000); out(adapter, 'hugeP', n);
  }, 60000);
});
