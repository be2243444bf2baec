// A promise of the README: `npm start` builds and runs the quickstart. Starts it in a copy that is as clean as a fresh clone,
// again, and twice at once, on both adapters; the official client must reach it, and it must end when told to. Prints how
// long it took until a client was served; only what is far beyond the promise fails, since CI shares its cores.
import { spawn } from 'node:child_process';
import { ok } from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { root } from './build.mjs';

/** Until a client is served: what is promised on two quiet cores, and what must hold anywhere. */
const FIRST = { promisedMs: 20_000, limitMs: 120_000 };
const AGAIN = { promisedMs: 3_000, limitMs: 30_000 };
const STOP_TIMEOUT_MS = 10_000;
/** What a clone has and a start needs. */
const CLONED = /^(?:src|examples|docs|scripts|README\.md|package\.json|nest-cli\.json|tsconfig.*\.json)$/;

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Tries until the server listens. @returns the names of its tools */
async function listTools(url, child, deadline) {
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
      if (performance.now() > deadline || child.exitCode !== null) throw error;
      await delay(50);
    }
  }
}

/** To the whole group, as Ctrl-C does: npm, its shell, Nest's CLI and the app. */
async function stop(child) {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit').then(() => true);
  process.kill(-child.pid, 'SIGINT');
  const timer = delay(STOP_TIMEOUT_MS, false, { ref: false });
  if (await Promise.race([ended, timer])) return;
  process.kill(-child.pid, 'SIGKILL');
  throw new Error(`still running ${STOP_TIMEOUT_MS / 1000} s after SIGINT`);
}

class Started {
  static async npmStart(folder, label, adapter, { promisedMs, limitMs }) {
    const port = await freePort();
    const env = { ...process.env, PORT: String(port), ADAPTER: adapter };
    const begin = performance.now();
    const child = spawn('npm', ['start'], { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    const started = new Started(child, port);
    try {
      const tools = await started.tools(begin + limitMs);
      const took = performance.now() - begin;
      ok(tools.length > 0, 'the quickstart has no tools');
      const late = took > promisedMs ? `, LATER THAN THE ${promisedMs / 1000} s OF TWO QUIET CORES` : '';
      console.log(`  ok  ${label}, ${adapter}: served after ${(took / 1000).toFixed(1)} s${late}: ${tools.join(', ')}`);
      return started;
    } catch (error) {
      console.error(started.output);
      await stop(child);
      throw error;
    }
  }

  output = '';

  constructor(child, port) {
    this.child = child;
    this.port = port;
    child.stdout.on('data', (chunk) => (this.output += chunk));
    child.stderr.on('data', (chunk) => (this.output += chunk));
  }

  tools(deadline = 0) {
    return listTools(new URL(`http://127.0.0.1:${this.port}/mcp`), this.child, deadline);
  }
}

async function startOnce(folder, label, adapter, limits) {
  const { child } = await Started.npmStart(folder, label, adapter, limits);
  await stop(child);
}

/** Two in one checkout, both of which build. */
async function startTwo(folder, label, limits) {
  const starts = await Promise.allSettled(
    ['express', 'fastify'].map((adapter) => Started.npmStart(folder, label, adapter, limits)),
  );
  const started = starts.filter(({ status }) => status === 'fulfilled').map(({ value }) => value);
  try {
    for (const { reason } of starts.filter(({ status }) => status === 'rejected')) throw reason;
    // The other one's build has left alone what this one runs from.
    for (const one of started) ok((await one.tools()).length > 0);
  } finally {
    await Promise.all(started.map(({ child }) => stop(child)));
  }
}

/** @returns a folder for a fresh clone with its packages installed */
function clone() {
  const folder = mkdtempSync(join(tmpdir(), 'check-start-'));
  for (const name of readdirSync(root).filter((file) => CLONED.test(file))) {
    cpSync(join(root, name), join(folder, name), {
      recursive: true,
      filter: (path) => basename(path) !== 'node_modules',
    });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

async function inClone(action) {
  const folder = clone();
  try {
    await action(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await inClone(async (folder) => {
  await startOnce(folder, 'first start', 'express', FIRST);
  await startOnce(folder, 'second start', 'fastify', AGAIN);
});
await inClone(async (folder) => {
  await startTwo(folder, 'two first starts at once', FIRST);
  await startTwo(folder, 'two more at once', AGAIN);
});
