import { undisturbed } from './statistics.js';
import { type Subject, SUBJECTS, TOKENS, VARIANTS } from './subjects.js';
import type { Unit, WorkResult } from './work.js';

/** Ratios between results: they carry over to another machine, and must be the same in the next run. */

export interface Ratio {
  /** What is compared with what, the same in each run. */
  readonly label: string;
  readonly ratio: number;
}

/** What rounds say together. */
export function valueOf(rounds: readonly number[], unit: Unit): number {
  return undisturbed(rounds, unit === 'calls/s' ? 'more' : 'less');
}

/** How many times one is the other. */
export function ratioOf(
  above: readonly number[] | undefined,
  below: readonly number[] | undefined,
  unit: Unit,
): number | undefined {
  return above && below ? valueOf(above, unit) / valueOf(below, unit) : undefined;
}

/** What a subject is compared with in a work: a bare route on the same adapter, ours where no bare route can do it. */
export function baseOf({ name, adapter }: Subject, { rounds }: WorkResult): string | undefined {
  const base = rounds[`bare-${adapter}`] ? `bare-${adapter}` : `ours-${adapter}`;
  return base === name || name.startsWith('bare-') ? undefined : base;
}

/** What the variants of a work are compared with: the first that has done the work. */
export function firstVariant({ work, rounds }: WorkResult): string | undefined {
  return VARIANTS[work]?.find(({ name }) => rounds[name])?.name;
}

/** The same work with the fewest sessions. */
export function smallest(results: readonly WorkResult[], { title }: WorkResult): WorkResult {
  const same = results.filter((result) => result.size !== undefined && result.title === title);
  return same.toSorted((a, b) => a.size! - b.size!)[0]!;
}

/** Every ratio that the report tells, and no other. */
export function ratiosOf(results: readonly WorkResult[]): Ratio[] {
  return results.flatMap((result) => {
    if (VARIANTS[result.work]) return betweenVariants(result);
    if (result.work === 'jwt') return ofTokens(result);
    if (result.size !== undefined) return betweenSizes(result, smallest(results, result));
    return betweenSubjects(result);
  });
}

function betweenSubjects(result: WorkResult): Ratio[] {
  return SUBJECTS.flatMap((subject) => {
    const base = baseOf(subject, result);
    if (base === undefined) return [];
    const ratio = ratioOf(result.rounds[subject.name], result.rounds[base], result.unit);
    return ratio === undefined ? [] : [{ label: `${result.title}: ${subject.name} / ${base}`, ratio }];
  });
}

function betweenVariants(result: WorkResult): Ratio[] {
  const base = firstVariant(result);
  const others = VARIANTS[result.work]!.filter(({ name }) => name !== base);
  return others.flatMap(({ name }) => {
    const ratio = base && ratioOf(result.rounds[name], result.rounds[base], result.unit);
    return ratio ? [{ label: `${result.title}: ${name} / ${base}`, ratio }] : [];
  });
}

/** What a token adds: to ours, and to the bare route. @returns nothing where one of the four was not measured */
export function addedByTokens({ rounds, unit }: WorkResult): { ours: number; bare: number } | undefined {
  const [ours, oursJwt, bare, bareJwt] = TOKENS.map(({ name }) => rounds[name] && valueOf(rounds[name], unit));
  if (ours === undefined || oursJwt === undefined || bare === undefined || bareJwt === undefined) return undefined;
  return { ours: oursJwt - ours, bare: bareJwt - bare };
}

function ofTokens(result: WorkResult): Ratio[] {
  const added = addedByTokens(result);
  return added
    ? [{ label: `${result.title}: added to ours / added to the bare route`, ratio: added.ours / added.bare }]
    : [];
}

function betweenSizes(result: WorkResult, least: WorkResult): Ratio[] {
  if (result === least) return [];
  return Object.keys(result.rounds).flatMap((name) => {
    const ratio = ratioOf(result.rounds[name], least.rounds[name], result.unit);
    return ratio === undefined ? [] : [{ label: `${result.title}: ${name}, ${result.size} / ${least.size}`, ratio }];
  });
}
