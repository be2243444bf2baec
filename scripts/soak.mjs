// Builds, then runs the soak test: `npm run soak -- --minutes 5`. See bench/README.md.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

for (const [command, ...args] of [
  ['npm', 'run', '-s', 'build'],
  ['npm', 'run', '-s', 'build:bench'],
  [process.execPath, '--enable-source-maps', 'build/bench/soak.js', ...process.argv.slice(2)],
]) {
  const { status, signal } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    process.exitCode = 1;
    console.error(`${command} ${args.join(' ')} ended with ${signal ?? status}`);
    break;
  }
}
