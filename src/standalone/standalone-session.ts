import type { McpServer, Server } from '@modelcontextprotocol/server';
import { systemClock, type McpClock, type ClockTimer } from '../core/common/clock.js';
import { resolveOptions } from '../core/common/options.js';
import { randomToken } from '../core/common/random-token.js';
import { BusNodes } from '../core/nodes/bus-nodes.js';
import { InMemoryMessageBus } from '../core/nodes/in-memory-message-bus.js';
import { CallObserver } from '../core/calls/call-observer.js';
import type { McpEventStore } from '../core/log/event-store.js';
import { InMemoryEventStore } from '../core/log/in-memory-event-store.js';
import type { McpEventLogOptions } from '../core/log/stream.options.js';
import { SdkDispatcher } from '../server/sdk-dispatcher.js';
import { InMemorySessionStore } from '../core/sessions/store/in-memory-session-store.js';
import { loadSdk } from '../core/protocol/spec.js';
import { McpSession } from '../core/sessions/running/mcp-session.js';
import type { McpSessionEvent } from '../core/sessions/session-events.js';
import { SessionRuntime } from '../core/sessions/session-runtime.js';
import { type McpSessionOptions, SESSION_TABLE } from '../core/sessions/session.options.js';

/** A response that a newer one has replaced ends after this many milliseconds (G7). */
const TICK_MS = 15_000;

/** Options of a session without the module. @publicApi */
export interface McpStandaloneSessionOptions extends Pick<
  McpSessionOptions,
  'responseMode' | 'sseAfterMs' | 'retryMs' | 'serverRequestTimeoutMs' | 'requestTimeoutMs'
> {
  /** @default 22 random characters */
  id?: string;
  /** The owner of the session. @default the anonymous principal */
  principal?: string;
  /** @default in the memory of this process, within `eventLog` */
  eventStore?: McpEventStore;
  eventLog?: McpEventLogOptions;
  /** Is called with each event of the session. */
  onEvent?: (event: McpSessionEvent) => void;
  clock?: McpClock;
}

/**
 * Makes a session without the module, with a server of the application behind it.
 *
 * ```ts
 * const session = await createMcpSession(server);
 * createServer(serveMcpSession(session)).listen(3000);
 * ```
 *
 * @param server a new server of the SDK, which is not connected
 * @returns a session that ends with `session.end(reason)` or `server.close()`, and leaves nothing behind then
 * @throws McpOptionError for an option that cannot work; McpServerFactoryError for anything but a new server of the SDK
 * @publicApi
 */
export async function createMcpSession(
  server: Server | McpServer,
  options: McpStandaloneSessionOptions = {},
): Promise<McpSession> {
  await loadSdk();
  const { id = randomToken(), principal, clock = systemClock, onEvent } = options;
  const store = options.eventStore ?? new InMemoryEventStore(options.eventLog, clock);
  const report = (error: unknown): void => runtime.event({ type: 'protocol-error', sessionId: id, error });
  const dispatcher = new SdkDispatcher({ make: () => server, report, onLegacyServer: () => {} });
  const [records, nodes] = [new InMemorySessionStore(clock), BusNodes.over(new InMemoryMessageBus())];
  const resolved = resolveOptions(SESSION_TABLE, options);
  const runtime = new SessionRuntime(resolved, clock, records, store, nodes, dispatcher, new CallObserver());
  await store.open(id);
  let tick: ClockTimer | undefined;
  const endReplaced = (): void => {
    tick = undefined;
    session.refresh();
  };
  runtime.events$.subscribe((event) => {
    if (event.type === 'reader-replaced') tick ??= clock.setTimeout(endReplaced, TICK_MS);
    onEvent?.(event);
  });
  const session: McpSession = new McpSession({ id, principal }, runtime);
  // Before `initialize`, so that closing the server ends the session from the beginning.
  await dispatcher.connect(session);
  session.closed$.subscribe((reason) => {
    clock.clear(tick);
    runtime.event({ type: 'closed', sessionId: id, reason });
    store.drop(id).catch((error: unknown) => runtime.storeFault(id, error));
  });
  return session;
}
