import type { McpAuthOption } from './auth/auth.options.js';
import { namesOf } from './common/option-checks.js';
import type { Implementation } from '@modelcontextprotocol/server';
import type { McpMessageBus } from './bus/message-bus.js';
import type { McpInstrumentation } from './context/mcp-instrumentation.js';
import { type McpHandlerOptions, HANDLER_NAMES } from './handlers/handlers.options.js';
import { type McpHttpOptions, HTTP_NAMES } from './http/http.options.js';
import { type McpProtocolOptions, PROTOCOL_NAMES } from './endpoint/protocol.options.js';
import type { McpExtensionOptions } from './methods/capabilities.js';
import type { McpServerFunction } from './sdk/server-factory.js';
import { type McpSessionOptions, SESSION_NAMES } from './session/session.options.js';
import type { McpSessionStore } from './session/store/session-store.js';
import type { McpStateStore } from './state/state-store.js';
import { type McpStateOptions, STATE_NAMES } from './state/state.options.js';
import type { McpEventStore } from './stream/event-store.js';
import type { EventLogOptions } from './stream/stream.options.js';

/** The options of an endpoint; may come from `forRootAsync`. @publicApi */
export interface McpStreamableOptions
  extends
    McpSessionOptions,
    McpStateOptions,
    McpHttpOptions,
    McpHandlerOptions,
    McpProtocolOptions,
    McpExtensionOptions,
    McpAuthOption {
  /**
   * How the server introduces itself.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
   */
  serverInfo: Implementation;
  /**
   * Instructions for the model on how to use the server. No effect with the option `server`, whose server has its own.
   */
  instructions?: string;
  /**
   * Creates the SDK server of a session: once per session and node, and again when the session is rebuilt. Each request
   * without a session (revision 2026-07-28, `sessions: 'off'`) gets its own server. Return a new `McpServer` or
   * `Server` each time; in CommonJS apps, import the class from this package. Such an endpoint serves no decorated
   * handlers and none of `McpRegistry`: a handler that belongs to it prevents the start.
   *
   * @default a server over the decorated handlers of the app's providers
   */
  server?: McpServerFunction;
  /**
   * Observes the calls of clients, for telemetry and audit logs: the first one runs outermost. Without any, and without a
   * subscriber of `McpSessionService.calls$`, it costs nothing.
   *
   * @default none
   */
  instrumentation?: McpInstrumentation | readonly McpInstrumentation[];
  /**
   * All stores and the message bus in one object, for apps with several nodes, such as `redisBackend(url)` of
   * `nestjs-mcp-streamable/redis`. `sessionStore`, `stateStore`, `eventStore` and `messageBus` replace single parts of
   * it. The app closes its backend on shutdown: give a function that creates one if several apps start from the same
   * module, as in tests.
   *
   * @default in the memory of this process
   */
  backend?: McpBackend | (() => McpBackend);
  /** Bounds of the event log in memory: see [its properties](#properties-of-eventlog). @default those of its properties */
  eventLog?: EventLogOptions;
  /**
   * Stores the records of sessions.
   *
   * @default in the memory of this process
   */
  sessionStore?: McpSessionStore;
  /**
   * Stores the state that outlives a call (`ctx.state()`, `ctx.principalState()`). An instance of Keyv can be given
   * directly. Nodes that share sessions must share this store, too.
   *
   * @default in the memory of this process
   */
  stateStore?: McpStateStore;
  /**
   * Stores the events of streams, so that clients can resume them.
   *
   * @default in the memory of this process, within `eventLog`
   */
  eventStore?: McpEventStore;
  /**
   * Notifies the other nodes of changes in the stores.
   *
   * @default in the memory of this process
   */
  messageBus?: McpMessageBus;
}

/** The parts that several nodes share. @publicApi */
export interface McpBackend {
  readonly sessionStore: McpSessionStore;
  readonly stateStore: McpStateStore;
  readonly eventStore: McpEventStore;
  readonly messageBus: McpMessageBus;
  /**
   * Called once at the start with the endpoint that uses these parts. Absent: any number of endpoints may.
   *
   * @throws when another endpoint of this process uses them
   */
  claim?(endpoint: { readonly name: string | undefined; readonly path: string }): void;
}

type Parts = Omit<
  McpStreamableOptions,
  keyof (McpSessionOptions & McpStateOptions & McpHttpOptions & McpHandlerOptions & McpProtocolOptions)
>;

export const OPTION_NAMES: readonly string[] = [
  ...namesOf<Parts>({
    ...{ serverInfo: true, instructions: true, server: true, instrumentation: true, auth: true, extensions: true },
    ...{ backend: true, eventLog: true, sessionStore: true, stateStore: true, eventStore: true, messageBus: true },
  }),
  ...[...SESSION_NAMES, ...STATE_NAMES, ...HTTP_NAMES, ...HANDLER_NAMES, ...PROTOCOL_NAMES],
];
