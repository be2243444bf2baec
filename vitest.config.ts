import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { livePagePlugin } from './scripts/live-page.mjs';

const source = (path: string): string => fileURLToPath(new URL(`./src/${path}`, import.meta.url));

/** Files that need a process of their own: they mock modules, measure the heap, or look at what the process listens to. */
const ALONE = [
  'test/**/memory.spec.ts',
  'test/handlers/observables-back-pressure.spec.ts',
  'test/load/hostile-readers.spec.ts',
  'test/module/{dev-sessions,shutdown-delay,shutdown-hooks}.spec.ts',
  'test/auth/missing-jose.spec.ts',
  'test/redis/{chaos,formats,missing-ioredis}.spec.ts',
];

/** What `npm test` leaves to `npm run test:all`: volume, other processes, browsers, Redis. */
const REST = [
  '{src,test}/**/*.fuzz.spec.ts',
  'test/{browser,clients,cluster,differential,examples,load,quickstart,recipes,redis,sqlite}/**/*.spec.ts',
  'test/client/{chaos,example,output-schemas,real-servers}.spec.ts',
  'test/**/snippets.spec.ts',
  'test/architecture/loaded.spec.ts',
  'test/{auth,live}/nodes.spec.ts',
  'test/auth/example.spec.ts',
  'test/module/{optional-packages,serverless,versioning}.spec.ts',
  'test/stdio/processes.spec.ts',
  'test/tasks/killed.spec.ts',
  'test/handlers/{dto-matrix,errors,errors-hostile,errors-long-texts,lists-per-caller,matrix,observables*,pagination}.spec.ts',
  'test/legacy/{edge-body*,post-slow-reader,sessions-nodes}.spec.ts',
  'test/modern/{clients,concurrency,disconnects,slow-reader}.spec.ts',
];

/** Runs for each file, in each process. */
const SETUP = ['test/support/costs.ts', 'test/support/quiet.ts', 'test/support/sdk.ts', 'test/support/file-setup.ts'];

/** Files of a folder one after the other: its line is printed when the last one has ended. */
class ByFolder extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const key = ({ project, moduleId }: TestSpecification): string => `${project.name} ${moduleId}`;
    return Promise.resolve(files.toSorted((a, b) => key(a).localeCompare(key(b))));
  }
}

/** The specifications with parts that `npm test` leaves out: those on the other adapter, on Redis, volume, and rows of tables. */
function withPartsLeftOut(): string[] {
  const files = ['src', 'test'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
  );
  return files.filter(
    (file) =>
      file.endsWith('.spec.ts') && /\b(ADAPTERS|describeRedis|QUICK|sampled)\b/.test(readFileSync(file, 'utf8')),
  );
}

/** Unless isolated, its files share processes. */
const projectOf = (name: string, include: string[], exclude: string[], isolate = false) => ({
  extends: true as const,
  test: { name, include, exclude: ['**/node_modules/**', ...exclude], isolate, setupFiles: SETUP },
});

/** `--mode quick`: what `npm test` runs, on one adapter. `--mode rest`: what that leaves out. Without a mode: all tests. */
export default defineConfig(({ mode }) => ({
  plugins: [livePagePlugin()],
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
    // The files of a worker share a process and its loaded packages: loading them anew for each file took longer than half of
    // the tests. What a file needs of a process for itself is in the project `alone`.
    isolate: false,
    sequence: { sequencer: ByFolder },
    // By default one core is left alone, which on two cores is every other one. More workers than cores gain nothing.
    maxWorkers: Math.max(2, availableParallelism()),
    // Tests that promise "memory returns" must be able to ask for a collection.
    execArgv: ['--expose-gc'],
    // What an app does by default depends on NODE_ENV: not on the shell that runs the tests.
    env: { NODE_ENV: 'test', ...(mode === 'quick' && { ADAPTER: process.env['ADAPTER'] ?? 'fastify', QUICK: '1' }) },
    // Limits of time only end what hangs, also on a machine that has twenty times as much to do.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 10 } },
    // A test that leaves a timer or a socket behind must not keep the run from ending.
    teardownTimeout: 10_000,
    // Tests of failures log a lot.
    silent: 'passed-only',
    reporters: ['./scripts/test-groups.mjs'],
    projects: [
      projectOf('quick', mode === 'rest' ? withPartsLeftOut() : ['src/**/*.spec.ts', 'test/**/*.spec.ts'], [
        ...REST,
        ...ALONE,
      ]),
      ...(mode === 'quick' ? [] : [projectOf('rest', REST, ALONE), projectOf('alone', ALONE, [], true)]),
    ],
  },
}));
