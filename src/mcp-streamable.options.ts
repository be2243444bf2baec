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
  /** Tells a model how to use the server. Without effect with the option `server`, whose server has its own. */
  instructions?: string;
  /**
   * Makes the SDK server of a session, once per live copy: a session that is rebuilt gets another server. Requests without a
   * session (revision 2026-07-28, `sessions: 'off'`) get one each. Return a new `McpServer` or `Server` each time; import the
   * class from this package in CommonJS apps. Decorated handlers and `McpRegistry` are not for such an endpoint: one that
   * belongs to it stops the start.
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
   * Where everything is that several nodes share: stores and bus in one, such as `redisBackend(url)` of
   * `nestjs-mcp-streamable/redis`. `sessionStore`, `stateStore`, `eventStore` and `messageBus` replace its parts. It is closed
   * with the app: a function makes one for each app that starts, as tests do that start several of one module.
   *
   * @default in the memory of this process
   */
  backend?: McpBackend | (() => McpBackend);
  /** Bounds of the event log in memory: see [its properties](#properties-of-eventlog). @default those of its properties */
  eventLog?: EventLogOptions;
  /**
   * Where sessions are recorded.
   *
   * @default in the memory of this process
   */
  sessionStore?: McpSessionStore;
  /**
   * Where state that outlives a call is kept (`ctx.state()`, `ctx.principalState()`). An instance of Keyv fits as it is. Nodes
   * that share sessions need one that they share, too.
   *
   * @default in the memory of this process
   */
  stateStore?: McpStateStore;
  /**
   * Where streams are logged.
   *
   * @default in the memory of this process, within `eventLog`
   */
  eventStore?: McpEventStore;
  /**
   * How nodes tell each other what happened.
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
