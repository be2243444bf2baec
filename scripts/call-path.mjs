// The functions of this package that one `tools/call` runs, from the adapter to the answer, and the promises of the process:
// `npm run x -- call-path`. Sessions in memory, an answer as JSON, Fastify. By precise coverage of V8, getters included, and async hooks;
// methods and handlers of the app are not counted.
//
// `--session`: initialize, initialized and DELETE, in place of a call.
// `--modern`: a call of revision 2026-07-28, without a session. `--express`: on Express.
// `--full`: a modern call of an app that requires the audit, whose tool has both limits, a key of idempotency, and becomes a task when it
// takes more than a minute; the client supports tasks.
// `--route`: the tool is a route of a controller, whose arguments stand in its query.
import 'reflect-metadata';
import { Controller, Get, Module, Query } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { createHook } from 'node:async_hooks';
import { Agent, request } from 'node:http';
import { Session } from 'node:inspector/promises';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { z } from 'zod';
import { root } from './build.mjs';

const WARM_UP = 50;
const MEASURED = 20;
/** After the answer, for what runs behind it. */
const TURNS = 3;

const dist = join(root, 'dist');
const entry = (name) => import(pathToFileURL(join(dist, name)).href);
const { McpStreamableModule, Tool } = await entry('index.js');

const isFull = process.argv.includes('--full');
const modern = isFull || process.argv.includes('--modern');
const isRoute = process.argv.includes('--route');
const isSession = process.argv.includes('--session');

class Tools {
  add({ a, b }) {
    return { content: [{ type: 'text', text: String(a + b) }] };
  }
}
// Decorators by hand: this is JavaScript.
const inputSchema = z.object({ a: z.number(), b: z.number(), ...(isFull && { key: z.string() }) });
const FULL = {
  timeoutMs: 10_000,
  maxConcurrent: 4,
  idempotency: { argument: 'key' },
  task: { afterMs: 60_000 },
};
Tool({ name: 'add', description: 'Adds two numbers.', inputSchema, ...(isFull && FULL) })(
  Tools.prototype,
  'add',
  Object.getOwnPropertyDescriptor(Tools.prototype, 'add'),
);

class Routes {
  add(a, b) {
    return { content: [{ type: 'text', text: String(Number(a) + Number(b)) }] };
  }
}
const route = Object.getOwnPropertyDescriptor(Routes.prototype, 'add');
Reflect.defineMetadata('design:paramtypes', [Number, Number], Routes.prototype, 'add');
Query('a')(Routes.prototype, 'add', 0);
Query('b')(Routes.prototype, 'add', 1);
Get('sums')(Routes.prototype, 'add', route);
Tool({ name: 'add', description: 'Adds two numbers.' })(Routes.prototype, 'add', route);
Controller()(Routes);

async function modulesOfFull() {
  const [{ McpAuditModule }, { McpTasksModule }] = await Promise.all([
    entry('audit/index.js'),
    entry('tasks/index.js'),
  ]);
  return [McpAuditModule.forRoot({ required: true, sink: { write: async () => {} } }), McpTasksModule.forRoot()];
}

class App {}
Module({
  imports: [
    McpStreamableModule.forRoot({ devSessions: false, serverInfo: { name: 'call-path', version: '1.0.0' } }),
    ...(isFull ? await modulesOfFull() : []),
  ],
  providers: isRoute ? [] : [Tools],
  controllers: isRoute ? [Routes] : [],
})(App);

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': isFull ? { extensions: { 'io.modelcontextprotocol/tasks': {} } } : {},
};

const agent = new Agent({ keepAlive: true });

