import { count, type OptionTable, type Resolved, timer } from '../common/options.js';

/** Says how open responses are kept, and how far behind their clients may be. @internal */
export interface McpResponseOptions {
  /**
   * The number of milliseconds between the comments that keep silent streams open. Keep it below the idle timeout of
   * proxies (often 60 s), which otherwise close the streams.
   *
   * @default 15000
   */
  keepAliveMs?: number;
  /**
   * The number of bytes that may wait for a slow client, per response. Above it, the response reads no more events. The
   * response is closed when the event log has evicted its next event, or when the client has read nothing for two
   * keep-alive periods. A higher value lets slow clients use more memory of this process.
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
