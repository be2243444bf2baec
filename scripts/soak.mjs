// Builds, then runs the soak test: `npm run x -- soak --minutes 5`. See bench/README.md.
import { spawnSync } from 'node:child_process';
import { build, root } from './build.mjs';

console.log('Building takes some seconds; then the soak test prints its duration.');
await build('bench/tsconfig.build.json');
const args = ['--enable-source-maps', 'build/bench/soak.js', ...process.argv.slice(2)];
const { status, signal } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
if (status !== 0) throw new Error(`The soak test ended with ${signal ?? status}.`);
