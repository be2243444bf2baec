import { count, type OptionTable, type Resolved, timer } from '../common/options.js';

/** Says how open responses are kept, and how far behind their clients may be. @internal */
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

export const RESPONSE_TABLE = {
  keepAliveMs: timer(15_000),
  maxBufferedBytes: count(1024 ** 2),
} satisfies OptionTable<McpResponseOptions>;

export type ResolvedResponseOptions = Resolved<typeof RESPONSE_TABLE>;
