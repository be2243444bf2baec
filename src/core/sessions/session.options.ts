import {
  count,
  flag,
  functionOf,
  isDevelopment,
  oneOf,
  type OptionTable,
  type Resolved,
  timer,
} from '../common/options.js';
import type { McpResponseMode } from '../calls/exchange.js';
import type { HeldBytesLimits } from '../calls/held-bytes.js';
import type { McpSessionCaps } from './store/session-store.js';

/** How sessions behave, and how many there may be. @internal */
export interface McpSessionOptions {
  /**
   * Decides whether clients of the revisions 2025-03-26 to 2025-11-25 have sessions. With `off` each POST is
   * independent, which suits serverless platforms, and several nodes without a shared store. Then streams cannot be
   * resumed, changes are not announced, handlers cannot ask questions, and GET and DELETE get 405. Revision 2026-07-28
   * is not affected.
   *
   * @default 'required'
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
   */
  sessions?: 'required' | 'off';
  /**
   * Generates session ids. An id has 16 to 256 visible ASCII characters, and must be unguessable and unique: every
   * caller that knows the id of an anonymous session can use it.
   *
   * @default 22 random characters of `[A-Za-z0-9]` (131 bits)
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
   */
  sessionIdGenerator?: () => string;
  /**
   * Decides the format of the response to a POST. With `auto` it is JSON if the answer comes within `sseAfterMs` and no
   * other message precedes it. Otherwise it is server-sent events. With `json` it is always JSON, which carries neither
   * progress nor questions. With `sse` it is always server-sent events.
   *
   * @default 'auto'
   */
  responseMode?: McpResponseMode;
  /**
   * Sets the milliseconds after which an unanswered POST becomes an SSE response, so that proxies receive headers and
   * keep-alives. With a lower value, more answers go through the event log and can be resumed.
   *
   * @default 500
   */
  sseAfterMs?: number;
  /**
   * Sets the milliseconds that a client should wait before it reconnects to a closed stream. The first event of a
   * response sends it as `retry`. With a higher value there are fewer requests, but clients receive missed events
   * later.
   *
   * @default 3000
   */
  retryMs?: number;
  /**
   * Sets the milliseconds that a client has to answer a request of the server (elicitation, sampling, roots). With a
   * higher value users have more time, and handlers may wait longer. A single request can set a shorter `timeout`. If a
   * request is made through the SDK's context without a `timeout`, the SDK limits it to 60 seconds.
   *
   * @default 300000 (5 min)
   */
  serverRequestTimeoutMs?: number;
  /**
   * Limits the milliseconds that a handler may take to answer. After this time, its signal aborts and the client gets
   * an error.
   *
   * @default Infinity (no limit)
   */
  requestTimeoutMs?: number;
  /**
   * Limits the number of calls that run on this node, including those that wait for their turn. A further call gets 503
   * with `Retry-After`. A call runs until its answer, also while its handler waits for a database or for its client; a
   * task runs until its handler ends. Once a caller with a principal has called the node, anonymous callers get at most
   * half of these places. A higher value lets calls use more memory; `Infinity` disables the limit.
   *
   * @default 10000
   */
  maxRunningCalls?: number;
  /**
   * Limits the number of running calls of one principal, or of one session of anonymous callers. A further call gets
   * 429 with `Retry-After`. Each request of a batch counts, and each task until its handler ends. The limit does not
   * apply to anonymous callers without a session. If handlers share a scarce
   * resource, such as a pool of database connections, lower the value: otherwise the calls of one caller can occupy the
   * pool and delay all others. `Infinity` disables the limit.
   *
   * @default 1000
   */
  maxRunningCallsPerPrincipal?: number;
  /**
   * Limits the bytes of all bodies above 16 KiB that this endpoint holds on this node: bodies that are arriving, and
   * bodies of running calls and tasks. A request above the limit gets 503 with `Retry-After`; a body of up to 16 KiB is
   * always taken. The objects that are parsed from a body may take several times its bytes. A higher value lets requests
   * use more memory; `Infinity` disables the limit.
   *
   * @default 268435456 (256 MiB)
   */
  maxHeldBytes?: number;
  /**
   * Limits the bytes of the bodies of one principal, or of the anonymous callers of one address; otherwise it works like
   * `maxHeldBytes`. A request above the limit gets 429. With a lower value more callers find room at the same time. If a
   * proxy stands before the app, let the app trust it (`trust proxy` of Express, `trustProxy` of Fastify): otherwise all
   * anonymous callers have the address of the proxy.
   *
   * @default an eighth of `maxHeldBytes`, but at least `maxBodyBytes`
   */
  maxHeldBytesPerPrincipal?: number;
  /**
   * Limits the delay of the event loop in milliseconds. If the delay is above the limit twice in a row, and the process
   * itself used most of the processor time, new calls get 503 with `Retry-After`. A new call also gets 503 if it would wait longer than this for earlier calls of the same
   * caller. Answers, cancellations, GET and DELETE are still accepted. A higher value lets calls wait longer;
   * `Infinity` disables the limit.
   *
   * @default 1000
   */
  maxLagMs?: number;
  /**
   * Sets the milliseconds that running calls have to end when the app shuts down. Calls that still run then get an
   * error. Meanwhile new calls are refused (503), and `McpSessionService.accepting` is `false`. A higher value delays
   * `app.close()` while calls run: keep the sum with `shutdownDelayMs` below the grace period of the process (30 s in
   * Kubernetes, 10 s for `docker stop`). With 0, running calls are ended at once. In an app that the testing kit calls,
   * the default is 0.
   *
   * @default `10_000` (10 s) with a shared session store; else `5_000` (5 s), or `0` if `NODE_ENV` is `test` or `development`
   */
  drainMs?: number;
  /**
   * Sets the milliseconds for which the app still takes calls after SIGTERM or SIGINT, so that the load balancer
   * notices the shutdown first. Meanwhile `McpSessionService.accepting` is `false`, health checks are down, and each
   * response closes its connection. Then `drainMs` begins. Choose a value above the time that the balancer takes to
   * notice. If an app has several endpoints, the longest value counts. With 0, new calls are refused at once, which
   * suits development. There is no delay after `app.close()`, and none if the app enables shutdown hooks after
   * `app.listen()`.
   *
   * @default `3_000` (3 s) with a shared session store; `0` without one
   */
  shutdownDelayMs?: number;
  /**
   * Sets the milliseconds without activity after which a session ends. Running calls and open streams are activity.
   * State that outlives a call (`ctx.state()`) ends when it is not used for the same time. A lower value needs less
   * memory, but a client that returns later must initialize again, which many clients do not do. If a client sends
   * nothing after `initialize`, its session ends after a minute, or after this time if that is shorter.
   *
   * @default 1800000 (30 min)
   */
  idleTimeoutMs?: number;
  /**
   * Limits the number of sessions. A further `initialize` replaces the session that has been unused for longest. A
   * session is unused if its client has sent nothing after `initialize` for at least 5 seconds. If there is no unused
   * session, a caller with a principal replaces the anonymous session that is idle for longest. Otherwise the
   * `initialize` gets 503. A higher value lets sessions use more
   * memory.
   *
   * @default 10000
   */
  maxSessions?: number;
  /**
   * Limits the number of sessions per principal. A further `initialize` gets 429. `Infinity` disables the limit.
   *
   * @default 100
   */
  maxSessionsPerPrincipal?: number;
  /**
   * Limits the number of sessions of all anonymous callers together. A further `initialize` gets 429. If the value is
   * lower than `maxSessions`, places are left for authenticated callers. Guards of the whole app (`APP_GUARD`) do not
   * change the default: set the option if they let anonymous callers in. A caller that a guard accepts without a
   * principal is anonymous, too: if all your callers are, raise the value to `maxSessions`.
   *
   * @default half of `maxSessions`, rounded up, with the option `guards` or `auth`; `Infinity` without (then only `maxSessions` limits them)
   */
  maxAnonymousSessions?: number;
  /**
   * Decides whether sessions survive a restart of the process, so that clients stay connected when you save a file
   * under `nest start --watch`. Sessions, their events and `ctx.state()` are kept in a file in the temporary folder of
   * the system, which only the user of the process can read. The option has no effect with your own session store,
   * event store or backend. If the file cannot be written, as on a full disk, the log says so and sessions end with the
   * process. Do not use it in production: it serves one process at a time, and writes each change of a session
   * synchronously.
   *
   * @default `true` in a terminal, or if `WATCH_REPORT_DEPENDENCIES` is set (`node --watch`); `false` elsewhere, and if `NODE_ENV` is `production` or `test`
   */
  devSessions?: boolean;
}

