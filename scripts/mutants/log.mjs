// What test-runner.mjs writes while tests run, and what it says about the mutants.
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FOLDER = 'build/mutants';
/** A test with a longer title is known by its file alone. */
export const MAX_TITLE = 300;
/** Stands for the title where each test of a file is to be tried with a mutant. */
export const EACH_TEST = '*';

/** Which folders of tests are about which folders of code, where they have other names. */
const ABOUT = {
  calls: ['legacy', 'modern', 'handlers'],
  eras: ['legacy', 'modern'],
  http: ['legacy', 'modern', 'module'],
  log: ['legacy', 'cluster'],
  nodes: ['cluster'],
  protocol: ['legacy', 'modern'],
  sessions: ['legacy', 'cluster'],
  redis: ['cluster'],
  standalone: ['session'],
  testing: ['kit'],
};

/** Whether tests are about the code of a mutant: beside it, or in a folder for its folder. */
export function isNear(file, code) {
  const [names, others] = [file, code].map((path) =>
    dirname(path)
      .split('/')
      .filter((name) => !COMMON.has(name)),
  );
  const about = others.flatMap((name) => [name, ...(ABOUT[name] ?? [])]);
  return about.length === 0 ? file.includes('/module/') : names.some((name) => about.includes(name));
}

const COMMON = new Set(['src', 'test', 'core']);

/** The order for the process of the tests, and what it has written. */
export class Log {
  constructor(mutants, wanted) {
    this.path = join(FOLDER, `log-${process.pid}.jsonl`);
    this.plan = join(FOLDER, `plan-${process.pid}.json`);
    this.mutants = mutants.map(({ id, file }) => ({ id, file }));
    this.wanted = wanted;
    mkdirSync(FOLDER, { recursive: true });
    rmSync(this.path, { force: true });
  }

  begin() {
    const killed = [...this.killers.keys()];
    const { mutants, wanted } = this;
    writeFileSync(this.plan, JSON.stringify({ log: this.path, mutants, wanted, killed }));
  }

  get #entries() {
    if (!existsSync(this.path)) return [];
    const lines = readFileSync(this.path, 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line));
  }

  get changedAt() {
    return existsSync(this.path) ? statSync(this.path).mtimeMs : 0;
  }

  /** The mutants that were killed, and by which test. */
  get killers() {
    const killed = this.#entries.filter((entry) => entry.killed);
    return new Map(killed.map(({ tried, file, title }) => [tried, { file, title }]));
  }

  /** The files whose tests have all run. */
  get ended() {
    return new Set(this.#entries.flatMap(({ ended }) => ended ?? []));
  }

  /** For a mutant, the files whose hooks reach it. */
  reachedBy(id) {
    return new Set(this.#entries.flatMap(({ reached, file }) => (reached?.includes(id) ? file : [])));
  }

  /** With how many tests it was tried. */
  triesOf(id) {
    return this.#entries.filter(({ tried }) => tried === id).length;
  }

  /** The tests that hang with a mutant are its killers. */
  noteHanging() {
    const running = new Map();
    for (const entry of this.#entries) {
      if (entry.tries !== undefined) running.set(entry.pid, entry);
      if (entry.tried !== undefined) running.delete(entry.pid);
    }
    const lines = [...running.values()].map(({ tries, ...rest }) =>
      JSON.stringify({ ...rest, tried: tries, killed: true }),
    );
    if (lines.length > 0) writeFileSync(this.path, `${lines.join('\n')}\n`, { flag: 'a' });
    return lines.length > 0;
  }
}
