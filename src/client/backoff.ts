import type { Clock } from '../common/clock.js';

/** How long to wait between attempts, and how often to try. @publicApi */
export interface ReconnectOptions {
  /**
   * Milliseconds that the first wait may last. The longest wait doubles with each attempt that brings nothing; each wait is
   * a random part of the longest ("full jitter"), so that the clients of a server that comes back do not arrive together.
   * What the server asks for (`retry:`, `Retry-After`) is waited at least.
   *
   * @default 500
   */
  firstDelayMs?: number;
  /**
   * Milliseconds that no wait exceeds, unless the server asks for more.
   *
   * @default 30000
   */
  maxDelayMs?: number;
  /**
   * Attempts in a row that may bring nothing before a call fails. The standalone stream never gives up.
   *
   * @default 8
   */
  maxAttempts?: number;
}

/** Decided. */
export type ReconnectPolicy = Required<ReconnectOptions>;

/** A server that asks for no wait at all, and closes every connection, would be asked without a pause. */
const SHORTEST_WAIT_MS = 10;
/** A server that asks for more (`retry:`, `Retry-After`) is not waited for. */
export const LONGEST_WAIT_MS = 10 * 60_000;

/**
 * Milliseconds to wait before an attempt.
 *
 * @param failures attempts so far that brought nothing; 0 after a connection that did
 * @param askedMs what the server asked for, if it did; the first wait after a good connection is exactly that
 * @param random gives numbers from 0 to below 1
 */
export function delayMs(
  { firstDelayMs, maxDelayMs }: ReconnectPolicy,
  failures: number,
  askedMs: number | undefined,
  random: () => number,
): number {
  const asked = askedMs === undefined ? 0 : Math.max(SHORTEST_WAIT_MS, Math.min(askedMs, LONGEST_WAIT_MS));
  if (failures === 0 && askedMs !== undefined) return asked;
  const longest = Math.min(maxDelayMs, firstDelayMs * 2 ** Math.min(failures, 30));
  return Math.max(asked, Math.round(random() * longest));
}

/**
 * Waits.
 *
 * @throws (rejects) the reason of the signal, at once when it is aborted
 */
export function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const timer = clock.setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal.addEventListener('abort', stop, { once: true });
    function stop(): void {
      clock.clear(timer);
      reject(signal.reason as Error);
    }
  });
}

/**
 * A promise that nobody can end, seen by somebody who may stop waiting.
 *
 * @throws (rejects) as `task` does, or with the reason of the signal when that is aborted first
 */
export function abortable<T>(task: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) {
      task.catch(() => {});
      return stop();
    }
    signal.addEventListener('abort', stop, { once: true });
    task.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

/** Reads `Retry-After`: seconds, or a date (RFC 9110 §10.2.3). @returns milliseconds from now, or `undefined` */
export function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000;
  // A date begins with its weekday; `Date.parse` would take much else for one.
  const date = /^\s*[A-Za-z]{3}/.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
