// An app that was built, as a process: started, called by the official client, and stopped.
import { deepEqual, equal, ok } from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const START_MS = 60_000;
const ERAS = ['legacy', { pin: '2026-07-28' }];

/**
 * @param main what Node runs, from the folder `cwd`
 * @param prefix global prefix of the app
 * @param stock whether the app has the module of test/builders, beside that of the README
 */
export async function callApp(node, main, { cwd, prefix = '', stock = false }) {
  const port = await freePort();
  const base = new URL(`http://127.0.0.1:${port}`);
  const server = spawn(node, [main], {
    cwd,
    env: { ...process.env, PORT: `${port}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exit = once(server, 'exit');
  let output = '';
  const note = (chunk) => (output += chunk);
  server.stdout.on('data', note);
  server.stderr.on('data', note);
  try {
    await listening(base, server);
    for (const mode of ERAS) {
      await callOrders(new URL(`${prefix}/mcp`, base), mode);
      if (stock) await callStock(new URL(`${prefix}/stock`, base), mode);
    }
    if (stock) equal((await fetch(new URL(`${prefix}/private`, base), { method: 'POST' })).status, 401);
    server.kill('SIGTERM');
    await exit;
    return output;
  } catch (error) {
    throw new Error(`${main}: ${error.message}\n${output}`, { cause: error });
  } finally {
    server.kill('SIGKILL');
  }
}

async function listening(base, server) {
  for (const end = performance.now() + START_MS; ;) {
    ok(performance.now() < end && server.exitCode === null, 'the app does not start');
    const answer = await fetch(base, { headers: { connection: 'close' } }).catch(() => undefined);
    if (answer) return;
    await sleep(100);
  }
}

/** The tool of the README, with a schema of Zod. */
function callOrders(url, mode) {
  return withClient(url, mode, async (client) => {
    const { content } = await client.callTool({ name: 'find_order', arguments: { id: 'A-1042' } });
    deepEqual(content, [{ type: 'text', text: 'Order A-1042 is on its way.' }]);
  });
}

/** The tool of test/builders, with a class as its schema. */
function callStock(url, mode) {
  return withClient(url, mode, async (client) => {
    const { tools } = await client.listTools();
    deepEqual(
      tools.map(({ name, inputSchema }) => [name, inputSchema.required]),
      [['take', ['item', 'count', 'places']]],
    );
    const take = (places) => client.callTool({ name: 'take', arguments: { item: 'bolts', count: 3, places } });
    deepEqual((await take([{ shelf: 'A' }])).content, [{ type: 'text', text: '7 of bolts are left on A.' }]);
    equal((await take([{}])).isError, true);
  });
}

async function withClient(url, mode, use) {
  const client = new Client({ name: 'check-compat', version: '1.0.0' }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport);
  await use(client);
  await transport.terminateSession();
  await client.close();
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
