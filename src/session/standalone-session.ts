import { systemClock, type Clock } from '../base/clock.js';
import { randomToken } from '../base/random-token.js';
import type { McpEventStore } from '../stream/event-store.js';
import { InMemoryEventStore } from '../stream/in-memory-event-store.js';
import {
  DEFAULT_MAX_QUEUED_BYTES,
  DEFAULT_RETRY,
  resolveEventLogOptions,
  type EventLogOptions,
} from '../stream/stream.options.js';
import { NO_PEERS } from './cluster-messages.js';
import { McpSession } from './mcp-session.js';
import { RunningCalls } from './running-calls.js';
import type { McpSessionEvent } from './session-events.js';
import { resolveSessionOptions, type McpSessionOptions, type SessionEnvironment } from './session.options.js';

/** A session of its own. @publicApi */
export interface StandaloneSessionOptions extends Pick<
  McpSessionOptions,
  'responseMode' | 'sseAfterMs' | 'retryMs' | 'serverRequestTimeoutMs' | 'requestTimeoutMs'
> {
  /** @default 22 random characters */
  id?: string;
  /** Who owns it. @default nobody */
  principal?: string;
  /** @default in the memory of this process, within `eventLog` */
  eventStore?: McpEventStore;
  eventLog?: EventLogOptions;
  /** Hears of what happens to the session. */
  onEvent?: (event: McpSessionEvent) => void;
  clock?: Clock;
}

/**
 * A session without the module: a transport to connect an SDK server to.
 *
 * ```ts
 * const session = await createMcpSession();
 * await server.connect(session);
 * createServer(serveMcpSession(session)).listen(3000);
 * ```
 *
 * @returns a session that ends with `session.end(reason)` or `server.close()`, and leaves nothing behind then
 * @throws McpOptionError for an option that cannot work
 * @publicApi
 */
export async function createMcpSession(options: StandaloneSessionOptions = {}): Promise<McpSession> {
  const { id = randomToken(), principal, clock = systemClock, onEvent } = options;
  const store = options.eventStore ?? new InMemoryEventStore(resolveEventLogOptions(options.eventLog), clock);
  await store.open(id);
  const environment: SessionEnvironment = {
    ...resolveSessionOptions(options),
    store,
    clock,
    nodeId: randomToken(10),
    peers: NO_PEERS,
    running: new RunningCalls(),
    retry: DEFAULT_RETRY,
    maxQueuedBytes: DEFAULT_MAX_QUEUED_BYTES,
    event: (event) => onEvent?.(event),
    patched: () => Promise.resolve(),
    suspect: () => {},
    ended: () => {},
  };
  const session = new McpSession({ id, principal }, environment);
  session.closed$.subscribe((reason) => {
    environment.event({ type: 'closed', sessionId: id, reason });
    store.drop(id).catch((error: unknown) => {
      environment.event({ type: 'store-fault', sessionId: id, streamId: '', fatal: false, error });
    });
  });
  return session;
}
