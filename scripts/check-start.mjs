// A promise of the README: `npm start` builds and runs the quickstart. Starts it on both adapters, connects the
// official client, and expects it to end when told to.
import { spawn } from 'node:child_process';
import { ok } from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const root = fileURLToPath(new URL('..', import.meta.url));
const START_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 10_000;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Tries until the server listens. @returns the names of its tools */
async function listTools(url, child) {
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const client = new Client({ name: 'check-start', version: '1.0.0' });
    const transport = new StreamableHTTPClientTransport(url);
    try {
      await client.connect(transport);
      const { tools } = await client.listTools();
      await transport.terminateSession();
      await client.close();
      return tools.map(({ name }) => name);
    } catch (error) {
      if (Date.now() > deadline || child.exitCode !== null) throw error;
      await delay(250);
    }
  }
}

/** To the whole group, as Ctrl-C does: npm, its shell and the app. */
async function stop(child) {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit').then(() => true);
  process.kill(-child.pid, 'SIGINT');
  const timer = delay(STOP_TIMEOUT_MS, false, { ref: false });
  if (await Promise.race([ended, timer])) return;
  process.kill(-child.pid, 'SIGKILL');
  throw new Error(`still running ${STOP_TIMEOUT_MS / 1000} s after SIGINT`);
}

async function check(adapter, command, args) {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), ADAPTER: adapter };
  const child = spawn(command, args, { cwd: root, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  try {
    const tools = await listTools(new URL(`http://127.0.0.1:${port}/mcp`), child);
    ok(tools.length > 0, 'the quickstart has no tools');
    console.log(`  ok  ${adapter}: ${tools.join(', ')}`);
  } catch (error) {
    console.error(output);
    throw error;
  } finally {
    await stop(child);
  }
}

await check('express', 'npm', ['start']);
// Built by the first.
await check('fastify', process.execPath, ['build/examples/quickstart/main.js']);
