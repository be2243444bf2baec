import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { bundle, ROOT } from '../support/bundle.js';

/** The programs of the package: bundled from the sources, or those of a tarball, as `npm run x -- check:package` has it. */
const { PACKED } = process.env;
const FOLDER = PACKED ?? join(ROOT, `build/loaded-${process.pid}`);
/** Notes of what is loaded. */
const NOTES = join(ROOT, `build/loaded-notes-${process.pid}`);
/** What is published, for the main entry: to find, read and compile a file takes longer than to run it. */
const MOST_FILES = 5;
const ENTRIES = ['index', 'decorators/index', 'stores/index', 'server/index', 'live/index', 'skills/index'];

/** Hooks of Node's loader that note each URL that was loaded: in a file, since a full pipe would refuse some. */
const HOOKS = `
  import { appendFileSync } from 'node:fs';
  export async function load(url, context, next) {
    appendFileSync(process.env.LOADED, url + '\\n');
    return next(url, context);
  }`;
/** The hooks do not see what CommonJS requires. */
const REQUIRED = `
  import { createRequire } from 'node:module';
  import { appendFileSync } from 'node:fs';
  process.on('exit', () => {
    const paths = Object.keys(createRequire(process.execPath).cache);
    appendFileSync(process.env.LOADED, paths.map((path) => 'file://' + path + '\\n').join(''));
  });`;
let programs = 0;

/** The URLs of all modules that a process loads when it runs a program. */
async function loadedBy(program: string): Promise<string[]> {
  const hooks = `data:text/javascript,${encodeURIComponent(HOOKS)}`;
  const register = `import { register } from 'node:module'; register(${JSON.stringify(hooks)}); ${REQUIRED}`;
  const args = ['--no-warnings', '--import', `data:text/javascript,${encodeURIComponent(register)}`];
  const evaluated = ['--input-type=module', '--eval', program];
  const LOADED = join(NOTES, `${++programs}.txt`);
  const options = { cwd: ROOT, env: { ...process.env, LOADED } };
  await promisify(execFile)(process.execPath, [...args, ...evaluated], options);
  return readFileSync(LOADED, 'utf8').split('\n').filter(Boolean);
}

const entry = (name: string): string => JSON.stringify(pathToFileURL(join(FOLDER, `${name}.js`)).href);
const packagesIn = (urls: readonly string[]): string[] => [
  ...new Set(urls.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? [])),
];
const ofSdk = (urls: readonly string[]): string[] => urls.filter((url) => url.includes('@modelcontextprotocol/'));

