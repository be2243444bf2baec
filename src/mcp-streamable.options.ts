import type { Implementation } from '@modelcontextprotocol/server';
import { AUTH_NAMES, AUTH_OPTION_TABLE, type McpAuthOption, resolveAuthOption } from './auth/auth.options.js';
import { MESSAGE_BUS_METHODS, type McpMessageBus } from './core/nodes/message-bus.js';
import {
  assertNames,
  contract,
  group,
  McpOptionError,
  object,
  option,
  type OptionTable,
  required,
  resolveOptions,
  text,
} from './core/common/options.js';
import type { EndpointName } from './core/calls/endpoint-name.js';
import type { McpInstrumentation } from './core/calls/mcp-instrumentation.js';
import { HANDLER_TABLE, type McpHandlerOptions } from './core/handlers/handlers.options.js';
import { EXTRA_NAMES } from './core/http/endpoint-extras.js';
import { HTTP_TABLE, maxBodyValues, type McpHttpOptions } from './core/http/http.options.js';
import { type McpServerCardOption, SERVER_CARD_TABLE, CARD_NAMES } from './card/server-card.options.js';
import { type McpProtocolOptions, PROTOCOL_TABLE } from './core/eras/protocol.options.js';
import { EXTENSION_TABLE, type McpExtensionOptions } from './core/methods/capabilities.js';
import { type McpServerOption, SERVER_TABLE } from './server/server.options.js';
import { maxAnonymousSessions, type McpSessionOptions, SESSION_TABLE } from './core/sessions/session.options.js';
import { type McpSessionStore, SESSION_STORE_METHODS } from './core/sessions/store/session-store.js';
import { type McpStateStore, STATE_STORE_METHODS } from './core/questions/state/state-store.js';
import { type McpStateOptions, STATE_TABLE } from './core/questions/state/state.options.js';
import { EVENT_STORE_METHODS, SHARED_EVENT_STORE_METHODS, type McpEventStore } from './core/log/event-store.js';
import { EVENT_LOG_TABLE, type McpEventLogOptions } from './core/log/stream.options.js';

/** The options of an endpoint; may come from `forRootAsync`. @publicApi */
export interface McpStreamableOptions
  extends
    McpSessionOptions,
    McpStateOptions,
    McpHttpOptions,
    McpHandlerOptions,
    McpProtocolOptions,
    McpExtensionOptions,
    McpServerCardOption,
    McpServerOption,
    McpAuthOption {
  /**
   * Tells clients what the server is. It needs a `name` and a `version`, and can have a title, a description, icons and
   * a URL.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
   */
  serverInfo: Implementation;
  /**
   * Tells the model how to use the server. It has no effect with the option `server`, whose server has its own
   * instructions.
   */
  instructions?: string;
  /**
   * Observes the calls of clients, for telemetry. It sees the caller, the call with its arguments, and the outcome; it
   * cannot refuse a call. In an array, the first one runs around the others. Records of calls and of
   * refused requests are written by `McpAuditModule` of `nestjs-mcp-streamable/audit`. Without an instrumentation, and
   * without a subscriber of `McpSessionService.calls$`, calls are not observed, which costs nothing.
   *
   * @default none
   */
  instrumentation?: McpInstrumentation | readonly McpInstrumentation[];
  /**
   * Provides all stores and the message bus in one object, for apps with several nodes. `redisBackend(url)` of
   * `nestjs-mcp-streamable/redis` returns one. `sessionStore`, `stateStore`, `eventStore` and `messageBus` replace
   * single parts of it. The app closes its backend on shutdown. If several apps start from the same module, as in
   * tests, give a function that creates a backend.
   *
   * @default in the memory of this process
   */
  backend?: McpBackend | (() => McpBackend);
  /** Bounds the event log in memory. @default those of its properties */
  eventLog?: McpEventLogOptions;
  /**
   * Stores the records of sessions.
   *
   * @default in the memory of this process
   */
  sessionStore?: McpSessionStore;
  /**
   * Stores the state that outlives a call (`ctx.state()`, `ctx.principalState()`). You can give an instance of Keyv.
   * Nodes that share sessions must share this store, too.
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
   * Is called once at the start with the endpoint that uses these parts. Absent: any number of endpoints may.
   *
   * @throws when another endpoint of this process uses them
   */
  claim?(endpoint: { readonly name: string | undefined; readonly path: string }): void;
  /**
   * Checks whether nodes can read and write, at start and for each health check. Absent: health checks only read.
   *
   * @returns remarks for operators: the log has each of them once, and each health check has them as `warnings`
   * @throws (rejects) while they cannot; McpOptionError if they never can: the app does not start
   */
  check?(): Promise<readonly string[]>;
}

