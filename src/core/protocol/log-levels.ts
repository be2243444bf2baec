/** The severities of log messages (RFC 5424), in ascending order. @internal */
export const LOG_LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;

const SEVERITY: ReadonlyMap<unknown, number> = new Map(LOG_LEVELS.map((level, index) => [level, index]));

/** @internal */
export function isLogLevel(value: unknown): value is (typeof LOG_LEVELS)[number] {
  return SEVERITY.has(value);
}

/**
 * Tells whether a message has at least the level that a client wants.
 *
 * @param wanted the client's level; `undefined`: it has not set one, and gets all
 * @internal
 */
export function reachesLevel(level: string, wanted: string | undefined): boolean {
  const threshold = SEVERITY.get(wanted);
  return threshold === undefined || (SEVERITY.get(level) ?? LOG_LEVELS.length) >= threshold;
}