/** Sends a request, without a promise: those of the process are counted. */
function send(method, message, sessionId, done) {
  const body = message && JSON.stringify({ jsonrpc: '2.0', ...message });
  const headers = {
    ...(body && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
    Accept: 'application/json, text/event-stream',
    ...(modern
      ? { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': message.method, 'Mcp-Name': message.params.name }
      : { 'MCP-Protocol-Version': '2025-11-25', ...(sessionId && { 'Mcp-Session-Id': sessionId }) }),
  };
  request(url, { method, agent, headers }, (response) => {
    let text = '';
    response.on('data', (part) => (text += part));
    response.on('end', () => {
      if (response.statusCode >= 300) throw new Error(`${method}: ${response.statusCode} ${text}`);
      done(text, response.headers['mcp-session-id']);
    });
  }).end(body);
}

function begin(done) {
  if (modern) return done();
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'call-path', version: '1.0.0' },
  };
  send('POST', { id: 0, method: 'initialize', params }, undefined, (_text, begun) =>
    send('POST', { method: 'notifications/initialized' }, begun, () => done(begun)),
  );
}

let id = 0;
function call(done) {
  const args = { a: 1, b: 2, ...(isFull && { key: `call ${++id}` }) };
  const params = { name: 'add', arguments: args, ...(modern && { _meta: META }) };
  send('POST', { id: ++id, method: 'tools/call', params }, sessionId, (text) => {
    if (JSON.parse(text).result?.content?.[0]?.text !== '3') throw new Error(`No answer: ${text}`);
    done();
  });
}

/** Serves a call, or what `--session` says, and what runs behind its answer. */
function serve(done) {
  const turn = (left) => (left === 0 ? done() : setImmediate(turn, left - 1));
  if (isSession) begin((begun) => send('DELETE', undefined, begun, () => turn(TURNS)));
  else call(() => turn(TURNS));
}

const sizeOf = (byFile) => [...byFile.values()].flat().length;

/** The functions that ran since the last time, by file. */
async function taken(inspector) {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  const byFile = new Map();
  for (const { url, functions } of result) {
    if (!url.startsWith('file:')) continue;
    const file = relative(dist, fileURLToPath(url));
    if (file.startsWith('..')) continue;
    // Not the module itself; and the fields of a class are part of its constructor.
    const ran = functions.filter(
      ({ ranges: [{ startOffset, count }], functionName: name }) =>
        count > 0 && (startOffset > 0 || name !== '') && name !== '<instance_members_initializer>',
    );
    if (ran.length > 0) byFile.set(file, ran);
  }
  return new Map([...byFile].toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

const adapter = process.argv.includes('--express') ? new ExpressAdapter() : new FastifyAdapter();
const app = await NestFactory.create(App, adapter, { logger: ['error', 'warn'] });
await app.listen(0, '127.0.0.1');
const url = `${await app.getUrl()}/mcp`;
const served = () => new Promise(serve);
const sessionId = await new Promise(begin);
for (let n = 0; n < WARM_UP; n++) await served();

const inspector = new Session();
inspector.connect();
await inspector.post('Profiler.enable');
await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
await served();
await taken(inspector);
// The shortest of some: timers of the process may run meanwhile.
let byFile;
for (let n = 0; n < MEASURED; n++) {
  await served();
  const ran = await taken(inspector);
  if (!byFile || sizeOf(ran) < sizeOf(byFile)) byFile = ran;
}

inspector.disconnect();

let made = 0;
const counting = createHook({ init: (_id, type) => (made += type === 'PROMISE' ? 1 : 0) }).enable();
const promises = await new Promise((done) => {
  const counts = [];
  const next = () => {
    if (counts.length === MEASURED) return done(Math.min(...counts));
    made = 0;
    serve(() => next(counts.push(made)));
  };
  next();
});
counting.disable();
agent.destroy();
await app.close();

for (const [file, ran] of byFile) {
  console.log(`${file}  (${ran.length})`);
  for (const { functionName, ranges } of ran) {
    const name = functionName === '' ? '(anonymous)' : functionName;
    const [{ count }] = ranges;
    console.log(count > 1 ? `    ${name} ×${count}` : `    ${name}`);
  }
}
const functions = [...byFile.values()].flat();
const runs = functions.reduce((sum, { ranges: [{ count }] }) => sum + count, 0);
console.log(`${functions.length} functions in ${byFile.size} files, which ran ${runs} times; ${promises} promises.`);