describe('a process that imports', () => {
  beforeAll(async () => {
    mkdirSync(NOTES, { recursive: true });
    if (!PACKED) await bundle(Object.fromEntries(ENTRIES.map((name) => [name, `src/${name}.ts`])), FOLDER);
  });
  afterAll(() => {
    rmSync(NOTES, { recursive: true, force: true });
    if (!PACKED) rmSync(FOLDER, { recursive: true, force: true });
  });

  it.each(['index', 'decorators/index'])('Tool from %s loads nothing of the SDK', async (name) => {
    const loaded = await loadedBy(`import { Tool } from ${entry(name)}; Tool({ name: 'x' });`);
    expect(loaded).toContain(JSON.parse(entry(name)));
    expect(ofSdk(loaded)).toEqual([]);
  });

  it.each(['stores/index', 'live/index', 'skills/index'])('%s loads nothing of the SDK', async (name) => {
    expect(ofSdk(await loadedBy(`import ${entry(name)};`))).toEqual([]);
  });

  it('the main entry loads no package that Nest does not load', async () => {
    const nest = `import '@nestjs/common'; import '@nestjs/core'; import 'reflect-metadata';`;
    const ofNest = packagesIn(await loadedBy(nest));
    expect(ofNest).toEqual(expect.arrayContaining(['@nestjs/core', 'rxjs']));
    const ofEntry = packagesIn(await loadedBy(`${nest} import ${entry('index')};`));
    expect(ofEntry.filter((name) => !ofNest.includes(name))).toEqual([]);
  });

  it.runIf(PACKED)('the main entry is few files', async () => {
    const loaded = await loadedBy(`import ${entry('index')};`);
    const files = new Set(loaded.filter((url) => url.startsWith(pathToFileURL(FOLDER).href)));
    expect([...files]).toContain(JSON.parse(entry('index')));
    expect(files.size).toBeLessThanOrEqual(MOST_FILES);
  });

  it('server/index loads the SDK', async () => {
    expect(ofSdk(await loadedBy(`import ${entry('server/index')};`))).not.toEqual([]);
  });

  /** Starts an endpoint with some options. @param before code of the app, such as classes with decorators */
  const startOf = (options: string, before = '', providers = ''): string => `
      import 'reflect-metadata';
      import { NestFactory } from '@nestjs/core';
      import { McpCatalogue, McpStreamableModule } from ${entry('index')};
      import { Server } from ${options.includes('Server') ? entry('server/index') : `'node:http'`};
      ${before}
      const endpoint = McpStreamableModule.forRoot({ serverInfo: { name: 'com.example/x', version: '1' }, ${options} });
      const app = await NestFactory.create({ module: class {}, imports: [endpoint], providers: [${providers}] }, { logger: false });
      await app.init();
      await app.close();`;

  it('the main entry loads the SDK when it starts an endpoint', async () => {
    expect(ofSdk(await loadedBy(startOf('')))).not.toEqual([]);
  });

  /** What a feature loads first, and the option that uses it. */
  const BY_OPTION: Readonly<Record<string, string>> = {
    'auth.plugin': `auth: { resource: 'https://x.example/mcp', authorizationServers: ['https://idp.example'] }`,
    'card.plugin': `serverCard: { description: 'x', url: 'https://x.example/mcp' }`,
    'endpoint-doctor': 'doctor: true',
    'dev-stores': 'devSessions: true',
    'instrumentation.plugin': 'instrumentation: { call: (info, run) => run() }',
  };
  const SERVERS = 'sdk-dispatcher';
  const CATALOGUES = 'catalogues.plugin';
  /** What acts on handlers is loaded for all endpoints that serve some. */
  const OF_HANDLERS = ['endpoint-switches', 'effects.plugins', 'limits.plugin'];
  /** A bundle of the sources puts a hash behind each name. */
  const NAME = PACKED ? /\/([\w.-]+)\.js$/ : /\/([\w.-]+?)(?:-[\w-]{8})?\.js$/;
  const namesIn = (urls: readonly string[]): string[] => urls.flatMap((url) => NAME.exec(url)?.[1] ?? []);

  it('an endpoint without options loads no feature but those for handlers', async () => {
    const loaded = await loadedBy(startOf('doctor: false, devSessions: false'));
    const names = namesIn(loaded);
    expect(names).toEqual(expect.arrayContaining(OF_HANDLERS));
    for (const file of [...Object.keys(BY_OPTION), SERVERS, CATALOGUES]) expect(names).not.toContain(file);
    expect(names.filter((name) => /jwt|jose|diagnosis/.test(name))).toEqual([]);
    const optional = Object.keys(manifest.peerDependenciesMeta).filter((name) => packagesIn(loaded).includes(name));
    expect(optional).toEqual([]);
  });

  it('a feature is loaded for the option that uses it', async () => {
    const names = namesIn(await loadedBy(startOf(Object.values(BY_OPTION).join(', '))));
    expect(names).toEqual(expect.arrayContaining(Object.keys(BY_OPTION)));
  });

  it('catalogues are loaded when a class is one', async () => {
    const catalogue = 'class Cat { list() { return []; } call() {} } McpCatalogue({ ttlMs: 1 })(Cat);';
    expect(namesIn(await loadedBy(startOf('', catalogue, 'Cat')))).toContain(CATALOGUES);
  });

  it('an endpoint with the option server loads the servers of the SDK, and nothing for handlers', async () => {
    const names = namesIn(await loadedBy(startOf(`server: () => new Server({ name: 'x', version: '1' })`)));
    expect(names).toContain(SERVERS);
    for (const file of OF_HANDLERS) expect(names).not.toContain(file);
  });
});
