// The apps of `nest new`, with what the first steps of the README add to them.
import { ok } from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { forJest } from './pages.mjs';
import { install, root, run } from './run.mjs';
import { callApp } from './served-app.mjs';
import { manifest } from './tarball.mjs';

const snippets = join(root, 'examples/snippets');
const cli = 'node_modules/@nestjs/cli/bin/nest.js';
/** What the command line runs. `nest new` 12 asks for the module system in a terminal, and has no option for it. */
const schematics = 'node_modules/@angular-devkit/schematics-cli/bin/schematics.js';
const dev = manifest.devDependencies;

/** By major version of Nest: what `nest new` makes by default. */
const KINDS = {
  11: { main: 'first-main.cts', jest: true },
  12: { main: 'first-main.ts', jest: false },
};
/** What `nest new` 12 makes for those who choose CommonJS: its jest loads ES modules by itself. */
const COMMONJS_12 = { main: 'first-main.cts', jest: true, native: true };

/**
 * Generates, changes, installs and builds.
 *
 * @param node runs the command line of Nest, whose releases need newer versions of Node than Nest itself
 * @returns the folder of the app
 */
export function makeNestApp(folder, nest, node, tarball) {
  const create = [cli, 'new', 'app', '--package-manager', 'npm', '--skip-git', '--skip-install'];
  return makeApp(folder, { nest, node, tarball, create, kind: KINDS[nest] });
}

/** Does so with Nest 12 in CommonJS. */
export function makeCommonJsApp(folder, node, tarball) {
  const create = [schematics, '@nestjs/schematics:application', '--name=app', '--type=cjs', '--package-manager=npm'];
  return makeApp(folder, { nest: 12, node, tarball, create, kind: COMMONJS_12 });
}

async function makeApp(folder, { nest, node, tarball, create, kind }) {
  mkdirSync(folder);
  writeJson(join(folder, 'package.json'), { private: true, dependencies: { '@nestjs/cli': `^${nest}` } });
  await install(folder);
  await run(node, create, { cwd: folder, env: withNode(node) });
  const app = join(folder, 'app');
  addOrders(app, kind, tarball);
  await install(app);
  await nestBuild(app, node);
  return app;
}

/** Writes `dist`. */
export function nestBuild(app, node, ...options) {
  return run(node, [cli, 'build', ...options], { cwd: app, env: withNode(node) });
}

/** Programs that a program starts run with the same Node. */
export function withNode(node) {
  return { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` };
}

/** The first steps of the README, and its test; and the test of a contract, whose file is committed as in an app. */
function addOrders(app, { main, jest, native = false }, tarball) {
  cpSync(join(snippets, 'orders.contract.json'), join(app, 'orders.contract.json'));
  for (const name of ['orders.module.ts', 'orders.module.spec.ts', 'orders.contract.spec.ts']) {
    writeFileSync(join(app, 'src', name), sourceOf(join(snippets, name), jest));
  }
  writeFileSync(join(app, 'src/main.ts'), sourceOf(join(snippets, main), jest));
  addModule(join(app, 'src/app.module.ts'), 'OrdersModule', './orders.module', jest);
  editJson(join(app, 'package.json'), (json) => {
    Object.assign(json.dependencies, firstSteps(tarball));
    json.devDependencies['@modelcontextprotocol/client'] = dev['@modelcontextprotocol/client'];
    if (jest && !native) Object.assign(json.jest, forJest);
  });
  if (jest && !native) editJson(join(app, 'test/jest-e2e.json'), (json) => Object.assign(json, forJest));
}

/** What the README tells to install. */
export function firstSteps(tarball) {
  return {
    [manifest.name]: `file:${tarball}`,
    '@modelcontextprotocol/server': dev['@modelcontextprotocol/server'],
    zod: dev.zod,
  };
}

/** A source for an app; in CommonJS its imports have no ending, as the README says. */
export function sourceOf(path, commonJs) {
  const text = readFileSync(path, 'utf8').replace(/^\/\/\/.*\n/, '');
  return commonJs ? text.replace(/(from '\.[^']*)\.js'/g, "$1'") : text;
}

/** Adds a module to the imports of the AppModule. */
export function addModule(appModule, name, path, commonJs) {
  edit(appModule, (text) => {
    ok(text.includes('imports: ['), `another AppModule than was expected: ${text}`);
    const line = `import { ${name} } from '${path}${commonJs ? '' : '.js'}';\n`;
    return line + text.replace('imports: [', `imports: [${name}, `);
  });
}

/** Runs the unit and the e2e tests, those that were generated and the one of the README. */
export async function testNestApp(app, nest, node) {
  if (!KINDS[nest].jest) {
    const vitest = (...more) => run(node, ['node_modules/vitest/vitest.mjs', 'run', ...more], { cwd: app });
    await vitest();
    return vitest('--config', 'vitest.config.e2e.ts');
  }
  const jest = 'node_modules/jest/bin/jest.js';
  const cache = ['--cacheDirectory', join(app, 'jest-cache')];
  await run(node, [jest, ...cache], { cwd: app });
  return run(node, [jest, ...cache, '--config', 'test/jest-e2e.json'], { cwd: app });
}

/** Runs them as the README says for newer versions of Node: jest loads ES modules by itself. */
export async function testNatively(app, node) {
  const jest = [
    '--experimental-vm-modules',
    'node_modules/jest/bin/jest.js',
    '--cacheDirectory',
    join(app, 'jest-cache'),
  ];
  const untransformed = ['--transformIgnorePatterns', '/node_modules/'];
  await run(node, [...jest, ...untransformed], { cwd: app });
  await run(node, [...jest, '--config', 'test/jest-e2e.json', ...untransformed], { cwd: app });
}

/** Compiles sources to ES modules, whatever the package says. */
const asModules = {
  rootDir: 'src',
  testRegex: String.raw`orders.*\.spec\.ts$`,
  moduleFileExtensions: ['js', 'json', 'ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    [String.raw`^.+\.ts$`]: [
      'ts-jest',
      {
        useESM: true,
        tsconfig: {
          target: 'ES2023',
          module: 'esnext',
          moduleResolution: 'bundler',
          strict: true,
          skipLibCheck: true,
          experimentalDecorators: true,
          emitDecoratorMetadata: true,
        },
      },
    ],
  },
};

/** Runs the test of the README with jest in ES modules, where this package needs no transform. */
export function testAsModules(app, node) {
  const cache = ['--cacheDirectory', join(app, 'jest-cache-esm')];
  const config = ['--config', JSON.stringify(asModules)];
  return run(node, ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', ...cache, ...config], { cwd: app });
}

/** Starts what was built. */
export async function startNestApp(app, node) {
  const output = await callApp(node, 'dist/main.js', { cwd: app });
  ok(!output.includes('enableShutdownHooks'), 'the app is told to enable shutdown hooks, which it does');
}

export function edit(path, change) {
  writeFileSync(path, change(readFileSync(path, 'utf8')));
}

export function editJson(path, change) {
  const json = JSON.parse(readFileSync(path, 'utf8'));
  change(json);
  writeJson(path, json);
}

export function writeJson(path, json) {
  writeFileSync(path, JSON.stringify(json, undefined, 2));
}
