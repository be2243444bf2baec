// The apps of `nest new`, with what the first steps of the README add to them.
import { ok } from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freePort, Program } from './program.mjs';
import { install, root, run } from './run.mjs';
import { manifest } from './tarball.mjs';

const snippets = join(root, 'examples/snippets');
/** The line of the README. */
const transformed = String.raw`/node_modules/(?!(?:\.pnpm/)?nestjs-mcp-streamable)`;
const cli = 'node_modules/@nestjs/cli/bin/nest.js';

/** By major version of Nest: the one in CommonJS with jest, the other in ES modules with vitest. */
const KINDS = {
  11: { main: 'first-main.cts', jest: true },
  12: { main: 'first-main.ts', jest: false },
};

/**
 * Generates, changes, installs and builds.
 *
 * @param node runs the command line of Nest, whose releases need newer versions of Node than Nest itself
 * @returns the folder of the app
 */
export async function makeNestApp(folder, nest, node, tarball) {
  mkdirSync(folder);
  writeJson(join(folder, 'package.json'), { private: true, dependencies: { '@nestjs/cli': `^${nest}` } });
  await install(folder);
  const env = { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` };
  const args = [cli, 'new', 'app', '--package-manager', 'npm', '--skip-git', '--skip-install'];
  await run(node, args, { cwd: folder, env });
  const app = join(folder, 'app');
  addOrders(app, KINDS[nest], tarball);
  await install(app);
  await run(node, [cli, 'build'], { cwd: app, env });
  return app;
}

/** The first steps of the README, and its test. */
function addOrders(app, { main, jest }, tarball) {
  // As the README says: in CommonJS without the ending.
  const source = (name) => {
    const text = readFileSync(join(snippets, name), 'utf8').replace(/^\/\/\/.*\n/, '');
    return jest ? text.replace(/(from '\.[^']*)\.js'/g, "$1'") : text;
  };
  for (const name of ['orders.module.ts', 'orders.module.spec.ts']) writeFileSync(join(app, 'src', name), source(name));
  writeFileSync(join(app, 'src/main.ts'), source(main));
  edit(join(app, 'src/app.module.ts'), (text) => {
    ok(text.includes('imports: []'), `another AppModule than was expected: ${text}`);
    const line = `import { OrdersModule } from './orders.module${jest ? '' : '.js'}';\n`;
    return line + text.replace('imports: []', 'imports: [OrdersModule]');
  });
  const dev = manifest.devDependencies;
  editJson(join(app, 'package.json'), (json) => {
    json.dependencies[manifest.name] = `file:${tarball}`;
    json.dependencies['@modelcontextprotocol/server'] = dev['@modelcontextprotocol/server'];
    json.dependencies.zod = dev.zod;
    json.devDependencies['@modelcontextprotocol/client'] = dev['@modelcontextprotocol/client'];
    if (jest) json.jest.transformIgnorePatterns = [transformed];
  });
  if (jest) editJson(join(app, 'test/jest-e2e.json'), (json) => (json.transformIgnorePatterns = [transformed]));
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
          ...{ target: 'ES2023', module: 'esnext', moduleResolution: 'bundler', strict: true, skipLibCheck: true },
          ...{ experimentalDecorators: true, emitDecoratorMetadata: true },
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

/** Starts what was built, until a client has begun a session and SIGTERM has ended it. */
export async function startNestApp(app, node) {
  const port = await freePort();
  const server = new Program(node, ['dist/main.js'], { cwd: app, env: { ...process.env, PORT: `${port}` } });
  try {
    const answer = await server.until(() => initialize(port));
    ok((await answer.text()).includes('"orders"'), `initialize was answered ${answer.status}`);
    ok(!server.output.includes('enableShutdownHooks'), 'the app is told to enable shutdown hooks, which it does');
    await server.stop();
  } catch (error) {
    throw new Error(`${error.message}\n${server.output}`, { cause: error });
  } finally {
    await server.stop('SIGKILL').catch(() => {});
  }
}

function initialize(port) {
  const clientInfo = { name: 'check-compat', version: '1.0.0' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
  return fetch(`http://127.0.0.1:${port}/mcp`, {
    method: 'POST',
    headers: { ...headers, connection: 'close' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  });
}

function edit(path, change) {
  writeFileSync(path, change(readFileSync(path, 'utf8')));
}

function editJson(path, change) {
  const json = JSON.parse(readFileSync(path, 'utf8'));
  change(json);
  writeJson(path, json);
}

function writeJson(path, json) {
  writeFileSync(path, JSON.stringify(json, undefined, 2));
}
