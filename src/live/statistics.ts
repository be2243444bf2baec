import type { McpCallEnd } from '../core/calls/mcp-instrumentation.js';

/** So many durations are kept of each tool: its percentiles are those of its latest calls. */
const RECENT = 256;
/** The table of tools has this many rows; an app with more handlers has the rest in one row. */
const MOST_ROWS = 300;
/** A server of the app may answer to any name that a client sends: a longer one has no row. */
const LONGEST = 256;
export const OTHERS = 'others';
const QUIET: readonly number[] = [];
/** The upper bounds of a histogram of durations. */
export const BOUNDS_MS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000] as const;

/** Counts what happened in each of the last periods. */
export class Timeline {
  readonly #counts: Uint32Array;
  #latest = 0;

  constructor(
    private readonly periodMs: number,
    length: number,
  ) {
    // One more, for the period that has not ended.
    this.#counts = new Uint32Array(length + 1);
  }

  add(now: number): void {
    this.#advance(now);
    this.#counts[this.#latest % this.#counts.length]!++;
  }

  /** Returns the counts, the oldest first, without the current period, which is not complete. */
  values(now: number): number[] {
    this.#advance(now);
    const { length } = this.#counts;
    return Array.from({ length: length - 1 }, (_, index) => this.#counts[(this.#latest + 1 + index) % length]!);
  }

  #advance(now: number): void {
    const period = Math.floor(now / this.periodMs);
    const gap = Math.min(period - this.#latest, this.#counts.length);
    for (let step = 0; step < gap; step++) this.#counts[(period - step) % this.#counts.length] = 0;
    // A clock that was set back counts on in the same period.
    this.#latest = Math.max(period, this.#latest);
  }
}

export interface ToolRow {
  readonly key: string;
  readonly name: string;
  readonly kind: 'tool' | 'method';
  readonly calls: number;
  readonly errors: number;
  /** The median duration of the latest calls, in milliseconds. */
  readonly p50: number;
  readonly p95: number;
  /** Counts the calls in each two seconds of the last minute; empty without any. */
  readonly spark: readonly number[];
}

/** Keeps 2 KiB of durations of one tool, and a few numbers. */
class ToolTimes {
  calls = 0;
  errors = 0;
  readonly #recent = new Float64Array(RECENT);
  readonly #timeline = new Timeline(2_000, 30);
  #summary: { readonly calls: number; readonly p50: number; readonly p95: number } | undefined;

  add(durationMs: number, failed: boolean, now: number): void {
    this.#recent[this.calls++ % RECENT] = durationMs;
    if (failed) this.errors++;
    this.#timeline.add(now);
  }

  row(kind: ToolRow['kind'], name: string, now: number): ToolRow {
    const { calls, errors } = this;
    if (this.#summary?.calls !== calls) {
      const sorted = this.#recent.slice(0, Math.min(calls, RECENT)).toSorted();
      this.#summary = { calls, p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95) };
    }
    const { p50, p95 } = this.#summary;
    const spark = this.#timeline.values(now);
    return { key: `${kind} ${name}`, name, kind, calls, errors, p50, p95, spark: spark.some(Boolean) ? spark : QUIET };
  }

  /** Counts the latest calls by their duration, up to each bound of {@link BOUNDS_MS}, and above all of them. */
  histogram(): number[] {
    const counts = Array.from(BOUNDS_MS, () => 0).concat(0);
    for (const ms of this.#recent.slice(0, Math.min(this.calls, RECENT))) {
      const bucket = BOUNDS_MS.findIndex((bound) => ms <= bound);
      counts[bucket < 0 ? BOUNDS_MS.length : bucket]!++;
    }
    return counts;
  }
}

/**
 * Counts how often and how fast the tools of an endpoint were called since the start. It is bounded: 300 rows of 2.5
 * KiB, and no row for an unknown name of a client.
 */
export class ToolStatistics {
  /** Keeps tools and methods apart, since a tool may have the name of a method. */
  readonly #kinds = { tool: new Map<string, ToolTimes>(), method: new Map<string, ToolTimes>() };
  /** Counts the calls in each second of the last minute, and `errors` the failed ones among them. */
  readonly calls = new Timeline(1_000, 60);
  readonly failures = new Timeline(1_000, 60);

  note({ call: { method, name }, handled, durationMs }: McpCallEnd, failed: boolean, now: number): void {
    this.calls.add(now);
    if (failed) this.failures.add(now);
    const tool = method === 'tools/call' && name !== undefined;
    const unknown = `unknown ${tool ? 'tools' : 'methods'}`;
    const times = tool && handled ? this.#times('tool', name) : this.#times('method', handled ? method : unknown);
    times.add(durationMs, failed, now);
  }

  rows(now: number): ToolRow[] {
    const { tool, method } = this.#kinds;
    return [
      ...[...tool].map(([name, times]) => times.row('tool', name, now)),
      ...[...method].map(([name, times]) => times.row('method', name, now)),
    ];
  }

  /** @returns `undefined` for a tool that was not called, or has no row of its own */
  histogram(tool: string): number[] | undefined {
    return this.#kinds.tool.get(tool)?.histogram();
  }

  #times(kind: ToolRow['kind'], name: string): ToolTimes {
    const rows = this.#kinds[kind];
    const own = rows.has(name) || (rows.size < MOST_ROWS && name.length <= LONGEST) ? name : OTHERS;
    let times = rows.get(own);
    if (!times) rows.set(own, (times = new ToolTimes()));
    return times;
  }
}

function quantile(sorted: Float64Array, share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return Number(value.toPrecision(3));
}
