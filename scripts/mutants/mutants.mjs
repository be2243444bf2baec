// Shows that the tests still find errors: plants the recorded mutants, one after the other, and runs tests that must fail.
//
//   npm run x -- mutants                 plants those that were killed, and fails if one survives
//   npm run x -- mutants --record        also looks for what kills the others, adds new ones, and writes test/mutants.json
//   npm run x -- mutants --of quick      how many of those that were killed `npm test` alone kills
//
// With `--left`, `--record` takes those alone that nothing has killed. `--in TEXT` takes the mutants of files and rooms with this text
// alone, `--workers 1` one process instead of two, and the names of test files these alone. No file of src changes: runner.mjs plants
// the mutants in what vitest loads, all of them at once, and test-runner.mjs switches them on, one at a time. What runs when a module
// is loaded, in hooks of a file, or only once in an app that tests share, is planted alone.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chosen } from './choose.mjs';
import { EACH_TEST, isNear, Log } from './log.mjs';
import { located, sources, switched } from './places.mjs';
import { Runner } from './runners.mjs';

const RECORD = 'test/mutants.json';
const COUNT = 300;
/** So many files are tried for a mutant that is planted alone. */
const MOST_FILES = 12;

const { values: flags, positionals: only } = parseArgs({
  allowPositionals: true,
  options: {
    record: { type: 'boolean', default: false },
    left: { type: 'boolean', default: false },
    of: { type: 'string' },
    in: { type: 'string', default: '' },
    workers: { type: 'string', default: '2' },
  },
});
const workers = Number(flags.workers);

const read = () => (existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, 'utf8')).mutants : []);

/** One mutant a line, so that changes are seen. */
function write(mutants) {
  const lines = mutants.map(({ id: _, tries: __, ...mutant }) => `    ${JSON.stringify(mutant)}`);
  writeFileSync(RECORD, `{\n  "mutants": [\n${lines.join(',\n')}\n  ]\n}\n`);
}

/** @returns the files of killers, each once, with the titles of the tests */
const casesOf = (killers) => {
  const titles = new Map();
  for (const { file, title } of killers) titles.set(file, [...(titles.get(file) ?? []), title]);
  return [...titles].map(([file, own]) => (own.includes(undefined) ? { file } : { file, titles: own }));
};
const nameOf = ({ file, title }) => (title === undefined ? file : `${file} > ${title}`);

/** Runs tests in which mutants are switched on. @returns what they have written */
async function runSwitched(mutants, { mode, cases, wanted }) {
  const log = new Log(mutants, wanted);
  for (let rest = cases; rest.length > 0;) {
    const runner = new Runner({ mode, workers, mutants });
    log.begin();
    const { hangs } = await runner.run({ plan: log.plan, cases: rest }, log);
    runner.close();
    if (!hangs) break;
    const isNoted = log.noteHanging();
    const { ended } = log;
    const left = rest.filter(({ file }) => !ended.has(file));
    // Whatever it is that hangs, it is not the mutants.
    rest = isNoted ? left : left.slice(1);
  }
  return log;
}

/** Plants mutants alone, each with tests that may kill it. @returns the killers */
async function plantAlone(mutants, { mode, casesOfOne }) {
  const found = new Map();
  const queue = [...mutants];
  const one = async () => {
    const runner = new Runner({ mode, workers: 1, bail: 1 });
    for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
      const cases = casesOfOne(mutant);
      const { failures } = cases.length > 0 ? await runner.run({ mutant, cases }) : { failures: [] };
      const killer = failures.find(({ file }) => file);
      console.log(`${killer ? `killed by ${nameOf(killer)}` : 'survives'}: ${mutant.file} ${mutant.mutated}`);
      if (!killer || (await fails(runner, killer))) continue;
      found.set(mutant, killer);
    }
    runner.close();
  };
  await Promise.all(Array.from({ length: Math.min(workers, queue.length) }, one));
  return found;
}

/** A test that fails without a mutant proves nothing. */
async function fails(runner, killer) {
  const { failures, modules } = await runner.run({ cases: casesOf([killer]) });
  return failures.length > 0 || modules.every(({ titles }) => titles.length === 0);
}

const filesOf = ({ killedBy }) => killedBy.map(({ file }) => ({ file }));

