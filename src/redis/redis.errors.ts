import { redisMessages } from './redis.messages.js';

/**
 * Redis did not carry out what it was asked for, or may have and did not say so: no connection, no answer in time, no
 * memory, a failover. A passing fault: the same call may succeed a moment later.
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
    super(redisMessages.away(operation, cause instanceof Error ? cause.message : String(cause)), { cause });
  }
}

/** The backend was closed; nothing will bring it back. @publicApi */
export class RedisClosedError extends Error {
  override readonly name = 'RedisClosedError';
  readonly code = 'REDIS_CLOSED';

  constructor(readonly operation: string) {
    super(redisMessages.closed(operation));
  }
}

/** `ioredis` is not installed, or what was given is none of its clients. @publicApi */
export class RedisSetupError extends Error {
  override readonly name = 'RedisSetupError';
  readonly code = 'REDIS_SETUP';
}
