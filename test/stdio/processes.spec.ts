import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as ClientOf1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as TransportOf1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { modernMeta } from '../support/modern-client.js';

const PROGRAM = join(ROOT, `node_modules/.stdio-${process.pid}`);
const clientInfo = { name: 'test', version: '1.0.0' };
const server = { command: process.execPath, args: [join(PROGRAM, 'main.js')], cwd: ROOT, stderr: 'pipe' as const };

beforeAll(() => bundle({ main: 'examples/quickstart/stdio.ts', noisy: 'test/stdio/noisy.ts' }, PROGRAM));
afterAll(() => rmSync(PROGRAM, { recursive: true, force: true }));

/** Whether a process is there. */
function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Official clients hand progress over behind an answer that came in the same chunk, and then know its token no more. */
const isLateProgress = ({ message }: Error): boolean => message.includes('progress notification for an unknown token');

describe('the example, started by the official clients', () => {
  const page = readFileSync(join(ROOT, 'docs/stdio.md'), 'utf8');

  it.each(['legacy', 'modern'] as const)('client 2 lists, calls with progress, and ends it (%s)', async (era) => {
    const mode = era === 'legacy' ? 'legacy' : { pin: '2026-07-28' };
    const client = new Client(clientInfo, { versionNegotiation: { mode } });
    const transport = new StdioClientTransport(server);
    let log = '';
    transport.stderr!.on('data', (chunk: Buffer) => (log += String(chunk)));
    const errors: Error[] = [];
    client.onerror = (error) => errors.push(error);
    const late = (): number => errors.filter(isLateProgress).length;
    await client.connect(transport);
    expect(client.getProtocolEra()).toBe(era);
    const pid = transport.pid!;
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('search_docs');
    const progress: number[] = [];
    const { content } = await client.callTool(
      { name: 'search_docs', arguments: { query: 'serveMcpStdio', limit: 1 } },
      { onprogress: (each) => progress.push(each.progress) },
    );
    expect(content).toMatchObject([{ text: expect.stringContaining('serveMcpStdio') }]);
    expect(progress.length + late()).toBeGreaterThan(0);
    // More than a pipe holds.
    const { content: whole } = await client.callTool({ name: 'read_doc', arguments: { name: 'docs/stdio.md' } });
    expect(whole).toMatchObject([{ text: page }]);
    const { content: long } = await client.callTool({ name: 'read_doc', arguments: { name: 'README.md' } });
    expect(long).toMatchObject([{ text: readFileSync(join(ROOT, 'README.md'), 'utf8') }]);
    await client.close();
    expect(errors.filter((error) => !isLateProgress(error))).toEqual([]);
    expect(log).toContain('[Nest]');
    await expect.poll(() => runs(pid)).toBe(false);
  });

  it('client 2 without a pinned era negotiates the newest one', async () => {
    const client = new Client(clientInfo, { versionNegotiation: { mode: 'auto' } });
    await client.connect(new StdioClientTransport(server));
    expect(client.getProtocolEra()).toBe('modern');
    await client.close();
  });

  it('client 1 lists and calls with progress', async () => {
    const client = new ClientOf1(clientInfo);
    const errors: Error[] = [];
    client.onerror = (error) => errors.push(error);
    const transport = new TransportOf1(server);
    await client.connect(transport);
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('search_docs');
    const progress: number[] = [];
    const params = { name: 'search_docs', arguments: { query: 'serveMcpStdio', limit: 1 } };
    const onprogress = (each: { progress: number }) => void progress.push(each.progress);
    const { content } = await client.callTool(params, undefined, { onprogress });
    expect(content).toMatchObject([{ text: expect.stringContaining('serveMcpStdio') }]);
    expect(progress.length + errors.filter(isLateProgress).length).toBeGreaterThan(0);
    const pid = transport.pid!;
    await client.close();
    await expect.poll(() => runs(pid)).toBe(false);
  });
});

describe('a process whose log goes to stdout', () => {
  let child: ChildProcessWithoutNullStreams;
  let output: string;
  let log: string;

  const start = (): void => {
    [output, log] = ['', ''];
    child = spawn(process.execPath, [join(PROGRAM, 'noisy.js')], { cwd: ROOT });
    child.stdout.on('data', (chunk: Buffer) => (output += String(chunk)));
    child.stderr.on('data', (chunk: Buffer) => (log += String(chunk)));
  };
  const call = (id: number, name: string): void => {
    const params = { name, arguments: {}, _meta: modernMeta() };
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params })}\n`);
  };
  const answered = async (text: string): Promise<void> => {
    await expect.poll(() => output).toContain(`"text":"${text}"`);
  };
  afterEach(() => child.kill('SIGKILL'));

  it('L1: a process whose log goes to stdout warns of it, and writes all later lines of the log to stderr', async () => {
    start();
    call(1, 'noise');
    await answered('quiet');
    const lines = output.trimEnd().split('\n');
    const messages = lines.filter((line) => line.startsWith('{'));
    expect(messages).toEqual(lines.slice(-1));
    expect(lines.slice(0, -1).every((line) => line.includes('[Nest]'))).toBe(true);
    expect(log).toContain('from the console');
    expect(log).toContain('from the logger');
    expect(log).toContain('McpStderrLogger');
    child.stdin.end();
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it('L5: a process whose log goes to stdout exits when the app closes itself, although its input is still open', async () => {
    start();
    call(1, 'quit');
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(output).toContain('"text":"soon"');
  });

  it.each(['SIGTERM', 'SIGINT'] as const)('L5: a process whose log goes to stdout exits at %s', async (signal) => {
    start();
    call(1, 'noise');
    await answered('quiet');
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([null, signal]);
  });
});
