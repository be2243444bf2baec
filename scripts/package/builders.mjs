// The apps of `nest new` by each builder and test runner, with the configuration that docs/compatibility.md shows.
import { ok } from 'node:assert/strict';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { addNotes } from './jest-app.mjs';
import { addModule, editJson, nestBuild, sourceOf, withNode, writeJson } from './nest-app.mjs';
import { forJestWithSwc, shown } from './pages.mjs';
import { install, root, run } from './run.mjs';
import { callApp } from './served-app.mjs';
import { manifest } from './tarball.mjs';

/** What an app may lack, and the module of test/builders uses. */
const OPTIONAL = ['@opentelemetry/api', 'class-transformer', 'class-validator', 'ioredis', 'jose', 'prom-client'];
export const optionalPackages = Object.fromEntries(OPTIONAL.map((name) => [name, manifest.devDependencies[name]]));

/** By major version of Nest: what the pages tell to install. */
const TOOLS = {
  11: { '@swc/jest': '^0.2.39', vitest: '^4.1.0' },
  12: { '@rspack/core': '2.3.2', 'tsconfig-paths-webpack-plugin': '^4.2.0', 'webpack-node-externals': '^3.0.0' },
};
const TOOLS_OF_BOTH = { '@swc/cli': '^0.8.0', '@swc/core': '^1.16.0', esbuild: '^0.28.0', 'unplugin-swc': '^1.5.0' };

const nest =
  (...options) =>
  (app, node) =>
    nestBuild(app, node, ...options);

/** Each writes `dist/main.js`. `alone`: it runs where there are no packages. */
const BUILDS = {
  11: [
    { name: 'tsc', build: nest() },
    { name: 'esbuild after tsc', build: (app, node) => bundleBuilt(app, node, 'cjs') },
    { name: 'swc', build: nest('-b', 'swc') },
    { name: 'webpack', build: nest('-b', 'webpack') },
    { name: 'webpack, all in one file', build: webpackAll, alone: true },
    { name: 'esbuild', build: (app, node) => bundle(app, node, 'cjs') },
    { name: 'esbuild, all in one file', build: (app, node) => bundle(app, node, 'cjs', true), alone: true },
  ],
  12: [
    { name: 'tsc', build: nest() },
    { name: 'esbuild after tsc', build: (app, node) => bundleBuilt(app, node, 'esm') },
    { name: 'swc', build: nest('-b', 'swc') },
    { name: 'rspack', build: nest('-b', 'rspack') },
    { name: 'esbuild', build: (app, node) => bundle(app, node, 'esm') },
    { name: 'esbuild, all in one file', build: (app, node) => bundle(app, node, 'esm', true), alone: true },
  ],
};

/** Adds the module of test/builders, and installs what it and the builders need. */
export async function addBuilders(app, major) {
  const commonJs = major === 11;
  addStock(join(app, 'src'), commonJs);
  addNotes(join(app, 'src'), commonJs);
  editJson(join(app, 'package.json'), (json) => {
    Object.assign(json.dependencies, optionalPackages);
    Object.assign(json.devDependencies, TOOLS_OF_BOTH, TOOLS[major]);
  });
  writeFileSync(join(app, 'decorator-metadata.cjs'), shown('decorator-metadata.cjs'));
  // Under another name, since the tests run without it, too.
  writeFileSync(join(app, 'vitest.swc.mjs'), shown('vitest.config.mjs'));
  await install(app);
}

/** @param folder where the AppModule is */
export function addStock(folder, commonJs) {
  const source = (name) => sourceOf(join(root, 'test/builders', name), commonJs);
  writeFileSync(join(folder, 'stock.module.ts'), source('stock.module.ts'));
  writeFileSync(join(folder, 'stock.module.spec.ts'), source('stock.module.test.ts'));
  addModule(join(folder, 'app.module.ts'), 'StockModule', './stock.module', commonJs);
}

/** @returns what builds an app in each way, starts it and calls its tools */
export function waysToBuild(app, major, { newest, oldest }) {
  return BUILDS[major].map(({ name, build, alone = false }) => ({
    name,
    async build() {
      rmSync(join(app, 'dist'), { recursive: true, force: true });
      await build(app, newest);
      const cwd = alone ? moved(app, major) : app;
      for (const node of [oldest, newest]) await callApp(node, 'dist/main.js', { cwd, stock: true });
    },
  }));
}

/** Takes the result to a place where no packages are found: not even those of the Nest CLI. @returns the folder */
function moved(app, major) {
  const folder = join(app, '../..', `alone-${major}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  cpSync(join(app, 'dist'), join(folder, 'dist'), { recursive: true });
  writeJson(join(folder, 'package.json'), { private: true, ...(major > 11 && { type: 'module' }) });
  return folder;
}

/** The configuration file is found by its name. */
async function webpackAll(app, node) {
  const config = join(app, 'webpack.config.js');
  writeFileSync(config, shown('webpack.config.js'));
  await nestBuild(app, node, '-b', 'webpack');
  rmSync(config);
}

function bundle(app, node, format, all = false) {
  let config = replaced(shown('esbuild.config.mjs'), `format: 'cjs'`, `format: '${format}'`);
  if (all) {
    const more = shown('esbuild, all in one file') + (format === 'esm' ? shown('esbuild, banner') : '');
    config = replaced(config, `packages: 'external',`, more);
  }
  writeFileSync(join(app, 'esbuild.config.mjs'), config);
  return run(node, ['esbuild.config.mjs'], { cwd: app });
}

/** Bundles what the compiler wrote. */
async function bundleBuilt(app, node, format) {
  await nestBuild(app, node);
  const args = ['dist/main.js', '--bundle', '--platform=node', '--packages=external', '--outfile=bundle/main.js'];
  await run(join(app, 'node_modules/.bin/esbuild'), [...args, `--format=${format}`], { cwd: app, env: withNode(node) });
  rmSync(join(app, 'dist'), { recursive: true });
  cpSync(join(app, 'bundle'), join(app, 'dist'), { recursive: true });
}

export function replaced(text, part, by) {
  ok(text.includes(part), `no "${part}" in:\n${text}`);
  return text.replace(part, () => by);
}

/** @returns what runs the tests of an app with each test runner */
export function waysToTest(app, major, { newest, oldest }) {
  const onBoth = async (...args) => {
    for (const node of [oldest, newest]) await run(node, args, { cwd: app });
  };
  const vitest = (...more) => onBoth('node_modules/vitest/vitest.mjs', 'run', ...more);
  const jest = (...more) => onBoth('node_modules/jest/bin/jest.js', '--no-cache', ...more);
  const withSwc = { name: 'vitest with SWC', test: () => vitest('--config', 'vitest.swc.mjs') };
  if (major > 11) return [{ name: 'vitest', test: () => vitest() }, withSwc];
  return [
    { name: 'jest with ts-jest', test: () => jest() },
    { name: 'jest with SWC', test: () => jestWithSwc(app, jest) },
    { name: 'vitest', test: () => vitest('--globals', '--dir', 'src') },
    withSwc,
  ];
}

async function jestWithSwc(app, jest) {
  const testRegex = String.raw`.*\.spec\.ts$`;
  writeFileSync(join(app, '.swcrc'), shown('.swcrc'));
  await jest('--config', JSON.stringify({ rootDir: join(app, 'src'), testRegex, ...forJestWithSwc }));
  rmSync(join(app, '.swcrc'));
}
