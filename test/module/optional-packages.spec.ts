import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import ts from 'typescript';
import { build, type Plugin, type Rolldown } from 'vite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ROOT } from '../support/bundle.js';

/** The files that load packages which an app may lack, by one name that such a package exports. */
const LOADERS = [
  ['src/auth/jose-package.cts', 'jwtVerify'],
  ['src/core/handlers/schema/class-packages.cts', 'defaultMetadataStorage'],
  ['src/core/common/otel-package.cts', 'ProxyTracerProvider'],
  ['src/prometheus/prom-client-package.cts', 'Histogram'],
  ['src/redis/connection/ioredis-package.cts', 'Cluster'],
] as const;

/** Compiles to CommonJS, as the build of this package does. */
const compiled: Plugin = {
  name: 'compiled',
  load: {
    filter: { id: /\.cts$/ },
    handler(id) {
      const compilerOptions = { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.CommonJS };
      const code = ts.transpileModule(readFileSync(id, 'utf8'), { compilerOptions }).outputText;
      return { code, moduleType: 'js' };
    },
  },
};

/** A bundle for Node with all packages in it. @returns its text */
async function bundled(input: string): Promise<string> {
  const built = await build({
    configFile: false,
    root: ROOT,
    logLevel: 'silent',
    plugins: [compiled],
    ssr: { noExternal: true },
    build: { ssr: true, write: false, minify: false, rolldownOptions: { input } },
  });
  return (built as Rolldown.RolldownOutput).output.map((file) => ('code' in file ? file.code : '')).join('\n');
}

describe.each(LOADERS)('a bundle of an app that uses %s', (loader, name) => {
  let elsewhere: string;

  beforeEach(() => {
    elsewhere = mkdtempSync(join(tmpdir(), 'optional-packages-'));
  });

  afterEach(() => rmSync(elsewhere, { recursive: true }));

  it('a bundle of an app with an optional package has the package in it', async () => {
    expect(await bundled(join(ROOT, loader))).toContain(name);
  });

  it('a bundle of an app with an optional package is built without the package, where it is not installed', async () => {
    const copy = join(elsewhere, basename(loader));
    cpSync(join(ROOT, loader), copy);
    const code = await bundled(copy);
    expect(code).not.toContain(name);
    expect(code).toContain('require(');
  });
});
