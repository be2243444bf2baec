// A promise of getting started: under `nest start --watch` clients go on after a saved file. An app per adapter is changed ten
// times; both official clients and mcp-remote, which began before the first change, call it after each, and hear of each.
import { deepEqual, equal, ok } from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { build, root } from './build.mjs';
import { freePort, Program } from './package/program.mjs';
import { install } from './package/run.mjs';

const SAVES = 10;
/** Until a saved file is compiled and served: what must hold anywhere. */
const LISTENS_MS = 240_000;
/** Clients try twice to come back for their streams, so a machine on which the app takes longer to start needs more. */
const RETRY_MS = Number(process.env.RETRY_MS ?? 3_000);
const INFO = { name: 'check-dev-loop', version: '1.0.0' };
const mcpRemote = createRequire(import.meta.url).resolve('mcp-remote/dist/proxy.js');

const json = (value) => JSON.stringify(value, undefined, 2);

/** The sources of the app. Each version says which it is, and its process; every other one has shutdown hooks. */
const SOURCES = {
  'package.json': json({ private: true, type: 'module' }),
  'nest-cli.json': json({ sourceRoot: 'src', entryFile: 'main' }),
  'tsconfig.json': json({
    compilerOptions: {
      outDir: 'dist',
      rootDir: 'src',
      target: 'ES2023',
      module: 'nodenext',
      incremental: true,
      skipLibCheck: true,
      strict: true,
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
      types: ['node'],
    },
    include: ['src'],
  }),
  'src/app.module.ts': `
    import { Injectable, Module } from '@nestjs/common';
    import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
    import { VERSION } from './version.js';

    @Injectable()
    class VersionTools {
      @Tool({ name: 'version', description: 'The version of the sources.' })
      version(): string {
        return String(VERSION);
      }
    }

    @Module({
      imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'dev', version: '1.0.0' }, retryMs: ${RETRY_MS} })],
      providers: [VersionTools],
    })
    export class AppModule {}
  `,
  'src/main.ts': `
    import 'reflect-metadata';
    import { NestFactory } from '@nestjs/core';
    import { ExpressAdapter } from '@nestjs/platform-express';
    import { FastifyAdapter } from '@nestjs/platform-fastify';
    import { AppModule } from './app.module.js';
    import { VERSION } from './version.js';

    const adapter = process.env.ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
    const app = await NestFactory.create(AppModule, adapter as ExpressAdapter);
    if (VERSION % 2 === 0) app.enableShutdownHooks();
    await app.listen(Number(process.env.PORT), '127.0.0.1');
    console.log('version ' + VERSION + ' listens in ' + process.pid);
  `,
};

/** Installs the command line of Nest, which the repository itself does not need. @returns its program */
async function installCli(folder) {
  writeFileSync(join(folder, 'package.json'), json({ private: true, dependencies: { '@nestjs/cli': '^12' } }));
  await install(folder);
  return join(folder, 'node_modules/@nestjs/cli/bin/nest.js');
}

function save(folder, version) {
  writeFileSync(join(folder, 'src/version.ts'), `export const VERSION: number = ${version};\n`);
}

function makeApp() {
  const folder = mkdtempSync(join(tmpdir(), 'check-dev-loop-'));
  mkdirSync(join(folder, 'src'));
  mkdirSync(join(folder, 'node_modules'));
  for (const name of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
  }
  symlinkSync(root, join(folder, 'node_modules/nestjs-mcp-streamable'));
  for (const [name, text] of Object.entries(SOURCES)) writeFileSync(join(folder, name), text);
  save(folder, 0);
  return folder;
}

/** Clients that are connected once, and how each calls the tool and counts changes of the list. */
async function connect(url, folder) {
  const v2 = new ClientV2(INFO);
  const v1 = new ClientV1(INFO);
  const viaStdio = new ClientV1(INFO);
  await v2.connect(new TransportV2(url));
  await v1.connect(new TransportV1(url));
  const args = [mcpRemote, String(url), '--allow-http', '--transport', 'http-only'];
  const env = { ...process.env, MCP_REMOTE_CONFIG_DIR: join(folder, 'mcp-remote') };
  await viaStdio.connect(new StdioClientTransport({ command: process.execPath, args, env, stderr: 'ignore' }));
  const clients = [
    { name: '@modelcontextprotocol/client', client: v2, changes: 0 },
    { name: '@modelcontextprotocol/sdk 1.x', client: v1, changes: 0 },
    { name: 'mcp-remote', client: viaStdio, changes: 0 },
  ];
  for (const one of clients) {
    one.client.setNotificationHandler(
      one.client === v2 ? 'notifications/tools/list_changed' : ToolListChangedNotificationSchema,
      () => void one.changes++,
    );
  }
  return clients;
}

async function check(adapter, cli) {
  const folder = makeApp();
  const port = await freePort();
  const url = new URL(`http://127.0.0.1:${port}/mcp`);
  // The app has no terminal here, which otherwise shows that it is developed.
  const watched = { NODE_ENV: 'development', WATCH_REPORT_DEPENDENCIES: '1' };
  const env = { ...process.env, ...watched, PORT: String(port), ADAPTER: adapter };
  const app = new Program(process.execPath, [cli, 'start', '--watch'], { cwd: folder, env });
  let clients = [];
  try {
    const pids = [await listening(app, 0)];
    clients = await connect(url, folder);
    for (let version = 1; version <= SAVES; version++) {
      save(folder, version);
      pids.push(await listening(app, version));
      ok(
        !isAlive(pids.at(-2)),
        `the process of version ${version - 1} is alive when that of version ${version} listens`,
      );
      for (const { name, client } of clients) {
        const { content } = await client.callTool({ name: 'version', arguments: {} });
        deepEqual([name, content[0].text], [name, String(version)]);
      }
      // Their streams have come back.
      await app.until(() => {
        for (const { name, changes } of clients)
          ok(changes >= version, `${name} has heard of ${changes} changes of ${version}`);
      });
    }
    equal(new Set(pids).size, SAVES + 1);
    console.log(`  ok  ${adapter}: ${clients.map(({ name }) => name).join(', ')} went on over ${SAVES} saves`);
  } catch (error) {
    console.error(app.output);
    throw error;
  } finally {
    await Promise.all(clients.map(({ client }) => client.close()));
    await app.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @returns the process id */
function listening(app, version) {
  const line = new RegExp(`version ${version} listens in (\\d+)`);
  return app.until(() => {
    const found = line.exec(app.output);
    ok(found, `version ${version} does not listen`);
    return Number(found[1]);
  }, LISTENS_MS);
}

function isAlive(pid) {
  try {
    // One that nothing has collected yet has the state Z.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

await build('src/tsconfig.build.json');
const tools = mkdtempSync(join(tmpdir(), 'check-dev-loop-cli-'));
try {
  const cli = await installCli(tools);
  // Both come to an end, so that neither leaves its program and its folder behind.
  const ends = await Promise.allSettled(['express', 'fastify'].map((adapter) => check(adapter, cli)));
  for (const { status, reason } of ends) {
    if (status === 'fulfilled') continue;
    console.error(reason);
    process.exitCode = 1;
  }
} finally {
  rmSync(tools, { recursive: true, force: true });
}
