import type * as FileSystem from 'node:fs';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule, type McpStreamableModuleOptions } from 'nestjs-mcp-streamable';
import { InMemorySessionStore } from 'nestjs-mcp-streamable/stores';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RawClient } from '../support/raw-client.js';
import { RecordedLog } from '../support/recorded-log.js';
import { testTools } from '../support/test-tools.js';

const disk = vi.hoisted(() => ({ full: false }));

vi.mock('node:fs', async (original) => {
  const fs = await original<typeof FileSystem>();
  const writeSync = (...args: Parameters<typeof fs.writeSync>): number => {
    if (disk.full) throw new Error('ENOSPC: no space left on device, write');
    return fs.writeSync(...args);
  };
  return { ...fs, writeSync };
});

class AppModule {}

describe('sessions of an app under development', () => {
  const { stdout } = process;
  const { isTTY } = stdout;
  let log: RecordedLog;
  let folder: string;
  let app: INestApplication | undefined;

  beforeEach(() => {
    log = new RecordedLog();
    folder = mkdtempSync(join(tmpdir(), 'dev-sessions-'));
    vi.stubEnv('TMPDIR', folder);
  });
  afterEach(async () => {
    await app?.close();
    log.release();
    stdout.isTTY = isTTY;
    disk.full = false;
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  /** Starts an app as a main.ts does: the testing module has no HTTP server when its providers are made. */
  async function start(options: Partial<McpStreamableModuleOptions> = {}): Promise<() => RawClient> {
    const endpoint = McpStreamableModule.forRoot({
      serverInfo: { name: 'dev', version: '1' },
      doctor: false,
      ...options,
    });
    const module = { module: AppModule, imports: [endpoint], providers: [testTools({ hello: () => 'hello' })] };
    app = await NestFactory.create(module, new FastifyAdapter(), { logger: log });
    await app.listen(0, '127.0.0.1');
    const url = `${await app.getUrl()}/mcp`;
    return () => new RawClient(url);
  }

  /** The journals on the disk; each has a lock beside it. */
  const journals = (): string[] =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => /\/\w{32}$/.test(name));
  const warnings = (): string[] => log.texts('warn').filter((text) => text.includes('ENOSPC'));

  it.each([
    ['a terminal', { NODE_ENV: 'development' }, true, 1],
    ['a terminal and no NODE_ENV', { NODE_ENV: undefined }, true, 1],
    ['node --watch without a terminal', { NODE_ENV: undefined, WATCH_REPORT_DEPENDENCIES: '1' }, false, 1],
    ['neither', { NODE_ENV: undefined }, false, 0],
    ['neither, in development', { NODE_ENV: 'development' }, false, 0],
    ['a terminal in production', { NODE_ENV: 'production', WATCH_REPORT_DEPENDENCIES: '1' }, true, 0],
    ['a terminal in tests', { NODE_ENV: 'test', WATCH_REPORT_DEPENDENCIES: '1' }, true, 0],
  ])('an app with %s writes a journal by default, or none', async (_what, env, terminal, count) => {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    stdout.isTTY = terminal;
    await start();
    expect(journals()).toHaveLength(count);
  });

  it('an app with a store of its own writes no journal', async () => {
    vi.stubEnv('NODE_ENV', 'development');
    stdout.isTTY = true;
    await start({ sessionStore: new InMemorySessionStore() });
    expect(journals()).toEqual([]);
  });

  it('a full disk under the journal closes it, is logged once, and the app goes on in memory', async () => {
    const client = await start({ devSessions: true });
    const before = await client().initialize();
    expect(journals()).toHaveLength(1);
    disk.full = true;
    const after = await client().initialize();
    for (const each of [before, after, before]) {
      const { result } = await (await each.call('hello')).json();
      expect(result.content[0].text).toBe('hello');
    }
    const stream = await before.get();
    expect(stream.status).toBe(200);
    stream.destroy();
    for (const each of [before, after]) expect((await each.delete()).status).toBe(204);
    expect(warnings()).toHaveLength(1);
    expect(log.texts('error')).toEqual([]);
    // The next process must not go on with what an older one has written.
    expect(journals()).toEqual([]);
  });

  it('an app that starts on a full disk has its sessions in memory', async () => {
    disk.full = true;
    const client = await start({ devSessions: true });
    const { result } = await (await (await client().initialize()).call('hello')).json();
    expect(result.content[0].text).toBe('hello');
    expect(warnings()).toHaveLength(1);
    expect(journals()).toEqual([]);
  });
});
