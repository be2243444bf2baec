/* eslint-disable */
// @ts-nocheck
import { describe, it, afterEach } from 'vitest';
import { ADAPTERS, gate } from '../support/app.js';
import { modernApps } from '../support/modern-apps.js';
import { rawSocket } from '../support/raw-socket.js';
import { registryOf, logOf } from '../support/handlers-app.js';
import { ModernClient } from '../support/modern-client.js';

const cyc: any = { a: 1 }; cyc.self = cyc;
const caps = { elicitation: { form: {}, url: {} }, sampling: {tools:{}}, roots: {} };
const timed = (p, ms = 3000) => Promise.race([p, new Promise((r) => setTimeout(() => r('HANG'), ms))]);
const show = (x) => { const s = typeof x === 'string' ? x : JSON.stringify(x); return s?.slice(0, 400); };
const out = (...a) => process.stderr.write(a.map(show).join(' ') + '\n');
function deep(n) { let s = ''; for (let i = 0; i < n; i++) s += '{"a":'; return s + '1' + '}'.repeat(n); }

describe.each(ADAPTERS)('probe on %s', (adapter) => {
  const start = modernApps(adapter, {});
  it('results', async () => {
    const bad: Record<string, any> = {
      bigStructured: () => ({ content: [], structuredContent: { a: 1n } }),
      cycStructured: () => ({ content: [], structuredContent: cyc }),
      bigMeta: () => ({ content: [], _meta: { a: 1n } }),
      cycMeta: () => ({ content: [{ type: 'text', text: 'x', _meta: cyc }] }),
      toJson: () => ({ content: [], structuredContent: { a: { toJSON() { throw new Error('secret toJSON'); } } } }),
      getter: () => ({ content: [], structuredContent: { get a() { throw new Error('secret getter'); } } }),
      throwNull: () => { throw null; },
      throwUndef: () => { throw undefined; },
      throwStr: () => { throw 'secret string'; },
      throwFrozen: () => { throw Object.freeze(new Error('secret frozen')); },
      throwProxy: () => { throw new Proxy({}, { get() { throw new Error('secret proxy'); }, getPrototypeOf() { throw new Error('secret proto'); } }); },
      rejectNull: () => Promise.reject(null),
      code: () => { throw Object.assign(new Error('secret code'), { code: -32601, data: { s: 1 } }); },
      elicitBig: (a, ctx) => ctx.elicit('k', { message: 'm', requestedSchema: { type: 'object', properties: { x: { type: 'number', default: 1n } } } }),
      sampleBig: (a, ctx) => ctx.sample('k', { messages: [], maxTokens: 1, metadata: { a: 1n } }),
      sampleCyc: (a, ctx) => ctx.sample('k', { messages: [], maxTokens: 1, metadata: cyc }),
      rootsMeta: (a, ctx) => ctx.ask({ k: { method: 'roots/list', params: { _meta: { x: 1n } } } }),
      urlBad: (a, ctx) => ctx.elicit('k', { mode: 'url', url: 'nope', message: 'm' }),
      irBig: () => ({ resultType: 'input_required', inputRequests: { k: { method: 'roots/list', params: { a: 1n } } } }),
      irWeird: () => ({ resultType: 'input_required' }),
      irState: () => ({ resultType: 'input_required', inputRequests: {}, requestState: 42 }),
      irStr: () => ({ resultType: 'input_required', inputRequests: 'nope' }),
      irProto: () => ({ resultType: 'input_required', inputRequests: { constructor: { method: 'roots/list' } } }),
      logBig: async (a, ctx) => { try { await ctx.log('info', { a: 1n }); return 'logged'; } catch (e) { return 'caught ' + e.message; } },
      logCycDrop: (a, ctx) => { ctx.log('info', cyc); return 'dropped'; },
      notifyBig: (a, ctx) => { ctx.notify('x/y', { a: 1n }); return 'dropped'; },
      notifyWeird: async (a, ctx) => { await ctx.notify('notifications/tools/list_changed'); return 'ok' },
      progCyc: (a, ctx) => { ctx.progress({ progress: 1, total: 2n }); return 'dropped'; },
      progNaN: (a, ctx) => { ctx.progress(NaN); return 'dropped'; },
      logLevel: (a, ctx) => { ctx.log('constructor', 'x'); return 'dropped'; },
      onceThenElicit: async (a, ctx) => { await ctx.once('x', () => 'y'); return ctx.elicit('k', { message: 'm', requestedSchema: { type: 'object', properties: {} } }); },
      promptKey: (a, ctx) => ctx.elicit('constructor', { message: 'm', requestedSchema: { type: 'object', properties: {} } }),
      notKey: (a, ctx) => ctx.elicit('', { message: 'm', requestedSchema: { type: 'object', properties: {} } }),
      badSchema: (a, ctx) => ctx.elicit('q', { message: 'm', requestedSchema: { type: 'object', properties: { a: { type: 'object' } } } }),
      nullAsk: (a, ctx) => ctx.ask(null),
      nullQ: (a, ctx) => ctx.ask({ k: null }),
      emptyAsk: async (a, ctx) => { await ctx.ask({}); return 'empty ok'; },
      symbolRes: () => Symbol('x'),
      fnRes: () => () => 1,
      hugeText: () => 'x'.repeat(10),
      nested: () => { let o: any = {}; for (let i = 0; i < 20000; i++) o = { o }; return { content: [], structuredContent: o }; },
      nestedPlain: () => { let o: any = {}; for (let i = 0; i < 20000; i++) o = { o }; return o; },
      nestedMeta: () => { let o: any = {}; for (let i = 0; i < 20000; i++) o = { o }; return { content: [], _meta: o }; },
    };
    const { app, client } = await start({ handlers: bad, sseAfterMs: 500 });
    for (const name of Object.keys(bad)) {
      const r = await timed((async () => client.ask('tools/call', { name, arguments: {} }, { capabilities: caps, logLevel: 'debug', progressToken: 1 }))().catch((e) => 'ERR ' + e.message), 1500);
      out(adapter, name, r);
    }
    const reg = registryOf(app);
    reg.registerResource?.({ name: 'r', uri: 'a://big', handler: () => ({ contents: [{ uri: 'x', text: 'y', _meta: { a: 1n } }] }) });
    reg.registerPrompt?.({ name: 'p', handler: () => ({ messages: [], _meta: { a: 1n } }) });
    out('res', await timed(client.ask('resources/read', { uri: 'a://big' }).catch((e) => 'ERR ' + e.message)));
    out('prompt', await timed(client.ask('prompts/get', { name: 'p' }).catch((e) => 'ERR ' + e.message)));
    // deep arguments
    for (const n of [1000, 5000, 20000]) {
      for (const name of ['onceThenElicit', 'hugeText']) {
      const m = client.message('tools/call', { name, arguments: '@@' }, { capabilities: caps });
      const body = JSON.stringify(m).replace('"@@"', deep(n));
      const r = await timed(client.post(body, client.headersOf(m)).then(async (x) => x.status + ' ' + (await x.text())), 3000);
      out(adapter, 'deep', n, name, r);
      const m2 = client.message('tools/call', { name, arguments: {} }, { capabilities: caps, meta: { deep: '@@' } });
      const r2 = await timed(client.post(JSON.stringify(m2).replace('"@@"', deep(n)), client.headersOf(m2)).then(async (x) => x.status + ' ' + (await x.text())), 3000);
      out(adapter, 'deepmeta', n, name, r2);
      const m3 = client.message('tools/call', { name, arguments: {}, inputResponses: '@@' }, { capabilities: caps });
      const r3 = await timed(client.post(JSON.stringify(m3).replace('"@@"', deep(n)), client.headersOf(m3)).then(async (x) => x.status + ' ' + (await x.text())), 3000);
      out(adapter, 'deepIR', n, name, r3);
      const m4 = client.message('tools/call', { name, arguments: {}, inputResponses: { k: { action: 'accept', content: '@@' } } }, { capabilities: caps });
      const r4 = await timed(client.post(JSON.stringify(m4).replace('"@@"', deep(n)), client.headersOf(m4)).then(async (x) => x.status + ' ' + (await x.text())), 3000);
      out(adapter, 'deepIR2', n, name, r4);
      }
    }
    out('errors logged', logOf(app).texts('error').map((t) => t.slice(0, 100)).join(' | ').slice(0, 3000));
  }, 120000);
  it('methods and keys', async () => {
    const { client } = await start({ handlers: { ok: () => 'ok' }, sseAfterMs: 500 });
    for (const method of ['constructor', '__proto__', 'toString', 'hasOwnProperty', '', 'notifications/cancelled', 'notifications/initialized', 'initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'tasks/get', 'tasks/list', 'sampling/createMessage', 'x'.repeat(5000)]) {
      const r = await timed(client.request(method, {}, {}).then(async (x) => x.status + ' ' + (await x.text())).catch((e) => 'ERR ' + e.message), 1500);
      out(adapter, 'method', method.slice(0, 30), r);
    }
    for (const name of ['constructor', '__proto__', 'toString', 'valueOf', '']) {
      out(adapter, 'name', name, await timed(client.request('tools/call', { name }).then(async (x) => x.status + ' ' + (await x.text())).catch((e) => 'ERR ' + e.message), 1500));
    }
    for (const id of [0, -1, -0, 1.5, 1e308, 9007199254740991, 9007199254740992, '', '0', 'constructor', '__proto__', 'x'.repeat(100000), null, true, [], {}]) {
      const m = client.message('tools/call', { name: 'ok' }, { id: id as any });
      out(adapter, 'id', id as any, await timed(client.post(m, client.headersOf(m)).then(async (x) => x.status + ' ' + (await x.text()).slice(0, 200)).catch((e) => 'ERR ' + e.message), 1500));
    }
    for (const lvl of ['constructor', 'INFO', '', 1, null, {}, ['info'], '__proto__', 'info\n']) {
      const m = client.message('tools/call', { name: 'ok' }, { logLevel: lvl as any });
      out(adapter, 'lvl', lvl as any, await timed(client.post(m, client.headersOf(m)).then(async (x) => x.status + ' ' + (await x.text()).slice(0, 200)).catch((e) => 'ERR ' + e.message), 1500));
    }
    for (const ir of [null, 1, 'x', [], [1], { a: null }, { constructor: { action: 'accept' } }, { a: 1 }]) {
      const m = client.message('tools/call', { name: 'ok', inputResponses: ir });
      out(adapter, 'ir', ir as any, await timed(client.post(m, client.headersOf(m)).then(async (x) => x.status + ' ' + (await x.text()).slice(0, 200)).catch((e) => 'ERR ' + e.message), 1500));
    }
    for (const rs of [null, 1, '', 'x', [], {}, 'A'.repeat(200000), 'é', '\u0000']) {
      const m = client.message('tools/call', { name: 'ok', requestState: rs });
      out(adapter, 'rs', show(rs)?.slice(0, 20), await timed(client.post(m, client.headersOf(m)).then(async (x) => x.status + ' ' + (await x.text()).slice(0, 200)).catch((e) => 'ERR ' + e.message), 1500));
    }
    for (const p of [{ arguments: null }, { arguments: [] }, { arguments: 'x' }, { name: 1 }, { cursor: 1 }]) {
      out(adapter, 'params', p, await timed(client.request('tools/call', { name: 'ok', ...p }).then(async (x) => x.status + ' ' + (await x.text())).catch((e) => 'ERR ' + e.message), 1500));
    }
    for (const n of [null, [], 'x', { toolsListChanged: 1 }, { resourceSubscriptions: 'x' }, { resourceSubscriptions: [1] }, { resourceSubscriptions: Array(1001).fill('a') }, { constructor: true }]) {
      out(adapter, 'listen', show(n).slice(0, 40), await timed(client.request('subscriptions/listen', { notifications: n }).then(async (x) => x.status + ' ' + (await x.text()).slice(0, 300)).catch((e) => 'ERR ' + e.message), 1500));
    }
  }, 120000);
});