export const SESSION_TABLE = {
  sessions: oneOf('required', ['required', 'off']),
  sessionIdGenerator: functionOf(undefined),
  responseMode: oneOf('auto', ['auto', 'sse', 'json']),
  sseAfterMs: timer(500, { min: 0 }),
  retryMs: count(3_000, { min: 0 }),
  serverRequestTimeoutMs: timer(300_000),
  requestTimeoutMs: timer(Infinity, { infinite: true }),
  maxRunningCalls: count(10_000, { infinite: true }),
  maxRunningCallsPerPrincipal: count(1_000, { infinite: true }),
  maxHeldBytes: count(256 * 1024 ** 2, { infinite: true }),
  maxHeldBytesPerPrincipal: count(undefined, { infinite: true }),
  maxLagMs: count(1_000, { infinite: true }),
  // The defaults of these two depend on the store.
  drainMs: timer(undefined, { min: 0 }),
  shutdownDelayMs: timer(undefined, { min: 0 }),
  idleTimeoutMs: count(1_800_000, { infinite: true }),
  maxSessions: count(10_000, { infinite: true }),
  maxSessionsPerPrincipal: count(100, { infinite: true }),
  maxAnonymousSessions: count(undefined, { infinite: true }),
  devSessions: (given, option) => flag(isWatched())(given, option),
} satisfies OptionTable<McpSessionOptions>;

