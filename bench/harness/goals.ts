import { majorOf, MAJOR } from './node-binary.js';
import { addedByTokens, ratioOf, valueOf } from './ratios.js';
import { PEERS, type Subject, type WorkName } from './subjects.js';
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
  readonly adapter: Adapter;
  readonly most: number;
  /** Nothing where a server that it needs was not measured. */
  readonly of: (result: WorkResult) => number | undefined;
  readonly told: (value: number) => string;
}

const ADAPTERS: readonly Adapter[] = ['fastify', 'express'];

const GOALS: readonly Goal[] = [
  timesTheRoute('call', 'fastify', 1.5),
  timesTheRoute('call', 'express', 1.2),
  timesTheRoute('modern-call', 'fastify', 1.5),
  ...ADAPTERS.map((adapter) => timesTheSdk('progress', adapter, 1.3)),
  // With few tools and with many.
  ...ADAPTERS.map((adapter) => kibibytes('session-memory', adapter, 3)),
  ...ADAPTERS.map((adapter) => kibibytesAboveTheRoute('stream-memory', adapter, 2)),
  timesTheBestPeer('lifecycle', 'fastify', 0.5),
  timesTheRoute('lifecycle', 'express', 1.3, 'three bare routes'),
  ...ADAPTERS.map((adapter) => timesTheRoute('notify', adapter, 1.4, 'the bare SSE route')),
  timesTheGuard(1.2),
];

/** @returns the goals whose work was done */
export function judged(results: readonly WorkResult[]): Judgement[] {
  return GOALS.flatMap((goal) =>
    results.flatMap((result) => {
      const value = result.work === goal.work ? goal.of(result) : undefined;
      return value === undefined ? [] : [judgement(goal, result, value)];
    }),
  );
}

/** @returns what to say where the goals are not for the Node.js that measured */
export function strangeTo(node: string): string | undefined {
  return majorOf(node) === MAJOR ? undefined : `The goals are for Node.js ${MAJOR}; here Node.js ${node} measured.`;
}

function judgement({ adapter, most, told }: Goal, { title }: WorkResult, value: number): Judgement {
  const where = adapter === 'express' ? 'Express' : 'Fastify';
  return { title: `${title}, ${where}`, measured: told(value), goal: `≤ ${told(most)}`, met: value <= most };
}

function timesTheRoute(work: WorkName, adapter: Adapter, most: number, name = 'the bare route'): Goal {
  const of = ({ rounds, unit }: WorkResult) => ratioOf(rounds[ours(adapter)], rounds[bare(adapter)], unit);
  return { work, adapter, most, of, told: (value) => `${times(value)} ${name}` };
}

function timesTheSdk(work: WorkName, adapter: Adapter, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => ratioOf(rounds[ours(adapter)], rounds[`sdk-route-${adapter}`], unit);
  return { work, adapter, most, of, told: (value) => `${times(value)} the SDK in a route` };
}

/** The best of all peers, whatever they stand on: with some of them left out there is none. */
function timesTheBestPeer(work: WorkName, adapter: Adapter, most: number): Goal {
  const peers = PEERS.filter(({ cannot }) => cannot[work] === undefined);
  const of = ({ rounds, unit }: WorkResult) => {
    const ratios = peers.map(({ name }) => ratioOf(rounds[ours(adapter)], rounds[name], unit));
    const all = ratios.filter((ratio) => ratio !== undefined);
    return all.length === peers.length ? Math.max(...all) : undefined;
  };
  return { work, adapter, most, of, told: (value) => `${times(value)} the best peer` };
}

/** What a token adds, beside what it adds to a bare route. */
function timesTheGuard(most: number): Goal {
  const of = (result: WorkResult) => {
    const added = addedByTokens(result);
    return added && added.ours / added.bare;
  };
  const told = (value: number): string => `${times(value)} what a guard that calls jose adds to the bare route`;
  return { work: 'jwt', adapter: 'fastify', most, of, told };
}

function kibibytes(work: WorkName, adapter: Adapter, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => {
    const values = rounds[ours(adapter)];
    return values && valueOf(values, unit) / 1024;
  };
  return { work, adapter, most, of, told: (value) => `${value.toFixed(1)} KiB` };
}

/** What Node.js itself needs is in both. */
function kibibytesAboveTheRoute(work: WorkName, adapter: Adapter, most: number): Goal {
  const of = ({ rounds, unit }: WorkResult) => {
    const [values, floor] = [rounds[ours(adapter)], rounds[bare(adapter)]];
    return values && floor && (valueOf(values, unit) - valueOf(floor, unit)) / 1024;
  };
  return { work, adapter, most, of, told: (value) => `${value.toFixed(1)} KiB more than the bare SSE route` };
}

function times(value: number): string {
  return `${value.toFixed(2)}×`;
}

function ours(adapter: Adapter): string {
  return `ours-${adapter}`;
}

function bare(adapter: Adapter): string {
  return `bare-${adapter}`;
}
