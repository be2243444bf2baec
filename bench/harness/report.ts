import { judged, type Judgement, strangeTo } from './goals.js';
import type { Machine } from './machine.js';
import { addedByTokens, baseOf, firstVariant, ratioOf, smallest, valueOf } from './ratios.js';
import { spread } from './statistics.js';
import { type Subject, SUBJECTS, TOKENS, VARIANTS, type WorkName } from './subjects.js';
import type { Unit, WorkResult } from './work.js';

/** The results as Markdown: ratios first, for they are what carries over to another machine. */

export interface About extends Machine {
  readonly pinned: boolean;
  readonly quick: boolean;
  readonly rounds: number;
}

const ABSENT = '–';

export function report(about: About, results: readonly WorkResult[]): string {
  const ofWork = (name: WorkName): WorkResult[] => results.filter(({ work }) => work === name);
  const [nodes, plugins, starts] = [ofWork('nodes'), ofWork('plugins'), ofWork('start')];
  const grown = results.filter(({ size }) => size !== undefined);
  const tokens = ofWork('jwt');
  const works = results.filter(({ work, size }) => !VARIANTS[work] && work !== 'jwt' && size === undefined);
  const goals = judged(results.filter(({ size }) => size === undefined));
  const parts = [
    header(about),
    works.length > 0 && `### On Express\n\n${subjectTable(works, 'express')}`,
    works.length > 0 && `### On Fastify\n\n${subjectTable(works, 'fastify')}`,
    grown.length > 0 && `### With ever more sessions\n\n${growthTables(grown)}`,
    nodes.length > 0 && `### Sessions shared between nodes, on Fastify\n\n${variantsTable(nodes)}`,
    tokens.length > 0 && `### Access tokens, on Fastify\n\n${tokensTable(tokens)}`,
    plugins.length > 0 && `### Plugins around a call, on Fastify\n\n${addedTable(plugins)}`,
    starts.length > 0 && `### Start, on Fastify\n\n${variantsTable(starts)}`,
    goals.length > 0 && `### Goals\n\n${goalsTable(goals)}`,
    goals.length > 0 && strangeTo(about.node),
    footnotes(results),
  ];
  return parts.filter((part) => typeof part === 'string').join('\n\n');
}

function header({ date, node, cpu, cores, memoryGiB, versions, quick, rounds, pinned }: About): string {
  const conditions = `${rounds} rounds${quick ? ', quick' : ''}${pinned ? '' : ', NOT pinned to cores'}`;
  const names = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return `${date}, ${conditions}. Node.js ${node}, ${cpu}, ${cores} cores, ${memoryGiB} GiB.\n\n${names.join(', ')}.`;
}

/** A row for each work, a column for each subject: first how many times the bare route, then what that is. */
function subjectTable(works: readonly WorkResult[], adapter: Subject['adapter']): string {
  const subjects = SUBJECTS.filter(
    (subject) => subject.adapter === adapter && works.some(({ rounds }) => rounds[subject.name]),
  ).toSorted((a, b) => Number(b.name.startsWith('bare-')) - Number(a.name.startsWith('bare-')));
  const rows = works
    .filter(({ rounds }) => subjects.some(({ name }) => rounds[name]))
    .map((work) => [work.title, ...subjects.map((subject) => subjectCell(subject, work))]);
  return table(['work', ...subjects.map(({ title }) => title.replace(/, \w+$/, ''))], rows);
}

function subjectCell(subject: Subject, work: WorkResult): string {
  const values = work.rounds[subject.name];
  const base = baseOf(subject, work);
  const ratio = base && ratioOf(values, work.rounds[base], work.unit);
  if (!values) return ABSENT;
  const value = told(values, work.unit);
  if (!ratio) return value;
  return `${times(ratio)}${base.startsWith('ours-') ? ' ours' : ''} (${value})`;
}

/** One table for each work: a row for each subject, a column for each number of sessions. */
function growthTables(grown: readonly WorkResult[]): string {
  const titles = [...new Set(grown.map(({ title }) => title))];
  return titles.map((title) => growthTable(grown.filter((work) => work.title === title))).join('\n\n');
}

function growthTable(works: readonly WorkResult[]): string {
  const [first, last] = [smallest(works, works[0]!), works.at(-1)!];
  const measured = SUBJECTS.filter(({ name }) => works.some(({ rounds }) => rounds[name]));
  const rows = measured.map(({ title, name }) => {
    const growth = first === last ? undefined : ratioOf(last.rounds[name], first.rounds[name], last.unit);
    const values = works.map(({ rounds, unit }) => (rounds[name] ? told(rounds[name], unit) : ABSENT));
    return [title, growth === undefined ? ABSENT : times(growth), ...values];
  });
  const sizes = works.map(({ size }) => size!.toLocaleString('en'));
  return table([first.title, `${sizes.at(-1)} beside ${sizes[0]}`, ...sizes], rows);
}

