// What is no script of package.json: `npm run x -- NAME [arguments]`. Without a name it lists the names.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, root } from './build.mjs';

const BENCH = 'bench/tsconfig.build.json';
const CONFORMANCE = 'test/conformance/tsconfig.build.json';
const EXAMPLES = 'examples/tsconfig.build.json';
const VITEST = 'node_modules/vitest/vitest.mjs';
const PRETTIER = 'node_modules/prettier/bin/prettier.cjs';

/** For each name: what it does, the project that is built before, and the program with its first arguments. */
const TASKS = {
  'build:examples': { what: 'builds the examples to build/examples', project: EXAMPLES },
  'build:conformance': { what: 'builds server and client of the conformance suite', project: CONFORMANCE },
  'build:bench': { what: 'builds the benchmark', project: BENCH },

  'test:rest': { what: 'what npm test leaves to npm run test:all', run: [VITEST, 'run', '--mode', 'rest'] },
  'test:costs': {
    what: 'the CPU time and the started apps of each file of npm test (--mode rest for the others)',
    env: { COSTS: '60' },
    run: [VITEST, 'run', '--mode', 'quick'],
  },
  'test:nodes': {
    what: 'the end-to-end tests, with their requests spread over two nodes on Redis',
    run: [VITEST, 'run', '--config', 'test/vitest.nodes.config.ts'],
  },
  'test:chaos': {
    what: 'nodes, proxies and Redis fail under 50 clients (CHAOS_CLIENTS)',
    env: { CHAOS_CLIENTS: '50' },
    run: [VITEST, 'run', 'test/redis/chaos.spec.ts'],
  },
  kill: { what: 'nodes are killed in 1,000 worlds (--worlds, --seed)', run: ['scripts/kill.mjs'] },

  mutants: {
    what: 'plants the mutants of test/mutants.json, which tests must kill (--record, --of quick, --in TEXT)',
    run: ['scripts/mutants/mutants.mjs'],
  },

  'record:formats': {
    what: 'records what a build of the package leaves in Redis, for the test of formats (FOLDER)',
    run: ['scripts/record-formats.mjs'],
  },

  'format:check': { what: 'whether all files are formatted', run: [PRETTIER, '--check', '.'] },
  'check:package': { what: 'what would be published', run: ['scripts/check-package.mjs'] },
  'check:compat': {
    what: 'the package in apps of each kind, under each Node.js, by each builder; or of the kinds named',
    run: ['scripts/check-compat.mjs'],
  },
  'check:features': {
    what: 'each feature of src is taken out, and the rest compiled; or those named',
    run: ['scripts/check-features.mjs'],
  },
  'check:start': { what: 'npm start in a fresh clone', run: ['scripts/check-start.mjs'] },
  'check:dev-loop': { what: 'sessions under nest start --watch', run: ['scripts/check-dev-loop.mjs'] },
  'check:examples': {
    what: 'each example in a folder of its own, with the packed package; or those named',
    run: ['scripts/check-examples.mjs'],
  },

  'conformance:server': {
    what: 'the server of the conformance suite (PORT, ADAPTER, REDIS_URL)',
    project: CONFORMANCE,
    run: ['build/conformance/server.js'],
  },
  'conformance:client': {
    what: 'the client of the conformance suite, for a URL',
    project: CONFORMANCE,
    run: ['build/conformance/client.js'],
  },
  'conformance:clients': {
    what: 'the client scenarios of the conformance suite',
    run: ['scripts/conformance-clients.mjs'],
  },

  'call-path': {
    what: 'the functions that one tools/call runs, and its promises (--modern, --express, --full, --route, --session)',
    project: 'src/tsconfig.build.json',
    run: ['scripts/call-path.mjs'],
  },

  house: { what: 'what the core and its features know of each other, in numbers', run: ['scripts/house.mjs'] },

  'bench:server': {
    what: 'our server of the benchmark alone (PORT, ADAPTER)',
    project: BENCH,
    run: ['build/bench/server.js'],
  },
  'bench:live': { what: 'what the live page costs a server', project: BENCH, run: ['build/bench/live.js'] },
  'bench:overload': {
    what: 'one caller sends more than a server can serve',
    project: BENCH,
    run: ['build/bench/overload.js'],
  },
  capacity: {
    what: 'how many nodes and how much Redis a load needs (--calls, --sessions; --measure, --check)',
    project: BENCH,
    run: ['build/bench/capacity.js'],
  },
  'bench:values': { what: 'what a valid request of N bytes costs', project: BENCH, run: ['build/bench/values.js'] },
  soak: { what: 'half an hour of visitors (--minutes); what they leave must not grow', run: ['scripts/soak.mjs'] },

  'docs:build': { what: 'the documentation site, to build/docs', run: ['scripts/docs.mjs', 'build'] },
  'docs:check': { what: 'builds the site, and looks at its pages in Chromium', run: ['scripts/check-docs.mjs'] },
  'docs:snippets': {
    what: 'writes the code of the compiled examples into the pages',
    run: ['scripts/docs-snippets.mjs'],
  },
  'docs:options': { what: 'writes docs/options.md from the comments', run: ['scripts/options-page.mjs'] },

  ...starts(),
  'start:stdio': {
    what: 'the quickstart over stdio, for clients that start their servers',
    project: EXAMPLES,
    run: ['build/examples/quickstart/stdio.js'],
  },
};

/** Of each example that stands alone. */
function starts() {
  const folder = join(root, 'examples');
  const names = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'package.json')));
  const tasks = names.map((name) => {
    const { description } = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8'));
    const main = existsSync(join(folder, name, 'main.ts')) ? 'main.js' : 'src/main.js';
    return [
      `start:${name}`,
      { what: `example: ${description}`, project: EXAMPLES, run: [`build/examples/${name}/${main}`] },
    ];
  });
  return Object.fromEntries(tasks);
}

function list() {
  console.log('npm run x -- NAME [arguments]\n');
  for (const [name, { what }] of Object.entries(TASKS)) console.log(`  ${name.padEnd(20)} ${what}`);
}

function unknown(asked) {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  if (Object.hasOwn(scripts, asked)) return `"${asked}" is a script of its own: npm run ${asked}`;
  const near = Object.keys(TASKS).filter((name) => name.includes(asked) || distance(name, asked) <= 2);
  const hint = near.length > 0 ? `Did you mean ${near.join(', ')}?` : 'npm run x lists the names.';
  return `There is no "${asked}". ${hint}`;
}

/** How many letters must be added, removed or replaced. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}

/** In this process, so that signals, stdin and stdout are the program's own. */
async function start({ project, env = {}, run }, args) {
  try {
    if (project) await build(project);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
    return;
  }
  if (!run) return;
  for (const [name, value] of Object.entries(env)) process.env[name] ??= value;
  const [file, ...first] = run;
  const path = join(root, file);
  process.argv.splice(1, Infinity, path, ...first, ...args);
  process.setSourceMapsEnabled(true);
  await import(pathToFileURL(path).href);
}

export { TASKS, unknown };

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name, ...args] = process.argv.slice(2);
  process.chdir(root);
  if (name === undefined) list();
  else if (Object.hasOwn(TASKS, name)) await start(TASKS[name], args);
  else {
    console.error(unknown(name));
    process.exitCode = 1;
  }
}
