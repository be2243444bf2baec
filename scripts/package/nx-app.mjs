// An app of an Nx workspace, as `create-nx-workspace` makes it, with what the first steps of the README add to it.
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { addStock, optionalPackages, replaced } from './builders.mjs';
import { addModule, edit, editJson, firstSteps, sourceOf, withNode } from './nest-app.mjs';
import { forJest, shown } from './pages.mjs';
import { install, root, run } from './run.mjs';
import { callApp } from './served-app.mjs';
import { manifest } from './tarball.mjs';

const NX = 23;
/** The generated app sets it. */
const prefix = '/api';

/** Generates, changes and installs. @returns the folder of the workspace */
export async function makeNxWorkspace(folder, node, tarball) {
  mkdirSync(folder);
  const args = ['--preset=nest', '--appName=api', '--packageManager=npm', '--nxCloud=skip', '--e2eTestRunner=none'];
  const quietly = ['--docker=false', '--skipGit', '--interactive=false'];
  const create = ['--yes', '--prefer-offline', `create-nx-workspace@${NX}`, 'workspace', ...args, ...quietly];
  await run('npx', create, { cwd: folder, env: environment(node) });
  const workspace = join(folder, 'workspace');
  const source = join(workspace, 'apps/api/src/app');
  for (const name of ['orders.module.ts', 'orders.module.spec.ts']) {
    writeFileSync(join(source, name), sourceOf(join(root, 'examples/snippets', name), true));
  }
  addModule(join(source, 'app.module.ts'), 'OrdersModule', './orders.module', true);
  addStock(source, true);
  editJson(join(workspace, 'package.json'), (json) => {
    Object.assign(json.dependencies, firstSteps(tarball), optionalPackages);
    const { '@modelcontextprotocol/client': client } = manifest.devDependencies;
    const tools = { '@nx/esbuild': json.devDependencies['@nx/webpack'], '@swc/core': '^1.16.0', esbuild: '^0.28.0' };
    Object.assign(json.devDependencies, tools, { '@modelcontextprotocol/client': client });
  });
  await install(workspace);
  return workspace;
}

/** @returns what builds the app in each way, starts it and calls its tools; and what runs its tests */
export function waysOfNx(workspace, { newest, oldest }) {
  const app = (name) => join(workspace, 'apps/api', name);
  const nx = (...args) => run(newest, ['node_modules/.bin/nx', ...args], { cwd: workspace, env: environment(newest) });
  const call = async (main, cwd = workspace) => {
    for (const node of [oldest, newest]) await callApp(node, main, { cwd, prefix, stock: true });
  };
  return [
    { name: 'webpack as generated', action: webpack },
    { name: 'webpack, all in one file', action: webpackAll },
    { name: 'esbuild', action: esbuild },
    { name: 'jest', action: jest },
  ];

  async function webpack() {
    await nx('build', 'api');
    await call('dist/apps/api/main.js');
  }

  async function webpackAll() {
    edit(app('webpack.config.js'), (text) => {
      const options = replaced(text, 'sourceMap: true,', `sourceMap: true,\n${shown('nx, externals')}`);
      return replaced(options, 'plugins: [', `${shown('nx, resolve')}\nplugins: [`);
    });
    await nx('build', 'api');
    // Where no packages are found.
    const alone = join(workspace, '../alone');
    cpSync(join(workspace, 'dist/apps/api'), alone, { recursive: true });
    await call('main.js', alone);
  }

  async function esbuild() {
    writeFileSync(app('decorator-metadata.cjs'), shown('decorator-metadata.cjs'));
    writeFileSync(app('esbuild.config.cjs'), shown('nx, esbuild.config.cjs'));
    editJson(app('project.json'), (json) => Object.assign(json.targets, JSON.parse(shown('nx, target'))));
    await nx('run', 'api:bundle');
    await call('dist/bundle/api/main.cjs');
  }

  async function jest() {
    const line = `transformIgnorePatterns: ${JSON.stringify(forJest.transformIgnorePatterns)},`;
    edit(app('jest.config.cts'), (text) => replaced(text, 'moduleFileExtensions', `${line}\nmoduleFileExtensions`));
    await nx('test', 'api');
  }
}

function environment(node) {
  return { ...withNode(node), CI: 'true', NX_DAEMON: 'false', NX_SKIP_NX_CACHE: 'true', NX_NO_CLOUD: 'true' };
}
