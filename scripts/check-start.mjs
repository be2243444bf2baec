// A promise of the README: `npm start` builds and runs the quickstart. Starts it in a copy that is as clean as a fresh clone,
// again, and twice at once, on both adapters; the official client must reach it, and it must end when told to. Prints how
// long it took until a client was served; only what is far beyond the promise fails, since CI shares its cores.
import { ok } from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { root } from './build.mjs';
import { freePort, Program } from './package/program.mjs';

/** Until a client is served: what is promised on two quiet cores, and what must hold anywhere. */
const FIRST = { promisedMs: 20_000, limitMs: 120_000 };
const AGAIN = { promisedMs: 3_000, limitMs: 30_000 };
/** What a clone has and a start needs. */
const CLONED = /^(?:src|examples|docs|scripts|README\.md|package\.json|tsconfig.*\.json)$/;

/** @returns the names of its tools */
async function listTools(url) {
  const client = new Client({ name: 'check-start', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport);
  const { tools } = await client.listTools();
  await transport.terminateSession();
  await client.close();
  return tools.map(({ name }) => name);
}

/** @returns the program, and a function that lists its tools */
async function npmStart(folder, label, adapter, { promisedMs, limitMs }) {
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), ADAPTER: adapter };
  const tools = () => listTools(new URL(`http://127.0.0.1:${port}/mcp`));
  const begin = performance.now();
  const program = new Program('npm', ['start'], { cwd: folder, env });
  try {
    const names = await program.until(tools, limitMs);
    const took = performance.now() - begin;
    ok(names.length > 0, 'the quickstart has no tools');
    const late = took > promisedMs ? `, LATER THAN THE ${promisedMs / 1000} s OF TWO QUIET CORES` : '';
    console.log(`  ok  ${label}, ${adapter}: served after ${(took / 1000).toFixed(1)} s${late}: ${names.join(', ')}`);
    return { program, tools };
  } catch (error) {
    console.error(program.output);
    await stop(program);
    throw error;
  }
}

/** As Ctrl-C does. */
const stop = (program) => program.stop('SIGINT');

async function startOnce(folder, label, adapter, limits) {
  const { program } = await npmStart(folder, label, adapter, limits);
  await stop(program);
}

/** Two in one checkout, both of which build. */
async function startTwo(folder, label, limits) {
  const starts = await Promise.allSettled(
    ['express', 'fastify'].map((adapter) => npmStart(folder, label, adapter, limits)),
  );
  const started = starts.filter(({ status }) => status === 'fulfilled').map(({ value }) => value);
  try {
    for (const { reason } of starts.filter(({ status }) => status === 'rejected')) throw reason;
    // The other one's build has left alone what this one runs from.
    for (const one of started) ok((await one.tools()).length > 0);
  } finally {
    await Promise.all(started.map(({ program }) => stop(program)));
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
