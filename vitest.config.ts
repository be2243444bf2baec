import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { livePagePlugin } from './scripts/live-page.mjs';

const source = (path: string): string => fileURLToPath(new URL(`./src/${path}`, import.meta.url));

/** The longest first: started last, one would run on alone. By time on two cores. */
const LONGEST = [
  'redis/chaos',
  'redis/rolling',
  'redis/stream-scheme.fuzz',
  'client/chaos',
  'clients/settling',
  'handlers/memory',
  'load/hostile-connections',
  'handlers/observables-back-pressure',
  'quickstart/quickstart.e2e',
  'differential/modern',
  'methods/method-dispatcher.fuzz',
].map((name) => `/${name}.spec.ts`);

/** Files that need a process of their own: they mock modules, measure the heap, or look at what the process listens to. */
const ALONE = [
  'test/**/memory.spec.ts',
  'test/handlers/observables-back-pressure.spec.ts',
  'test/load/hostile-readers.spec.ts',
  'test/module/{dev-sessions,shutdown-delay,shutdown-hooks}.spec.ts',
  'test/auth/missing-jose.spec.ts',
  'test/redis/{chaos,formats,missing-ioredis}.spec.ts',
];

/** Left out by `npm run check`: real time, load, other processes, many runs. */
const LONG = process.env['QUICK']
  ? [
      '**/*.fuzz.spec.ts',
      'test/{browser,client,clients,cluster,differential,load,quickstart,redis,sqlite}/**',
      'src/core/http/edge/http-edge.spec.ts',
      'test/{auth,live}/nodes.spec.ts',
      'test/recipes/{bullmq,kubernetes,login-proxy,monitoring}.spec.ts',
      'test/stdio/processes.spec.ts',
      'test/tasks/killed.spec.ts',
      'test/handlers/{errors,errors-hostile,limits,lists-per-caller,matrix,observables*,pagination}.spec.ts',
      'test/legacy/{edge-body*,post-slow-reader,sessions-nodes,sessions-off}.spec.ts',
      'test/modern/{clients,concurrency,disconnects,slow-reader}.spec.ts',
    ]
  : [];

const QUIET = ['test/support/quiet.ts'];
/** Specifications of single classes, which make no endpoint. */
const SDK = 'test/support/sdk.ts';

class LongestFirst extends BaseSequencer {
  /** One project after the other: files of another project cannot go on in the same process. */
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const projects = [...new Set(files.map(({ project }) => project.name))].toSorted();
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(name));
      return at < 0 ? LONGEST.length : at;
    };
    const sorted = files.toSorted(
      (a, b) =>
        projects.indexOf(a.project.name) - projects.indexOf(b.project.name) ||
        rank(a) - rank(b) ||
        a.moduleId.localeCompare(b.moduleId),
    );
    return Promise.resolve(sorted);
  }
}

export default defineConfig({
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
    sequence: { sequencer: LongestFirst },
    // By default one core is left alone, which on two cores is every other one. More workers than cores gain nothing.
    maxWorkers: Math.max(2, availableParallelism()),
    // Tests that promise "memory returns" must be able to ask for a collection.
    execArgv: ['--expose-gc'],
    // What an app does by default depends on it: not on the shell that runs the tests.
    env: { NODE_ENV: 'test' },
    // Limits of time only end what hangs, also on a machine that has twenty times as much to do.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 5 } },
    // A test that leaves a timer or a socket behind must not keep the run from ending.
    teardownTimeout: 10_000,
    // Tests of failures log a lot.
    silent: 'passed-only',
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['src/**/*.spec.ts', 'test/architecture/**/*.spec.ts'],
          exclude: LONG,
          setupFiles: [...QUIET, SDK],
        },
      },
      {
        extends: true,
        test: {
          name: 'e2e',
          include: ['test/**/*.spec.ts'],
          exclude: ['test/architecture/**', ...ALONE, ...LONG],
          setupFiles: [...QUIET, 'test/support/file-setup.ts'],
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: ALONE, isolate: true, setupFiles: [...QUIET, 'test/support/file-setup.ts'] },
      },
    ],
  },
});
