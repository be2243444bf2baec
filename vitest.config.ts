import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (path: string): string => fileURLToPath(new URL(`./src/${path}`, import.meta.url));

export default defineConfig({
  // Of TypeScript's endings Vite leaves out .cts.
  oxc: { include: /\.[cm]?tsx?$/ },
  resolve: {
    // Tests and examples name the package as its users do; here that means its sources, so that tests need no build.
    // The same list as `paths` in tsconfig.json.
    alias: [
      { find: /^nestjs-mcp-streamable$/, replacement: source('index.ts') },
      { find: /^nestjs-mcp-streamable\/(\w+)$/, replacement: source('$1/index.ts') },
    ],
  },
  test: {
    pool: 'forks',
    // By default one core is left alone, which on two cores is every other one.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // Tests that promise "memory returns" must be able to ask for a collection.
    execArgv: ['--expose-gc'],
    testTimeout: 20_000,
    hookTimeout: 20_000,
    // A test that leaves a timer or a socket behind must not keep the run from ending.
    teardownTimeout: 10_000,
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: ['src/**/*.spec.ts', 'test/architecture/**/*.spec.ts'] },
      },
      {
        extends: true,
        test: { name: 'e2e', include: ['test/**/*.spec.ts'], exclude: ['test/architecture/**'] },
      },
    ],
  },
});