export type ResolvedSessionOptions = Resolved<typeof SESSION_TABLE>;

export interface SessionLimits extends Pick<ResolvedSessionOptions, 'maxSessions' | 'maxSessionsPerPrincipal'> {
  readonly maxAnonymousSessions: number;
}

/** @param signIn whether callers sign in: then those who do not must leave them places */
export function maxAnonymousSessions(options: ResolvedSessionOptions, signIn: boolean): number {
  return options.maxAnonymousSessions ?? (signIn ? Math.ceil(options.maxSessions / 2) : Infinity);
}

/** A caller has so many parts of `maxHeldBytes` as its share. */
const SHARES_OF_HELD_BYTES = 8;

/** @param maxBodyBytes one body always fits into the share of its caller; without HTTP there is none */
export function heldBytesLimits(
  { maxHeldBytes: max, maxHeldBytesPerPrincipal }: ResolvedSessionOptions,
  maxBodyBytes = 0,
): HeldBytesLimits {
  return {
    max,
    maxPerCaller: maxHeldBytesPerPrincipal ?? Math.max(Math.floor(max / SHARES_OF_HELD_BYTES), maxBodyBytes),
  };
}

/** Returns the caps for a new session. Anonymous callers are many clients, so they have a cap of their own. */
export function capsFor(principal: string | undefined, limits: SessionLimits): McpSessionCaps {
  const { maxSessions: total, maxSessionsPerPrincipal, maxAnonymousSessions } = limits;
  return { total, perPrincipal: principal === undefined ? maxAnonymousSessions : maxSessionsPerPrincipal };
}

/** Returns whether a developer runs the app: `nest start --watch` gives its child nothing to tell it by but the terminal. */
function isWatched(): boolean {
  const { stdout, env } = process;
  return isDevelopment() && (stdout.isTTY || env['WATCH_REPORT_DEPENDENCIES'] !== undefined);
}
