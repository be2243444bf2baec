import { execFile } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';

const FOLDER = join(ROOT, `build/loaded-${process.pid}`);
const ENTRIES = ['index', 'decorators/index', 'stores/index', 'server/index', 'live/index', 'skills/index'];

/** Hooks of Node's loader that note each URL that was loaded: in a file, since a full pipe would refuse some. */
const HOOKS = `
  import { appendFileSync } from 'node:fs';
  export async function load(url, context, next) {
    appendFileSync(process.env.LOADED, url + '\\n');
    return next(url, context);
  }`;
let programs = 0;

/** The URLs of all modules that a process loads when it runs a program. */
async function loadedBy(program: string): Promise<string[]> {
  const hooks = `data:text/javascript,${encodeURIComponent(HOOKS)}`;
  const register = `import { register } from 'node:module'; register(${JSON.stringify(hooks)});`;
  const args = ['--no-warnings', '--import', `data:text/javascript,${encodeURIComponent(register)}`];
  const evaluated = ['--input-type=module', '--eval', program];
  const LOADED = join(FOLDER, `loaded-${++programs}.txt`);
  const options = { cwd: ROOT, env: { ...process.env, LOADED } };
  await promisify(execFile)(process.execPath, [...args, ...evaluated], options);
  return readFileSync(LOADED, 'utf8').split('\n').filter(Boolean);
}

const entry = (name: string): string => JSON.stringify(pathToFileURL(join(FOLDER, `${name}.js`)).href);
const ofSdk = (urls: readonly string[]): string[] => urls.filter((url) => url.includes('@modelcontextprotocol/'));

describe('a process that imports', () => {
  beforeAll(() => bundle(Object.fromEntries(ENTRIES.map((name) => [name, `src/${name}.ts`])), FOLDER));
  afterAll(() => rmSync(FOLDER, { recursive: true, force: true }));

  it.each(['index', 'decorators/index'])('Tool from %s loads nothing of the SDK', async (name) => {
    const loaded = await loadedBy(`import { Tool } from ${entry(name)}; Tool({ name: 'x' });`);
    expect(loaded).toContain(JSON.parse(entry(name)));
    expect(ofSdk(loaded)).toEqual([]);
  });

  it.each(['stores/index', 'live/index', 'skills/index'])('%s loads nothing of the SDK', async (name) => {
    expect(ofSdk(await loadedBy(`import ${entry(name)};`))).toEqual([]);
  });

  it('server/index loads the SDK', async () => {
    expect(ofSdk(await loadedBy(`import ${entry('server/index')};`))).not.toEqual([]);
  });

  it('the main entry loads the SDK when it starts an endpoint', async () => {
    const loaded = await loadedBy(`
      import 'reflect-metadata';
      import { NestFactory } from '@nestjs/core';
      import { McpStreamableModule } from ${entry('index')};
      const module = McpStreamableModule.forRoot({ serverInfo: { name: 'x', version: '1' } });
      const app = await NestFactory.create(module, { logger: false });
      await app.init();
      await app.close();`);
    expect(ofSdk(loaded)).not.toEqual([]);
  });

  it('the main entry loads what serves catalogues if a class is one', async () => {
    const started = (provider: string): Promise<string[]> =>
      loadedBy(`
        import 'reflect-metadata';
        import { Module } from '@nestjs/common';
        import { NestFactory } from '@nestjs/core';
        import { McpCatalogue, McpStreamableModule } from ${entry('index')};
        class Plugins { list() { return []; } call() {} }
        ${provider}
        const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'x', version: '1' } })];
        class App {}
        Module({ imports, providers: [Plugins] })(App);
        const app = await NestFactory.create(App, { logger: false });
        await app.init();
        await app.close();`);
    const ofCatalogues = (urls: readonly string[]) => urls.filter((url) => url.includes('catalogues.plugin'));
    expect(ofCatalogues(await started(''))).toEqual([]);
    expect(ofCatalogues(await started('McpCatalogue()(Plugins);'))).toHaveLength(1);
  });
});
