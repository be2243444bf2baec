import type { Machine } from './machine.js';
import { median, spread } from './statistics.js';
import { type Subject, SUBJECTS } from './subjects.js';
import type { WorkResult } from './work.js';

/** The results as Markdown: ratios first, for they are what carries over to another machine. */

interface About extends Machine {
  readonly pinned: boolean;
  readonly quick: boolean;
  readonly rounds: number;
}

const PEERS = ['mcp-nest-express', 'mcp-nest-fastify', 'sdk-v1', 'sdk-v2'].map(subjectNamed);

export function report(about: About, results: readonly WorkResult[]): string {
  const works = results.filter(({ sessions }) => sessions === undefined);
  const grown = results.filter(({ sessions }) => sessions !== undefined);
  return [
    header(about),
    works.length > 0 && `### What ours costs beside a bare Nest route\n\n${floorTable(works)}`,
    works.length > 0 && `### What others cost beside ours on the same adapter\n\n${peerTable(works)}`,
    grown.length > 0 && `### With ever more sessions\n\n${growthTable(grown)}`,
    footnotes(results),
  ]
    .filter((part) => part !== false)
    .join('\n\n');
}

function header({ date, node, cpu, cores, memoryGiB, versions, quick, rounds, pinned }: About): string {
  const conditions = `${rounds} rounds${quick ? ', quick' : ''}${pinned ? '' : ', NOT pinned to cores'}`;
  const names = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return `${date}, ${conditions}. Node.js ${node}, ${cpu}, ${cores} cores, ${memoryGiB} GiB.\n\n${names.join(', ')}.`;
}

function floorTable(works: readonly WorkResult[]): string {
  const rows = works.map((work) => [
    work.title,
    ...(['express', 'fastify'] as const).flatMap((adapter) => [
      ratioCell(work, `ours-${adapter}`, `bare-${adapter}`),
      valueCell(work, `ours-${adapter}`),
      valueCell(work, `bare-${adapter}`),
    ]),
  ]);
  const columns = ['Express', 'ours', 'bare', 'Fastify', 'ours', 'bare'];
  return table(['work', ...columns], rows);
}

function peerTable(works: readonly WorkResult[]): string {
  const rows = works.map((work) => [
    work.title,
    ...PEERS.map(({ name, adapter }) => {
      const ratio = ratioCell(work, name, `ours-${adapter}`);
      return ratio === '–' ? ratio : `${ratio} (${valueCell(work, name)})`;
    }),
  ]);
  return table(['work', ...PEERS.map(({ title }) => title)], rows);
}

/** One table for each work: a row for each subject, a column for each number of sessions. */
function growthTable(grown: readonly WorkResult[]): string {
  const titles = [...new Set(grown.map(({ title }) => title))];
  return titles
    .map((title) => {
      const works = grown.filter((work) => work.title === title);
      const measured = SUBJECTS.filter(({ name }) => works.some(({ rounds }) => rounds[name]));
      const rows = measured.map((subject) => [subject.title, ...works.map((work) => valueCell(work, subject.name))]);
      return table([title, ...works.map(({ sessions }) => `${sessions?.toLocaleString('en')} sessions`)], rows);
    })
    .join('\n\n');
}

function footnotes(results: readonly WorkResult[]): string {
  const done = new Set(results.map(({ work }) => work));
  const reasons = SUBJECTS.flatMap(({ cannot }) =>
    Object.entries(cannot).flatMap(([work, reason]) => (done.has(work as WorkResult['work']) ? [reason] : [])),
  );
  const all = results.flatMap(({ title, rounds }) =>
    Object.entries(rounds).map(([name, values]) => ({ title, name, spread: spread(values) })),
  );
  const widest = all.toSorted((a, b) => b.spread - a.spread)[0];
  const lines = [
    'CPU time of the server process per unit of work, median of the rounds; ratios are medians of the rounds’ ratios. Memory is heap and buffers after a collection.',
    ...(reasons.length > 0 ? [`–: ${[...new Set(reasons)].join('; ')}.`] : []),
    ...(widest ? [`Widest spread: ${percent(widest.spread)}, “${widest.title}”, ${widest.name}.`] : []),
  ];
  return lines.join('\n\n');
}

/** @returns how many times more `name` costs than `base`, round by round */
function ratioCell({ rounds }: WorkResult, name: string, base: string): string {
  const [above, below] = [rounds[name], rounds[base]];
  if (!above || !below) return '–';
  return `${median(above.map((value, round) => value / below[round]!)).toFixed(2)}×`;
}

function valueCell({ rounds, unit }: WorkResult, name: string): string {
  const values = rounds[name];
  if (!values) return '–';
  const value = median(values);
  return unit === 'bytes' ? `${(value / 1024).toFixed(1)} KiB` : `${value.toFixed(value < 20 ? 1 : 0)} µs`;
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = columns.map((_, index) => (index === 0 ? '---' : '--:'));
  return [columns, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function subjectNamed(name: string): Subject {
  return SUBJECTS.find((subject) => subject.name === name)!;
}
