// Vitest's runner, in the process of the tests: runs each test again with the mutants that it reaches, one at a time. A mutant is
// killed if the test fails with it, and passes twice without it before.
import { appendFileSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { TestRunner } from 'vitest';
import { EACH_TEST, isNear, MAX_TITLE } from './log.mjs';

/** So often a test runs, without the mutants: it ends earlier. */
const MOST_RUNS = 1_000;
/** For a mutant are tried so many tests of a file that is about its code, of another file, and so many of the others. */
const MOST_OF_NEAR = 40;
const MOST_OF_OTHER = 2;
const MOST_OTHERS = 12;
/** A test that takes longer than this with all of its mutants is tried with some of them. */
const BUDGET_MS = 20_000;
/** With a mutant a test hangs if it takes ten times as long, and longer than so. */
const HANGS_MS = 1_500;

/** A test may replace these. */
const now = performance.now.bind(performance);
const { setTimeout: later, clearTimeout: never } = globalThis;

const plan = JSON.parse(readFileSync(process.env['MUTANTS_PLAN'], 'utf8'));
const files = new Map(plan.mutants.map(({ id, file }) => [id, file]));
/** One for all files that share the process. */
const state = (globalThis.__mutants ??= {
  reached: new Set(),
  killed: new Set(plan.killed),
  tests: new Map(),
  active: undefined,
});
globalThis.__is = (id) => {
  state.reached.add(id);
  return state.active === id;
};

const write = (entry) => appendFileSync(plan.log, `${JSON.stringify({ pid: process.pid, ...entry })}\n`);

export default class MutantRunner extends TestRunner {
  #file;
  #title;
  #queue;
  #ms;
  /** `first`, `again` without a mutant, or `mutated` */
  #phase;
  #began;

  async onBeforeRunTask(test) {
    await super.onBeforeRunTask(test);
    this.#file = relative('', test.file.filepath);
    this.#title = test.fullTestName.length > MAX_TITLE ? undefined : test.fullTestName;
    test.retry = MOST_RUNS;
    this.#phase = 'first';
    this.#queue = undefined;
    this.#noteReached();
  }

  onBeforeTryTask(test) {
    super.onBeforeTryTask(test);
    state.reached.clear();
    if (this.#phase === 'mutated') {
      state.active = this.#queue.shift();
      write({ tries: state.active, file: this.#file, title: this.#title });
    }
    this.#began = now();
  }

  async runTask(test) {
    const run = Promise.resolve(TestRunner.getTestFn(test)());
    if (state.active === undefined) return run;
    run.catch(() => {});
    let timer;
    const limitMs = Math.max(HANGS_MS, 10 * this.#ms);
    const hanging = new Promise((_, reject) => (timer = later(() => reject(new Error('It hangs.')), limitMs)));
    return Promise.race([run, hanging]).finally(() => never(timer));
  }

  onAfterRetryTask(test) {
    const passed = test.result.state === 'pass';
    const id = state.active;
    state.active = undefined;
    if (id !== undefined) {
      write({ tried: id, killed: !passed, file: this.#file, title: this.#title });
      if (!passed) state.killed.add(id);
    }
    const isOver = this.#isOver(passed);
    // Vitest runs it again if it has failed with an error.
    if (this.#phase === 'first' && isOver) {
      if (!passed) test.result.errors = [];
      return;
    }
    test.result.state = isOver ? 'pass' : 'fail';
    test.result.errors = isOver ? undefined : [{ message: 'It runs again.' }];
  }

  /** Decides what the next run is. */
  #isOver(passed) {
    if (this.#phase === 'first') {
      this.#ms = now() - this.#began;
      this.#queue = passed ? this.#toTry() : [];
      if (this.#queue.length === 0) return true;
      this.#phase = 'again';
      return false;
    }
    // It fails when it is repeated, or something of the mutant is left.
    if (this.#phase === 'again' && !passed) {
      write({ reached: this.#queue, file: this.#file });
      return true;
    }
    if (this.#phase === 'again') this.#leaveOutOnce();
    const isClean = this.#phase === 'again' || passed;
    this.#phase = isClean ? 'mutated' : 'again';
    return isClean && this.#queue.length === 0;
  }

  /** What the first run alone reaches is the start of an app that tests share, or fills a cache: it is planted alone. */
  #leaveOutOnce() {
    const once = this.#queue.filter((id) => !state.reached.has(id));
    if (once.length === 0) return;
    write({ reached: once, file: this.#file });
    this.#queue = this.#queue.filter((id) => state.reached.has(id));
  }

  #toTry() {
    const ids = plan.wanted ? this.#wanted() : [...state.reached];
    const most = plan.wanted ? Infinity : BUDGET_MS / this.#ms;
    let count = 0;
    return ids.filter((id) => {
      if (state.killed.has(id) || !files.has(id)) return false;
      if (plan.wanted) return true;
      const tests = state.tests.get(id) ?? new Map();
      state.tests.set(id, tests);
      const ofFile = tests.get(this.#file) ?? 0;
      const isNearOne = isNear(this.#file, files.get(id));
      if (ofFile >= (isNearOne ? MOST_OF_NEAR : MOST_OF_OTHER)) return false;
      if (!isNearOne && ofFile === 0 && tests.size >= MOST_OTHERS) return false;
      if (++count > most) return false;
      tests.set(this.#file, ofFile + 1);
      return true;
    });
  }

  #wanted() {
    const { [this.#title]: own = [], [EACH_TEST]: ofEach = [] } = plan.wanted[this.#file] ?? {};
    return [...own, ...ofEach.filter((id) => state.reached.has(id))];
  }

  onAfterRunTask(test) {
    super.onAfterRunTask(test);
    state.reached.clear();
  }

  /** What hooks of the file reach belongs to no test. */
  #noteReached() {
    const ids = [...state.reached].filter((id) => files.has(id));
    if (ids.length > 0) write({ reached: ids, file: this.#file });
    state.reached.clear();
  }

  async onAfterRunSuite(suite) {
    await super.onAfterRunSuite(suite);
    if (!('filepath' in suite)) return;
    this.#noteReached();
    write({ ended: relative('', suite.filepath) });
  }
}
