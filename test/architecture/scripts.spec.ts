import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/** What scripts/x.mjs exports. */
interface Runner {
  readonly TASKS: Readonly<Record<string, { what: string; project?: string; run?: readonly string[] }>>;
  unknown(asked: string): string;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** npm prints a page of scripts; more are not read. */
const MAX_SCRIPTS = 15;
/** npm itself calls these: before or after another one, and after it has installed. */
const OF_NPM = /^(?:pre|post|dependencies$)/;
/** Of the apps that `nest new` makes: the documentation names them. */
const OF_USERS = ['start:dev'];

const { TASKS, unknown } = (await import(new URL('../../scripts/x.mjs', import.meta.url).href)) as Runner;

const scriptsOf = (folder: string): string[] => {
  const path = join(ROOT, folder, 'package.json');
  if (!existsSync(path)) return [];
  return Object.keys((JSON.parse(readFileSync(path, 'utf8')) as { scripts?: object }).scripts ?? {});
};

/** The file whose compiled form a program is. */
const sourceOf = (program: string): string =>
  program.startsWith('build/')
    ? program
        .replace(/^build\/(?=conformance\/)/, 'test/')
        .replace(/^build\//, '')
        .replace(/\.js$/, '.ts')
    : program;

it(`package.json has at most ${MAX_SCRIPTS} scripts to call`, () => {
  const toCall = scriptsOf('.').filter((name) => !OF_NPM.test(name));
  expect(toCall.length).toBeLessThanOrEqual(MAX_SCRIPTS);
});

describe('npm run x', () => {
  it.each(Object.entries(TASKS))(
    'npm run x leads %s to files that exist',
    (_name, { project, run: [program] = [] }) => {
      const files = [project, program && sourceOf(program)].filter((file) => file !== undefined);
      expect(files.length).toBeGreaterThan(0);
      expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
    },
  );

  it('npm run x has no name that is a script of package.json too', () => {
    expect(scriptsOf('.').filter((name) => name in TASKS)).toEqual([]);
  });

  it.each([
    ['oauth', 'Did you mean start:oauth?'],
    ['bench:sever', 'Did you mean bench:server?'],
    ['test', '"test" is a script of its own: npm run test'],
    ['nothing like it', 'npm run x lists the names.'],
  ])('npm run x says what to do about the name %j', (asked, hint) => {
    expect(unknown(asked)).toContain(hint);
  });
});

it('commands that are named in the repository exist', () => {
  const listed = execFileSync(
    'git',
    ['grep', '--no-index', '--exclude-standard', '-IlE', 'npm run ', '--', ':!CHANGELOG.md', ':!package-lock.json'],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  const missing = listed
    .trim()
    .split('\n')
    .flatMap((file) => {
      const known = [...scriptsOf('.'), ...scriptsOf(dirname(file)), ...OF_USERS];
      const text = readFileSync(join(ROOT, file), 'utf8');
      return [...text.matchAll(/npm run (?:(?:-s|--silent) )?(?:x -- ([a-z][\w:-]*)|(?!x -- )([a-z][\w:-]*))/g)]
        .filter(([, task, script]) => (task ? !(task in TASKS) : !known.includes(script!)))
        .map(([command]) => `${file}: ${command}`);
    });
  expect(missing).toEqual([]);
});
