// `npm run docs` serves the documentation site while it is written, `npm run x -- docs:build` builds it into build/docs. A dead link
// fails the build. Blocks of code are compared with compiled examples by test/quickstart/docs-snippets.spec.ts.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from './build.mjs';

function run(program, ...args) {
  const path = join(root, 'node_modules', program);
  const { status } = spawnSync(process.execPath, [path, ...args], { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

/** @param command of VitePress: `build`, or `dev`, which goes on until Ctrl-C */
export function buildDocs(command = 'build') {
  run('typedoc/bin/typedoc', '--options', 'docs/typedoc.json', '--logLevel', 'Error');
  run('vitepress/bin/vitepress.js', command, 'docs');
}

if (process.argv[1] === import.meta.filename) buildDocs(process.argv[2]);
