import { ratioOf, valueOf } from './ratios.js';
import type { WorkName } from './subjects.js';
import type { WorkResult } from './work.js';

/** What ours must cost at most, and whether it does. */

export interface Judgement {
  readonly title: string;
  readonly measured: string;
  readonly goal: string;
  readonly met: boolean;
}

type Adapter = 'Express' | 'Fastify';
type Judge = (results: readonly WorkResult[]) => Judgement | undefined;

/** Absolute times are those of the machine on which the goals were set: there a bare route cost 143 µs on Express, 24 µs on Fastify. */
const GOALS: readonly Judge[] = [
  timesTheRoute('call', 'Express', 1.4),
  timesTheRoute('call', 'Fastify', 3),
  timesTheRoute('modern-call', 'Fastify', 3.5),
  microseconds('progress', 'Express', 5),
  microseconds('progress', 'Fastify', 5),
  kibibytes('session-memory', 'Express', 10),
  kibibytes('session-memory', 'Fastify', 10),
  flatInTools('Express'),
  flatInTools('Fastify'),
  kibibytes('stream-memory', 'Express', 6),
  kibibytes('stream-memory', 'Fastify', 6),
];

/** How much more a session may take with ten times the tools: nothing but noise. */
const FLAT = 1.1;

/** @returns the goals whose work was done */
export function judged(results: readonly WorkResult[]): Judgement[] {
  return GOALS.map((judge) => judge(results)).filter((judgement) => judgement !== undefined);
}

function timesTheRoute(work: WorkName, adapter: Adapter, most: number): Judge {
  return (results) => {
    const [result] = of(work, results);
    const ratio = ratioOf(result?.rounds[ours(adapter)], result?.rounds[`bare-${adapter.toLowerCase()}`], 'µs');
    return judgement(`${result?.title}, ${adapter}`, ratio, most, (value) => `${value.toFixed(2)}× the bare route`);
  };
}

function microseconds(work: WorkName, adapter: Adapter, most: number): Judge {
  return absolute(work, adapter, most, (value) => `${value.toFixed(1)} µs`);
}

function kibibytes(work: WorkName, adapter: Adapter, most: number): Judge {
  return absolute(work, adapter, most * 1024, (value) => `${(value / 1024).toFixed(1)} KiB`);
}

function absolute(work: WorkName, adapter: Adapter, most: number, told: (value: number) => string): Judge {
  return (results) => {
    const [result] = of(work, results);
    const values = result?.rounds[ours(adapter)];
    const floor = result?.rounds[`bare-${adapter.toLowerCase()}`];
    const found = judgement(`${result?.title}, ${adapter}`, values && valueOf(values, result.unit), most, told);
    // What Node.js itself needs is in both.
    return found && floor
      ? { ...found, measured: `${found.measured} (bare route: ${told(valueOf(floor, result.unit))})` }
      : found;
  };
}

function flatInTools(adapter: Adapter): Judge {
  return (results) => {
    const [few, many] = of('session-memory', results);
    const ratio = ratioOf(many?.rounds[ours(adapter)], few?.rounds[ours(adapter)], 'bytes');
    return judgement(`${many?.title}, ${adapter}`, ratio, FLAT, (value) => `${value.toFixed(2)}× that with 10`);
  };
}

function judgement(
  title: string,
  value: number | undefined,
  most: number,
  told: (value: number) => string,
): Judgement | undefined {
  if (value === undefined) return undefined;
  return { title, measured: told(value), goal: `≤ ${told(most)}`, met: value <= most };
}

function of(work: WorkName, results: readonly WorkResult[]): WorkResult[] {
  return results.filter((result) => result.work === work);
}

function ours(adapter: Adapter): string {
  return `ours-${adapter.toLowerCase()}`;
}
