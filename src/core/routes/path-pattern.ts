import { parsePath, type PathPart } from './route-paths.js';

/** The alternatives of a declared path, which have no optional parts. */
export type Pattern = readonly (readonly Segment[])[];

/** A segment of a path: a text, one parameter, both of them, or any number of segments. */
type Segment = string | typeof ANY | typeof REST | Mixed;

type OneSegment = Exclude<Segment, typeof REST>;

/** Texts and parameters in one segment. */
interface Mixed {
  readonly mixed: string;
  /** The text in front of the first parameter. */
  readonly begin: string;
}

const ANY = Symbol('any segment');
const REST = Symbol('any segments');

/** @param isBelow whether it stands for the paths below it too */
export function patternOf(path: string, isBelow = false): Pattern {
  // Nest marks the end of a path that must not have others below it.
  const isExact = path.endsWith('$');
  const parts = parsePath(path.replace(/\$$/, '').replace(/\/+$/, ''));
  const alternatives = alternativesOf(parts);
  return alternatives.map((each) => {
    const segments = segmentsOf(each);
    // Without its optional part, `/{orders}` is `/` itself for Express, and no path below it.
    const isRoot = alternatives.length > 1 && each.length === 1 && each[0] === '/';
    return isBelow && !isExact && !isRoot ? [...segments, REST] : segments;
  });
}

function alternativesOf(parts: readonly PathPart[]): PathPart[][] {
  return parts.reduce<PathPart[][]>(
    (all, part) => {
      if (typeof part === 'string' || !('optional' in part)) return all.map((each) => [...each, part]);
      return [...all, ...all.flatMap((each) => alternativesOf(part.optional).map((more) => [...each, ...more]))];
    },
    [[]],
  );
}

function segmentsOf(parts: readonly PathPart[]): Segment[] {
  const segments: Exclude<PathPart, { optional: unknown }>[][] = [[]];
  for (const part of parts as Exclude<PathPart, { optional: unknown }>[]) {
    if (typeof part !== 'string') segments.at(-1)!.push(part);
    else {
      for (const [index, text] of part.split('/').entries()) {
        if (index > 0) segments.push([]);
        if (text !== '') segments.at(-1)!.push(text);
      }
    }
  }
  // A path begins with a slash, except a wildcard alone.
  if (segments[0]!.length === 0) segments.shift();
  if (segments.length === 1 && segments[0]!.length === 0) return [];
  return segments.flatMap((each): Segment[] => {
    const [first, ...others] = each;
    if (first === undefined) return [''];
    if (others.length > 0) {
      const mixed = { mixed: JSON.stringify(each), begin: typeof first === 'string' ? first : '' };
      // A wildcard takes several segments, also behind a text: `or*path`.
      return each.some((part) => typeof part !== 'string' && part.isWild) ? [mixed, REST] : [mixed];
    }
    if (typeof first === 'string') return [first];
    return first.isWild ? [ANY, REST] : [ANY];
  });
}

/** Returns whether a pattern matches each path of another one, whatever its parameters are. */
export function coversAll(mount: Pattern, path: Pattern): boolean {
  return path.every((each) => covers(mount, each));
}

export function covers(mount: Pattern, path: readonly Segment[]): boolean {
  return mount.some((each) => takesAll(each, path));
}

function takesAll([first, ...own]: readonly Segment[], path: readonly Segment[]): boolean {
  const [next, ...others] = path;
  if (first === REST) return takesAll(own, path) || (next !== undefined && takesAll([first, ...own], others));
  if (first === undefined || next === undefined) return first === next;
  const isTaken = next !== REST && (first === ANY || JSON.stringify(first) === JSON.stringify(next));
  return isTaken && takesAll(own, others);
}

/** Returns whether two patterns match one path, at least. */
export function meets(one: Pattern, other: Pattern): boolean {
  return one.some((own) => other.some((its) => meet(withoutEnd(own), withoutEnd(its))));
}

function meet(one: readonly Segment[], other: readonly Segment[]): boolean {
  const [[first, ...own], [next, ...others]] = [one, other];
  if (first === REST) return meet(own, other) || (next !== undefined && meet(one, others));
  if (next === REST) return meet(other, one);
  if (first === undefined || next === undefined) return first === next;
  return mayBeOne(first, next) && meet(own, others);
}

/** Returns whether two segments match one text, as far as their beginnings tell. */
function mayBeOne(one: OneSegment, other: OneSegment): boolean {
  const [own, its] = [beginOf(one), beginOf(other)];
  return (
    own === its ||
    (typeof other !== 'string' && own.startsWith(its)) ||
    (typeof one !== 'string' && its.startsWith(own))
  );
}

function beginOf(segment: OneSegment): string {
  if (segment === ANY) return '';
  return (typeof segment === 'string' ? segment : segment.begin).toLowerCase();
}

/** Removes what a slash at the end stands for: some routers ignore it. */
function withoutEnd(segments: readonly Segment[]): readonly Segment[] {
  return segments.at(-1) === '' ? segments.slice(0, -1) : segments;
}
