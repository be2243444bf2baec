import { check } from '../common/option-checks.js';

/** How open responses are kept, and how far behind their clients may be. @publicApi */
export interface McpResponseOptions {
  /**
   * Milliseconds between the comments that keep silent streams open. Keep it below the idle timeout of proxies (often
   * 60 s), which otherwise close the streams.
   *
   * @default 15000
   */
  keepAliveMs?: number;
  /**
   * Bytes that may wait for a slow client, per response. Above it, the response reads no more events; it is closed when
   * the event log has evicted its next event, or when the client read nothing for two keep-alive periods. Raising it
   * lets slow clients use more memory of this process.
   *
   * @default 1048576 (1 MiB)
   */
  maxBufferedBytes?: number;
}

/** Every option, decided. */
export type ResolvedResponseOptions = Required<McpResponseOptions>;

/** The injection token of the {@link ResolvedResponseOptions}. */
export const RESPONSE_OPTIONS = Symbol('nestjs-mcp-streamable:response-options');

/** @throws McpOptionError */
export function resolveResponseOptions(options: McpResponseOptions = {}): ResolvedResponseOptions {
  const { keepAliveMs = 15_000, maxBufferedBytes = 1024 ** 2 } = options;
  return {
    keepAliveMs: check.timer('keepAliveMs', keepAliveMs),
    maxBufferedBytes: check.count('maxBufferedBytes', maxBufferedBytes),
  };
}
