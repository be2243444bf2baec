import { readFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';

export interface Machine {
  readonly date: string;
  readonly node: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  /** Of the packages that are measured or measured with. */
  readonly versions: Readonly<Record<string, string>>;
}

const ROOT = new URL('../../../', import.meta.url);
/** Both trees must have the same: all subjects stand on the same ground. */
const SHARED = ['@modelcontextprotocol/server', '@nestjs/common', '@nestjs/core', 'express', 'fastify', 'zod'];
const PEERS = ['@rekog/mcp-nest', '@modelcontextprotocol/sdk', '@modelcontextprotocol/node'];

/** @throws when ours and the peers would run on different versions of what they share */
export function machine(): Machine {
  const versions: Record<string, string> = { 'nestjs-mcp-streamable': versionIn('package.json') };
  for (const name of SHARED) {
    const [ours, theirs] = ['', 'bench/peers/'].map((tree) => versionIn(`${tree}node_modules/${name}/package.json`));
    if (ours !== theirs) throw new Error(`${name} is ${ours} here and ${theirs} in bench/peers: use the same version.`);
    versions[name] = ours!;
  }
  for (const name of PEERS) versions[name] = versionIn(`bench/peers/node_modules/${name}/package.json`);
  const [cpu] = cpus();
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    cpu: cpu?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    versions,
  };
}

function versionIn(path: string): string {
  const { version } = JSON.parse(readFileSync(new URL(path, ROOT), 'utf8')) as { version: string };
  return version;
}
