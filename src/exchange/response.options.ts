import { check } from '../common/option-checks.js';

/** How open responses are kept, and how far behind their clients may be. @publicApi */
export interface McpResponseOptions {
  /**
   * Milliseconds between the comments that keep silent streams open. Longer than what a proxy on the way tolerates (often
   * 60 s), and it cuts them.
   *
   * @default 15000
   */
  keepAliveMs?: number;
  /**
   * Bytes that may wait for a slow client, per response. Above it no more events are read for that response; it is cut
   * when the log has forgotten its next event, or nothing was taken for two keep-alive periods. Raising it raises what
   * slow clients can make this process hold.
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
