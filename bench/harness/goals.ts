import { majorOf, MAJOR } from './node-binary.js';
import { addedByTokens, ratioOf, valueOf } from './ratios.js';
import { PLUGINS, type Subject, type WorkName } from './subjects.js';
import type { WorkResult } from './work.js';

/** What ours must cost at most on Node.js 24, beside what stands in the same work, and whether it does. */

export interface Judgement {
  readonly title: string;
  readonly measured: string;
  readonly goal: string;
  readonly met: boolean;
}

type Adapter = Subject['adapter'];

/** What a goal is about: the most there may be, and what there is. */
interface Goal {
  readonly work: WorkName;
  /** Only the row of this title. */
  readonly title?: string;
  /** An adapter, or what is put beside others. */
  readonly where: string;
  readonly most: number;
  /** Nothing where a server that it needs was not measured. */
  readonly of: (result: WorkResult) => number | undefined;
  readonly told: (value: number) => string;
}

const ADAPTERS: readonly Adapter[] = ['fastify', 'express'];

const GOALS: readonly Goal[] = [
  timesTheRoute('call', 'fastify', 1.45),
  timesTheRoute('call', 'express', 1.05),
  timesTheRoute('modern-call', 'fastify', 1.45),
  ...ADAPTERS.map((adapter) => timesTheSdk('progress', adapter, 1.1)),
  timesInMemory('one progress event, CPU of the nodes', 2.5),
  // With few tools and with many.
  ...ADAPTERS.map((adapter) => kibibytes('session-memory', adapter, 3)),
  ...ADAPTERS.map((adapter) => kibibytesAboveTheRoute('stream-memory', adapter, 1.6)),
  timesTheRoute('lifecycle', 'fastify', 1.5, 'three bare routes'),
  timesTheRoute('lifecycle', 'express', 1.25, 'three bare routes'),
  ...ADAPTERS.map((adapter) => timesTheRoute('notify', adapter, 1.1, 'the bare SSE route')),
  timesTheGuard(1.2),
  // Each of them alone; what an SDK of OpenTelemetry costs is its own.
  ...PLUGINS.slice(1)
    .filter(({ name }) => name !== 'all' && name !== 'otel-sdk')
    .map(({ name, title }) => addedByPlugin(name, title, 2)),
  millisecondsToImport(120),
];

/** @returns the goals whose work was done */
export function judged(results: readonly WorkResult[]): Judgement[] {
  return GOALS.flatMap((goal) =>
    results.flatMap((result) => {
      const isMeant = result.work === goal.work && (goal.title ?? result.title) === result.title;
      const value = isMeant ? goal.of(result) : undefined;
      return value === undefined ? [] : [judgement(goal, result, value)];
    }),
  );
}

/** @returns what to say where the goals are not for the Node.js that measured */
export function strangeTo(node: string): string | undefined {
  return majorOf(node) === MAJOR ? undefined : `The goals are for Node.js ${MAJOR}; here Node.js ${node} measured.`;
}

function judgement({ where, most, told }: Goal, { title }: WorkResult, value: number): Judgement {
  return { title: `${title}, ${where}`, measured: told(value), goal: `≤ ${told(most)}`, met: value <= most };
}

function timesTheRoute(work: WorkName, adapter: Adapter, most: number, name = 'the bare route'): Goal {
  const of = ({ rounds, unit }: WorkResult) => ratioOf(rounds[ours(adapter)], rounds[bare(adapter)], unit);
  return { work, where: named(adapter), most, of, told: (value) => `${times(value)} ${name}` };
}

function timesTheSdk(work: WorkName, adapter: Adapter, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => ratioOf(rounds[ours(adapter)], rounds[`sdk-route-${adapter}`], unit);
  return { work, where: named(adapter), most, of, told: (value) => `${times(value)} the SDK in a route` };
}

/** One node on Redis, beside one in memory. */
function timesInMemory(title: string, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => ratioOf(rounds['redis'], rounds['memory'], unit);
  return { work: 'nodes', title, where: 'Redis', most, of, told: (value) => `${times(value)} in memory` };
}

/** Beside a call without plugins. */
function addedByPlugin(name: string, where: string, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => {
    const [values, plain] = [rounds[name], rounds['plain']];
    return values && plain && valueOf(values, unit) - valueOf(plain, unit);
  };
  return { work: 'plugins', where, most, of, told: (value) => `${value.toFixed(1)} µs more than without` };
}

/** An app imports Nest in any case. */
function millisecondsToImport(most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => {
    const [values, nest] = [rounds['ours'], rounds['bare']];
    return values && nest && (valueOf(values, unit) - valueOf(nest, unit)) / 1000;
  };
  const title = 'import of Nest, and of the package';
  return { work: 'start', title, where: 'ours', most, of, told: (value) => `${value.toFixed(0)} ms more than Nest` };
}

/** What a token adds, beside what it adds to a bare route. */
function timesTheGuard(most: number): Goal {
  const of = (result: WorkResult) => {
    const added = addedByTokens(result);
    return added && added.ours / added.bare;
  };
  const told = (value: number): string => `${times(value)} what a guard that calls jose adds to the bare route`;
  return { work: 'jwt', where: 'Fastify', most, of, told };
}

function kibibytes(work: WorkName, adapter: Adapter, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => {
    const values = rounds[ours(adapter)];
    return values && valueOf(values, unit) / 1024;
  };
  return { work, where: named(adapter), most, of, told: (value) => `${value.toFixed(1)} KiB` };
}

/** What Node.js itself needs is in both. */
function kibibytesAboveTheRoute(work: WorkName, adapter: Adapter, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => {
    const [values, floor] = [rounds[ours(adapter)], rounds[bare(adapter)]];
    return values && floor && (valueOf(values, unit) - valueOf(floor, unit)) / 1024;
  };
  const told = (value: number): string => `${value.toFixed(1)} KiB more than the bare SSE route`;
  return { work, where: named(adapter), most, of, told };
}

function times(value: number): string {
  return `${value.toFixed(2)}×`;
}

function named(adapter: Adapter): string {
  return adapter === 'express' ? 'Express' : 'Fastify';
}

function ours(adapter: Adapter): string {
  return `ours-${adapter}`;
}

function bare(adapter: Adapter): string {
  return `bare-${adapter}`;
}