/** A row for each work, a column for each variant. */
function variantsTable(works: readonly WorkResult[]): string {
  const variants = VARIANTS[works[0]!.work]!;
  const rows = works.map((work) => {
    const base = firstVariant(work);
    const cells = variants.map(({ name }) => {
      const values = work.rounds[name];
      if (!values) return ABSENT;
      const ratio = name === base ? undefined : ratioOf(values, work.rounds[base!], work.unit);
      const value = told(values, work.unit);
      return ratio === undefined ? value : `${times(ratio)} (${value})`;
    });
    return [work.title, ...cells];
  });
  return table(['work', ...variants.map(({ title }) => title)], rows);
}

/** A row for each variant: what it costs, and what it adds to the first. */
function addedTable(works: readonly WorkResult[]): string {
  const rows = works.flatMap((work) => {
    const base = work.rounds[firstVariant(work)!]!;
    const measured = VARIANTS[work.work]!.filter(({ name }) => work.rounds[name]);
    return measured.map(({ name, title }) => {
      const values = work.rounds[name]!;
      const cost = told(values, work.unit);
      if (values === base) return [work.title, title, cost, ABSENT];
      const added = valueOf(values, work.unit) - valueOf(base, work.unit);
      return [work.title, title, `${times(ratioOf(values, base, work.unit)!)} (${cost})`, `${added.toFixed(1)} µs`];
    });
  });
  return table(['work', 'with', 'cost', 'added'], rows);
}

/** What each costs, and what the token adds to both. */
function tokensTable(works: readonly WorkResult[]): string {
  const rows = works.map((work) => {
    const cells = TOKENS.map(({ name }) => (work.rounds[name] ? told(work.rounds[name], work.unit) : ABSENT));
    const added = addedByTokens(work);
    return [
      work.title,
      ...cells,
      ...[added?.ours, added?.bare].map((each) => (each ? `${each.toFixed(1)} µs` : ABSENT)),
    ];
  });
  const added = ['a token adds to ours', 'to the bare route'];
  return table(['work', ...TOKENS.map(({ title }) => title), ...added], rows);
}

function goalsTable(goals: readonly Judgement[]): string {
  const rows = goals.map(({ title, measured, goal, met }) => [title, measured, goal, met ? 'yes' : '**no**']);
  return table(['ours', 'measured', 'goal', 'met'], rows);
}

function footnotes(results: readonly WorkResult[]): string {
  const done = new Set<string>(results.map(({ work }) => work));
  const reasons = SUBJECTS.flatMap(({ cannot }) =>
    Object.entries(cannot).flatMap(([work, reason]) => (done.has(work) ? [reason] : [])),
  );
  const all = results.flatMap(({ title, rounds }) =>
    Object.entries(rounds).map(([name, values]) => ({ title, name, spread: spread(values) })),
  );
  const widest = all.toSorted((a, b) => b.spread - a.spread)[0];
  const lines = [
    'How many times the bare Nest route on the same adapter (“ours” where a bare route cannot do it), and the CPU time of the server process per unit of work: the mean without the slowest quarter of the rounds. Memory is heap and buffers after a collection.',
    ...(reasons.length > 0 ? [`${ABSENT}: ${[...new Set(reasons)].join('; ')}.`] : []),
    ...warmth(results),
    ...(widest ? [`Widest spread of rounds: ${percent(widest.spread)}, “${widest.title}”, ${widest.name}.`] : []),
  ];
  return lines.join('\n\n');
}

/** What each server had done before its first round. */
function warmth(results: readonly WorkResult[]): string[] {
  const warm = results.flatMap(({ title, size, warm = {} }) => {
    const units = Object.values(warm);
    if (units.length === 0) return [];
    const [least, most] = [Math.min(...units), Math.max(...units)].map((each) => each.toLocaleString('en'));
    const of = size === undefined ? title : `${title}, ${size.toLocaleString('en')} sessions`;
    return [`${of}: ${least === most ? least : `${least} to ${most}`}`];
  });
  if (warm.length === 0) return [];
  return [`Units of work that each server had done before its first round, to be warm: ${warm.join('; ')}.`];
}

function told(values: readonly number[], unit: Unit): string {
  const value = valueOf(values, unit);
  switch (unit) {
    case 'bytes':
      return `${(value / 1024).toFixed(1)} KiB`;
    case 'calls/s':
      return `${Math.round(value).toLocaleString('en')} calls/s`;
    case 'µs':
      return value < 10_000 ? `${value.toFixed(value < 20 ? 1 : 0)} µs` : `${(value / 1000).toFixed(0)} ms`;
  }
}

function times(ratio: number): string {
  return `${ratio.toFixed(2)}×`;
}

export function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = columns.map((_, index) => (index === 0 ? '---' : '--:'));
  return [columns, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
