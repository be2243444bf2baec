/**
 * Redis did not carry out a command, or gave no answer to it: no connection, no answer in time, no memory, a failover.
 * It is a transient fault: the same call may succeed later.
 *
 * @publicApi
 */
export class RedisUnavailableError extends Error {
  override readonly name = 'RedisUnavailableError';
  readonly code = 'REDIS_UNAVAILABLE';

  constructor(
    readonly operation: string,
    cause: unknown,
  ) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const advice = 'Try again; if the error persists, check that Redis can be reached and has free memory.';
    super(`Redis did not carry out "${operation}": ${why}. ${advice}`, { cause });
  }
}

/** The backend was closed, for good. @publicApi */
export class RedisClosedError extends Error {
  override readonly name = 'RedisClosedError';
  readonly code = 'REDIS_CLOSED';

  constructor(readonly operation: string) {
    super(
      `The connection to Redis is closed, so "${operation}" was not carried out. A backend serves one app: call redisBackend() again for another app.`,
    );
  }
}

/** `ioredis` is not installed, or the target is none of its clients. @publicApi */
export class RedisSetupError extends Error {
  override readonly name = 'RedisSetupError';
  readonly code = 'REDIS_SETUP';
}