/** Plants those with a killer again: with the test, with all tests of its file, and alone. @returns those that survive */
async function plantAgain(mutants, mode) {
  let rest = mutants;
  // Titles change, and so do the tests of a file that find an error.
  for (const killersOf of [({ killedBy }) => killedBy, filesOf]) {
    if (rest.length === 0) return [];
    const wanted = {};
    for (const mutant of rest) {
      for (const { file, title = EACH_TEST } of killersOf(mutant)) {
        ((wanted[file] ??= {})[title] ??= []).push(mutant.id);
      }
    }
    const log = await runSwitched(rest, { mode, cases: casesOf(rest.flatMap(killersOf)), wanted });
    const { killers } = log;
    console.log(`${killers.size} of ${rest.length} are killed.`);
    for (const mutant of rest) if (killers.has(mutant.id)) mutant.killedBy = [killers.get(mutant.id)];
    rest = rest.filter(({ id }) => !killers.has(id));
  }
  const found = await plantAlone(rest, { mode, casesOfOne: filesOf });
  for (const [mutant, killer] of found) mutant.killedBy = [killer];
  return rest.filter((mutant) => !found.has(mutant));
}

/** Looks for tests that kill the mutants. @returns the killers */
async function search(mutants, mode) {
  const lists = new Runner({ mode });
  // The tests of single classes kill quickly.
  const files = (await lists.files())
    .filter((file) => only.length === 0 || only.includes(file))
    .toSorted((one, other) => other.startsWith('src') - one.startsWith('src'));
  lists.close();
  console.log(`Runs the ${mode} tests, to find what kills ${mutants.length} mutants.`);
  const log = await runSwitched(mutants, { mode, cases: files.map((file) => ({ file })) });
  const { killers } = log;
  console.log(`${killers.size} are killed. Plants alone what tests cannot switch on.`);
  const found = new Map(
    mutants.flatMap((mutant) => (killers.has(mutant.id) ? [[mutant, killers.get(mutant.id)]] : [])),
  );
  const rest = mutants.filter((mutant) => !found.has(mutant));
  const casesOfOne = (mutant) => {
    const byHooks = isSwitched(mutant)
      ? [...log.reachedBy(mutant.id)]
      : files.filter((file) => isNear(file, mutant.file));
    const sorted = byHooks.toSorted((one, other) => isNear(other, mutant.file) - isNear(one, mutant.file));
    return sorted.slice(0, MOST_FILES).map((file) => ({ file }));
  };
  const alone = await plantAlone(
    rest.filter((mutant) => casesOfOne(mutant).length > 0),
    { mode, casesOfOne },
  );
  for (const mutant of rest) mutant.tries = log.triesOf(mutant.id);
  return new Map([...found, ...alone]);
}

function isSwitched(mutant) {
  return switched(mutant.file, readFileSync(mutant.file, 'utf8'), [mutant]).others.length === 0;
}

async function main() {
  const known = read();
  const places = sources();
  const here = known.flatMap((mutant) => located(mutant, places) ?? []);
  console.log(`${known.length} are recorded; of ${known.length - here.length} the code is gone.`);
  const all = flags.record ? [...here, ...chosen(COUNT, here)] : here;
  for (const [id, mutant] of all.entries()) mutant.id = id;

  const asked = all.filter(
    ({ file, room, killedBy, equivalent }) =>
      `${file} ${room}`.includes(flags.in) && (flags.record ? !equivalent && !(flags.left && killedBy) : killedBy),
  );
  const isKilled = ({ killedBy }) => killedBy?.some(({ file }) => only.length === 0 || only.includes(file));
  const survivors = await plantAgain(asked.filter(isKilled), flags.of);
  const killed = new Set(asked.filter((mutant) => isKilled(mutant) && !survivors.includes(mutant)));
  // What `npm test` kills need not be looked for elsewhere.
  for (const mode of flags.of ? [flags.of] : ['quick', 'rest']) {
    const rest = asked.filter((mutant) => !killed.has(mutant));
    if (rest.length === 0) break;
    for (const [mutant, killer] of await search(rest, mode)) {
      killed.add(mutant);
      mutant.killedBy = [killer];
    }
    if (flags.record) write(all);
  }

  for (const mutant of asked) {
    if (killed.has(mutant)) continue;
    const { room, file, text, mutated, tries } = mutant;
    console.log(`survives ${tries} tries: ${room}, ${file}\n  ${text}\n  ${mutated}`);
  }
  console.log(`${killed.size} of ${asked.length} are killed${flags.of ? ` by ${flags.of} tests` : ''}.`);
  if (!flags.record && killed.size < asked.length) process.exitCode = 1;
}

await main();