const OPTION_TABLE = {
  serverInfo: option(required, infoOf),
  // An empty string, as from an environment variable, counts as absent.
  instructions: (given, name) => text(undefined)(given === '' ? undefined : given, name),
  instrumentation: option([], instrumentationsOf),
  backend: option(undefined, backendOf),
  eventLog: group({}, EVENT_LOG_TABLE),
  sessionStore: contract(undefined, SESSION_STORE_METHODS),
  stateStore: contract(undefined, STATE_STORE_METHODS),
  eventStore: contract(undefined, EVENT_STORE_METHODS, SHARED_EVENT_STORE_METHODS),
  messageBus: contract(undefined, MESSAGE_BUS_METHODS),
  ...SESSION_TABLE,
  ...STATE_TABLE,
  ...HTTP_TABLE,
  ...HANDLER_TABLE,
  ...PROTOCOL_TABLE,
  ...EXTENSION_TABLE,
  ...SERVER_CARD_TABLE,
  ...SERVER_TABLE,
  ...AUTH_OPTION_TABLE,
} satisfies OptionTable<McpStreamableOptions>;

export const OPTION_NAMES = Object.keys(OPTION_TABLE);

/** The options of an endpoint with their defaults. */
export type ResolvedEndpointOptions = ReturnType<typeof resolveEndpointOptions>;

/**
 * Checks the options of an endpoint and adds the defaults: {@link MCP_OPTIONS} stands for the result.
 *
 * @param given to `forRoot()`, or by a factory
 * @param endpoint whether it has guards
 * @throws McpOptionError for the first invalid one
 */
export function resolveEndpointOptions(given: unknown, { guarded }: Pick<EndpointName, 'guarded'>) {
  assertEndpointOptions(given);
  const options = resolveOptions(OPTION_TABLE, given);
  // By their names: these features can be taken out.
  const has = (name: 'server' | 'auth'): boolean => (options as Readonly<Record<string, unknown>>)[name] !== undefined;
  return {
    ...options,
    ...resolveAuthOption(options),
    // The default stands in the options, which are known before it is decided what the endpoint offers.
    maxBodyValues: maxBodyValues(options, has('server')),
    maxAnonymousSessions: maxAnonymousSessions(options, guarded || has('auth')),
  };
}

function assertEndpointOptions(given: unknown): asserts given is McpStreamableOptions {
  if (typeof given !== 'object' || given === null) {
    const reason = `The options must be an object with "serverInfo" at least; got ${String(given)}.`;
    throw new McpOptionError('options', reason);
  }
  // Nest leaves extras out of what forRoot() was given. From a factory they would be ignored, which is unsafe for guards.
  const late = EXTRA_NAMES.find((name) => (given as Record<string, unknown>)[name] !== undefined);
  if (late !== undefined) {
    const reason = `The option "${late}" was returned by the factory of forRootAsync(), where it has no effect: Nest needs it earlier. Pass it to forRootAsync() itself, beside the factory.`;
    throw new McpOptionError(late, reason);
  }
  // The extras among the names: a misspelt option may mean one.
  const groups = { auth: AUTH_NAMES, serverCard: CARD_NAMES, eventLog: Object.keys(EVENT_LOG_TABLE) };
  assertNames([...OPTION_NAMES, ...EXTRA_NAMES], given, '', groups);
}

function infoOf(given: Implementation | null, name: string): Implementation {
  text(required)(given?.name, `${name}.name`);
  text(required)(given?.version, `${name}.version`);
  return given!;
}

function instrumentationsOf(given: McpInstrumentation | readonly McpInstrumentation[], name: string) {
  return [given].flat().map((each) => contract<McpInstrumentation>(required, ['call'])(each, name));
}

type Backend = NonNullable<McpStreamableOptions['backend']>;

/** Returns the backend; what a function returns is checked when it is called. */
function backendOf(given: Backend, name: string): Backend {
  return typeof given === 'function' ? given : object<McpBackend>(required)(given, name);
}
