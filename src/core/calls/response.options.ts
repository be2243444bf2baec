import { count, type OptionTable, type Resolved, timer } from '../common/options.js';

/** Says how open responses are kept, and how far behind their clients may be. @internal */
export interface McpResponseOptions {
  /**
   * Sets the milliseconds of silence after which an open stream gets a comment that keeps it open. Keep it below the
   * idle timeout of proxies (often 60 s), which otherwise close the stream.
   *
   * @default 15000
   */
  keepAliveMs?: number;
  /**
   * Limits the bytes that wait for a slow client, per response. Above the limit, the response stops reading events. It
   * is closed when the event log has evicted its next event, or when the client has read nothing for two keep-alive
   * periods. A higher value lets slow clients use more memory of this process.
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
