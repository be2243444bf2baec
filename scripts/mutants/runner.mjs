// A process that runs tests with mutants, again and again. mutants.mjs starts it, and ends it when a mutant makes it hang.
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createVitest } from 'vitest/node';
import { MAX_TITLE } from './log.mjs';
import { planted, switched } from './places.mjs';

const besides = (name) => fileURLToPath(new URL(name, import.meta.url));

const { mode, workers, bail = 0, mutants } = JSON.parse(process.argv[2]);
/** The mutant that is planted, if not all of them are there and test-runner.mjs switches them on. */
let now;

globalThis.mutants = {
  transform(code, id) {
    const file = relative('', id.split('?')[0]);
    if (now?.file === file) return planted(code, now);
    const here = mutants?.filter((mutant) => mutant.file === file) ?? [];
    return here.length > 0 ? switched(file, code, here).text : undefined;
  },
  test: {
    maxWorkers: workers,
    ...(mutants && { runner: besides('test-runner.mjs') }),
    // With a mutant, many tests wait for what never comes.
    ...((mutants !== undefined || bail > 0) && { hookTimeout: 10_000, expect: { poll: { timeout: 5_000 } } }),
    ...(bail > 0 && { testTimeout: 10_000 }),
  },
};

/** As mutants.mjs has ordered them, one project after the other: each begins a process. */
class InOrder {
  shard = (files) => Promise.resolve(files);
  sort(files) {
    const projects = [...new Set(files.map(({ project }) => project))];
    return Promise.resolve(projects.flatMap((project) => files.filter((file) => file.project === project)));
  }
}

const vitest = await createVitest('test', {
  config: besides('vitest.config.mjs'),
  watch: false,
  mode,
  bail,
  reporters: [{ onTestCaseReady: ({ module, fullName }) => tell({ file: fileOf(module), title: shortOf(fullName) }) }],
  sequence: { sequencer: InOrder },
});

const all = new Map((await vitest.globTestSpecifications()).map((one) => [fileOf(one), one]));

function shortOf(title) {
  return title.length > MAX_TITLE ? undefined : title;
}

function fileOf({ moduleId }) {
  return relative('', moduleId);
}

function tell(message) {
  if (process.connected) process.send(message);
}

const escaped = (text) => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`);

/** Vitest joins the names of suites and test by spaces where it compares them. */
const patternOf = (titles) =>
  new RegExp(`^(?:${titles.map((title) => escaped(title.split(' > ').join(' '))).join('|')})$`);

/** @returns what failed: tests, or files as a whole, such as by their hooks */
function failuresOf({ testModules, unhandledErrors }) {
  const ofTests = testModules.flatMap((module) =>
    [...module.children.allTests('failed')].map(({ fullName }) => ({ file: fileOf(module), title: shortOf(fullName) })),
  );
  const ofFiles = testModules
    .filter((module) => module.state() === 'failed' && !ofTests.some(({ file }) => file === fileOf(module)))
    .map((module) => ({ file: fileOf(module) }));
  const unhandled = unhandledErrors.map(({ VITEST_TEST_PATH: path }) => ({ file: path && relative('', path) }));
  return [...ofTests, ...ofFiles, ...unhandled];
}

async function run({ mutant, plan, cases }) {
  for (const file of [now?.file, mutant?.file]) if (file) vitest.invalidateFile(resolve(file));
  now = mutant;
  if (plan) process.env['MUTANTS_PLAN'] = plan;
  vitest.state.filesMap.clear();
  const specifications = cases
    .filter(({ file }) => all.has(file))
    .map(({ file, titles, part }) => {
      const { project, moduleId } = all.get(file);
      const testNamePattern = part ? new RegExp(escaped(part)) : titles && patternOf(titles);
      return project.createSpecification(moduleId, testNamePattern && { testNamePattern });
    });
  const result = await vitest.runTestSpecifications(specifications);
  const modules = result.testModules.map((module) => ({
    file: fileOf(module),
    ms: module.diagnostic().duration,
    titles: [...module.children.allTests('passed')].map(({ fullName }) => shortOf(fullName)),
  }));
  tell({ failures: failuresOf(result), modules });
}

process.on('message', (asked) => void run(asked));
process.on('disconnect', () => process.exit());
tell({ files: [...all.keys()] });
