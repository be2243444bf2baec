/* eslint-disable */
// @ts-nocheck
import { describe, it, afterEach } from 'vitest';
import { ADAPTERS, TestApp, gate } from '../support/app.js';
import { modernApps } from '../support/modern-apps.js';
import { rawSocket, requestText } from '../support/raw-socket.js';
import { registryOf, logOf } from '../support/handlers-app.js';
import { ModernClient } from '../support/modern-client.js';
import { McpServer, Server, LEGACY_REVISIONS, MODERN_REVISIONS } from 'nestjs-mcp-streamable';

const supportedProtocolVersions = [...LEGACY_REVISIONS, ...MODERN_REVISIONS];
const timed = (p, ms = 3000) => Promise.race([p, new Promise((r) => setTimeout(() => r('HANG'), ms))]);
const show = (x) => { const s = typeof x === 'string' ? x : JSON.stringify(x); return s?.slice(0, 500); };
const out = (...a) => process.stderr.write('PP ' + a.map(show).join(' ') + '\n');
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
process.on('unhandledRejection', (e) => out('UNHANDLED', String(e)));
process.on('uncaughtException', (e) => out('UNCAUGHT', String(e)));

describe.each(ADAPTERS)('probe2 on %s', (adapter) => {
  const apps = [];
  const start = async (o) => { const a = await TestApp.start({ adapter, sseAfterMs: 300, ...o }); apps.push(a); return a; };
  afterEach(async () => { for (const a of apps.splice(0)) { const t = Date.now(); const r = await timed(a.app.close().then(() => 'closed'), 6000); out(adapter, 'app.close', r, Date.now() - t, 'timers', a.clock.pending); } });
  const low = (handler, opts = {}) => () => { const s = new Server({ name: 'o', version: '1' }, { capabilities: { tools: {} , logging: {}}, supportedProtocolVersions }); s.setRequestHandler('tools/call', (r, c) => handler(r, c, s)); opts.tune?.(s); return s; };
  const ask = async (app, name = 'x', extra = {}) => timed(new ModernClient(app.url).request('tools/call', { name, arguments: {} }, extra).then(async (r) => r.status + ' ' + await r.text()).catch((e) => 'ERR ' + e.message));
  const ok = { content: [{ type: 'text', text: 'ok' }] };
  const cases = {
    closesItself: low(async (r, c, s) => { await s.close(); return ok; }),
    closesLater: low(async (r, c, s) => { setTimeout(() => s.close(), 50); await sleep(400); return ok; }),
    throwsNull: low(() => { throw null; }),
    oncloseThrows: low(() => ok, { tune: (s) => { s.onclose = () => { throw new Error('onclose'); }; } }),
    bigint: low(() => ({ ...ok, _meta: { a: 1n } })),
    serverRequest: low(async (r, c, s) => { try { await s.ping?.(); } catch (e) { return { content: [{ type: 'text', text: 'caught ' + e.message }] }; } return ok; }),
    elicit: low(async (r, c, s) => { try { await c.mcpReq.elicitInput({ message: 'm', requestedSchema: { type: 'object', properties: {} } }); } catch (e) { return { content: [{ type: 'text', text: 'caught ' + e.message }] }; } return ok; }),
    customRequest: low(async (r, c, s) => { try { await timed(c.mcpReq.send({ method: 'custom/x' }, { '~standard': { version: 1, vendor: 'x', validate: (v) => ({ value: v }) } }), 500); } catch (e) { return { content: [{ type: 'text', text: 'caught ' + e.message }] }; } return ok; }),
    leakError: low(() => { throw Object.assign(new Error('secret db'), { data: { stack: 's' } }); }),
  };
  for (const [name, server] of Object.entries(cases)) {
    it(name, async () => {
      const app = await start({ server });
      out(adapter, name, await ask(app));
      await sleep(100);
      out(adapter, name, 'counts', (await app.service.counts()).inFlight);
    }, 20000);
  }
  it('hanging factory', async () => {
    let n = 0;
    const app = await start({ server: () => { n++; return new Promise(() => {}); } });
    out(adapter, 'hang factory', await timed(ask(app), 1500), n);
    const l = await timed(new ModernClient(app.url).request('subscriptions/listen', { notifications: {toolsListChanged: true} }).then((r) => r.status).catch((e) => 'ERR ' + e.message), 1000);
    out(adapter, 'hang factory listen', l);
  }, 20000);
  it('singleton raced', async () => {
    const s = low(async () => { await sleep(50); return ok; })();
    const app = await start({ server: async () => { await sleep(5); return s; } });
    out(adapter, 'singleton', await Promise.all([ask(app), ask(app), ask(app)]));
  }, 20000);
  it('connected elsewhere', async () => {
    const app = await start({ server: low(() => ok) });
    const r = await Promise.all(Array.from({ length: 300 }, () => ask(app)));
    out(adapter, 'many', r.filter((x) => x.startsWith('200')).length);
  }, 20000);
  // raw
  const text = (app, name, id, extra = '') => { const c = new ModernClient(app.url); const m = c.message('tools/call', { name, arguments: {} }, { id, progressToken: 1 }); const { host, pathname } = new URL(app.url); const b = JSON.stringify(m); return `POST ${pathname} HTTP/1.1\r\nhost: ${host}\r\n${Object.entries(c.headersOf(m)).map(([k, v]) => k + ': ' + v).join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(b)}\r\n${extra}\r\n${b}`; };
  const tools = () => {
    const st = { started: 0, aborted: 0 };
    return [st, {
      hang: (a, c) => { st.started++; c.mcpReq.signal.addEventListener('abort', () => st.aborted++); return new Promise(() => {}); },
      ok: () => 'ok', slow: async () => { await sleep(50); return 'slow'; },
      talk: async (a, c) => { st.started++; c.mcpReq.signal.addEventListener('abort', () => st.aborted++); for (let i = 0; i < 3; i++) await c.mcpReq.notify({ method: 'notifications/progress', params: { progressToken: 1, progress: i } }); return 'talked'; },
      huge: () => 'x'.repeat(30e6),
    }];
  };
  for (const mode of ['auto', 'json', 'sse']) {
    it('pipelined ' + mode, async () => {
      const [st, t] = tools();
      const app = await start({ tools: t, responseMode: mode });
      // same id, pipelined, answered
      let sock = await rawSocket(app);
      sock.write(text(app, 'slow', 1) + text(app, 'ok', 1) + text(app, 'talk', 1) + text(app, 'ok', 1, 'connection: close\r\n'));
      let got = ''; sock.setEncoding('utf8'); sock.on('data', (d) => got += d);
      await timed(new Promise((r) => sock.once('close', r)));
      out(adapter, mode, 'pipelined answers', got.match(/"text":"\w+"/g), (got.match(/HTTP\/1.1 200/g) ?? []).length);
      // pipelined hang then cut
      sock = await rawSocket(app);
      sock.write(text(app, 'hang', 1) + text(app, 'hang', 1) + text(app, 'hang', 1));
      const s0 = st.started;
      await timed((async () => { while (st.started < s0 + 3) await sleep(10); })(), 1500);
      out(adapter, mode, 'started', st);
      sock.destroy();
      await sleep(200);
      out(adapter, mode, 'after cut', st, (await app.service.counts()).inFlight, app.openResponses, app.clock.pending);
      await sleep(600);
      out(adapter, mode, 'after sseAfter', st, (await app.service.counts()).inFlight, app.openResponses, app.clock.pending);
    }, 20000);
  }
  it('half-closed', async () => {
    const [st, t] = tools();
    const app = await start({ tools: t });
    for (const name of ['slow', 'talk', 'hang']) {
      const sock = await rawSocket(app);
      let got = ''; sock.setEncoding('utf8'); sock.on('data', (d) => got += d);
      sock.end(text(app, name, 1));
      const r = await timed(new Promise((r) => sock.once('close', () => r('closed'))), 1500);
      out(adapter, 'half', name, r, got.slice(-150), st, (await app.service.counts()).inFlight, app.openResponses);
      sock.destroy();
    }
    await sleep(300);
    out(adapter, 'half end', st, (await app.service.counts()).inFlight, app.openResponses, app.clock.pending);
    // http/1.0
    for (const name of ['ok', 'talk']) {
      const sock = await rawSocket(app);
      let got = ''; sock.setEncoding('utf8'); sock.on('data', (d) => got += d);
      sock.write(text(app, name, 1).replace('HTTP/1.1', 'HTTP/1.0'));
      out(adapter, '1.0', name, await timed(new Promise((r) => sock.once('close', () => r('closed'))), 1500), got.slice(0, 60), got.slice(-120));
    }
    // expect
    const sock = await rawSocket(app);
    let got = ''; sock.setEncoding('utf8'); sock.on('data', (d) => got += d);
    const tx = text(app, 'ok', 1, 'expect: 100-continue\r\nconnection: close\r\n'); const h = tx.indexOf('\r\n\r\n') + 4;
    sock.write(tx.slice(0, h)); await timed((async () => { while (!got.includes('100')) await sleep(5); })(), 1000);
    sock.write(tx.slice(h));
    out(adapter, 'expect', await timed(new Promise((r) => sock.once('close', () => r('closed'))), 1500), got.slice(0, 60), got.slice(-80));
    // cut mid body
    const s3 = await rawSocket(app); s3.write(text(app, 'ok', 1).slice(0, -20)); await sleep(100); s3.destroy(); await sleep(100);
    out(adapter, 'cut body', (await app.service.counts()).inFlight, app.clock.pending);
    const s4 = await rawSocket(app); s4.write(text(app, 'ok', 1).slice(0, -20)); await sleep(50);
    out('closing with mid-body');
  }, 20000);
  it('never reader of huge json', async () => {
    const [st, t] = tools();
    const app = await start({ tools: t, responseMode: 'json' });
    const s = await rawSocket(app); s.pause(); s.write(text(app, 'huge', 1));
    await sleep(500);
    out(adapter, 'huge json', (await app.service.counts()).inFlight);
  }, 20000);
  it('never reader of huge sse', async () => {
    const [st, t] = tools();
    const app = await start({ tools: t, responseMode: 'sse' });
    const s = await rawSocket(app); s.pause(); s.write(text(app, 'huge', 1));
    await sleep(500);
    out(adapter, 'huge sse', (await app.service.counts()).inFlight);
  }, 20000);
  it('never reader of huge json legacy', async () => {
    const [st, t] = tools();
    const app = await start({ tools: t, responseMode: 'json' });
    const c = await app.client().initialize();
    const s = await rawSocket(app); s.pause(); s.write(requestText(c, 'POST', { body: { jsonrpc: '2.0', id: 9, method: 'tools/call', params: { name: 'huge', arguments: {} } }, headers: { 'mcp-session-id': c.sessionId } }));
    await sleep(500);
    out(adapter, 'huge json legacy', (await app.service.counts()).inFlight);
  }, 20000);
});
