import { createHash } from 'node:crypto';
import { inspect } from 'node:util';
import type { Observable } from 'rxjs';
import { Subject } from 'rxjs';
import type { ClockTimer } from '../core/common/clock.js';
import { assertReadable, FORMATS } from '../core/common/formats.js';
import { ShutdownState } from '../core/common/shutdown-state.js';
import { randomToken, TOKEN_LENGTH } from '../core/common/random-token.js';
import { type McpCall, type OutboundMessage, routeText } from '../core/calls/mcp-call.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import type { StreamFlow } from '../core/calls/reply.js';
import { logger } from '../core/calls/operator-log.js';
import type { McpTopic } from '../core/plugins/listen-topics.js';
import type {
  McpEndpointHost,
  McpEndpointPlugin,
  McpHandlerHooks,
  McpRun,
  McpRunHooks,
} from '../core/plugins/mcp-plugin.js';
import { assertExtension } from '../core/plugins/served-method.js';
import type { ToolAccess } from '../core/methods/tool-access.js';
import { askStore, limitReached, McpError } from '../core/protocol/errors.js';
import { extensionOf, TASKS_EXTENSION } from '../core/protocol/extensions.js';
import { addressOf } from '../core/protocol/local-caller.js';
import { failed, RunningTask, type TaskNode } from './running-task.js';
import { TaskCall } from './task-call.js';
import {
  ACTIVE,
  type McpStoredTask,
  type McpTaskInfo,
  type McpTaskStore,
  type McpNewTask,
} from '../stores/task-store.js';
import { taskNotifications } from './task-watch.js';
import type { ResolvedTasksOptions } from './tasks.options.js';
import { type ToolTask, toolTaskOf } from './tool-task.js';

/** Matches ids as {@link randomToken} makes them. Any other text of a client is refused before the store is asked. */
const ID = new RegExp(`^[A-Za-z0-9]{${TOKEN_LENGTH}}$`);
/** At most so many tasks of a subscription, or of a dead node, are read from the store at a time. */
const ASKED_AT_ONCE = 50;
/** One subscription may name so many tasks: each is looked up in the store, and again whenever it changes. */
const MAX_WATCHED = 100;
/** Ticks are so many milliseconds apart. */
const TICK_MS = 5_000;
/** The tasks that clients listen to are read at each third tick. */
const TICKS_OF_WATCHES = 3;

/** Announces to other nodes that the record of this task has changed. */
interface TaskSignal {
  readonly type: 'task';
  readonly id: string;
}

/**
 * # The tasks of an endpoint on this node
 *
 * The records of the store decide. The bus carries signals to read them, which may get lost. So a node reads them again at each
 * tick, while it runs a task or a client listens to one:
 *
 * - it reads its tasks that wait for answers, and those that were ended by other nodes
 * - it makes its own tasks fail that were stored and did not start
 * - at each third tick it reads the tasks that clients listen to
 *
 * When a node has died, another one makes its tasks fail, as it ends its calls (`nodeDied`).
 *
 *     open ──drain()──▶ draining (calls stay ordinary) ──none runs, or the time has passed─▶ stopped
 */
export class EndpointTasks implements TaskNode, McpTopic, McpEndpointPlugin {
  readonly #running = new Map<string, RunningTask>();
  /** Holds the ids of tasks whose creation is in progress. */
  readonly #making = new Set<string>();
  readonly #changes$ = new Subject<string>();
  readonly #missed$ = new Subject<void>();
  #watches = 0;
  #tick: ClockTimer | undefined;
  #ticking = false;
  #ticks = 0;
  /** Whether the store may have tasks of this node that it does not run. */
  #orphans = false;
  readonly #state: ShutdownState;

  constructor(
    readonly store: McpTaskStore,
    private readonly host: Pick<McpEndpointHost, 'clock' | 'nodes' | 'storeFault'>,
    readonly options: ResolvedTasksOptions,
    private readonly access: Pick<ToolAccess, 'permits'>,
  ) {
    this.#state = new ShutdownState(this.clock, () => this.#running.size);
    host.nodes.signals$.subscribe((message) => this.#onSignal(message));
    host.nodes.missed$.subscribe(() => this.#missed());
  }

  get clock(): McpEndpointHost['clock'] {
    return this.host.clock;
  }

  get running(): number {
    return this.#running.size;
  }

  get maxResultBytes(): number {
    return this.options.maxResultBytes;
  }

  /** Emits the ids of tasks that have changed, on any node. Hot; never errors; completes when the endpoint closes. */
  get changes$(): Observable<string> {
    return this.#changes$;
  }

  get missed$(): Observable<void> {
    return this.#missed$;
  }

  /** Counts the clients that listen to tasks on this node. */
  get watches(): number {
    return this.#watches;
  }

  // ---- calls -----------------------------------------------------------------------------------------------------

  handler(target: McpHandlerTarget): McpHandlerHooks | undefined {
    const task = target.kind === 'tool' ? toolTaskOf(target) : undefined;
    return task && { run: (run) => this.#run(run, task) };
  }

  /** Returns what happens in a run of a tool with the option `task`; `undefined`: it stays an ordinary one. */
  #run(run: McpRun, task: ToolTask): McpRunHooks | undefined {
    const { call } = run;
    if (call.era !== 'modern' || !this.#state.takes) return undefined;
    if (supportsTasks(call)) return new TaskCall(run, this, task);
    return task.support === 'required' ? { entering: () => assertExtension(TASKS_EXTENSION, call) } : undefined;
  }

  async make(
    run: McpRun,
    { ttlMs, pollIntervalMs }: ToolTask,
    wanted: () => boolean,
  ): Promise<RunningTask | undefined> {
    const { options, clock } = this;
    const { call } = run;
    const about: McpNewTask = {
      id: randomToken(),
      principal: call.principal,
      ...addressToCount(call),
      ...(call.routeParams && { routeParams: call.routeParams }),
      tool: run.target.key,
      node: this.host.nodes.nodeId,
      createdAt: clock.now(),
      ttlMs: ttlMs ?? options.ttlMs,
      pollIntervalMs: pollIntervalMs ?? options.pollIntervalMs,
      ...(FORMATS.tasks.writes > 1 && { format: FORMATS.tasks.writes }),
    };
    if (!this.#state.takes || !wanted()) return undefined;
    this.#making.add(about.id);
    try {
      await this.#create(about);
      if (!wanted() || this.#state.is === 'stopped') {
        // The client has not got the id.
        await this.store.delete(about.id).catch(() => this.#leftOrphan());
        return undefined;
      }
      const task = new RunningTask(about, this, call);
      run.divertTo(task);
      this.#running.set(task.id, task);
      this.#keepTicking();
      this.changed(task.id);
      return task;
    } finally {
      this.#making.delete(about.id);
    }
  }

  async #create(about: McpNewTask): Promise<void> {
    const { maxTasks, maxTasksPerPrincipal, maxAnonymousTasks } = this.options;
    const anonymous = about.principal === undefined;
    const perPrincipal = anonymous ? maxAnonymousTasks : maxTasksPerPrincipal;
    const limits = { total: maxTasks, perPrincipal, perAddress: maxTasksPerPrincipal };
    const outcome = await this.#asking(() =>
      this.store.create(about, limits).catch((error: unknown) => {
        this.#leftOrphan();
        throw error;
      }),
    );
    if (outcome === 'created') return;
    if (outcome === 'total-cap') {
      throw limitReached('TOO_MANY_REQUESTS', { of: 'server', max: maxTasks, what: 'tasks', option: 'maxTasks' });
    }
    if (outcome === 'address-cap') {
      throw limitReached('TOO_MANY_REQUESTS', {
        of: 'caller',
        max: maxTasksPerPrincipal,
        what: 'tasks',
        option: 'maxTasksPerPrincipal',
        advice:
          '; all anonymous callers of one address count as one. A task counts until it expires, even if it has ended. Sign in, or try again later.',
      });
    }
    throw limitReached('TOO_MANY_REQUESTS', {
      of: 'caller',
      max: perPrincipal,
      what: 'tasks',
      option: anonymous ? 'maxAnonymousTasks' : 'maxTasksPerPrincipal',
      advice:
        '; all anonymous callers count as one. A task counts until it expires, even if it has ended. Try again later.',
    });
  }

  // ---- requests of clients and of the app --------------------------------------------------------------------------

  /**
   * Reads a task.
   *
   * @param of the owner that it must have
   * @returns `undefined` if there is none, it has expired, or it has another owner
   * @throws McpError UNAVAILABLE if the store is unavailable
   */
  async find(id: string, of?: Pick<McpCall, 'principal' | 'routeParams'>): Promise<McpStoredTask | undefined> {
    if (!ID.test(id)) return undefined;
    const task = await this.#asking(async () => {
      const found = await this.store.get(id);
      if (found) assertReadable('tasks', found.format ?? 1);
      return found;
    });
    return task && (!of || isOwner(of, task)) ? task : undefined;
  }

  list(filter?: { principal?: string | null }): Promise<McpTaskInfo[]> {
    return this.#asking(() => this.store.list(filter));
  }

  /** Cancels a task. @returns whether there was a task that had not ended */
  async cancel(id: string): Promise<boolean> {
    const change = { status: 'cancelled', statusMessage: '', lastUpdatedAt: this.clock.now() } as const;
    const cancelled = await this.#asking(() => this.store.patch(id, ACTIVE, change));
    if (cancelled) this.changed(id);
    // The bus alone may be unavailable.
    this.#running.get(id)?.look();
    return cancelled;
  }

  /**
   * Passes answers to the handler that waits for them, on whichever node it runs.
   *
   * @throws McpError PAYLOAD_TOO_LARGE; UNAVAILABLE if the store is unavailable
   */
  async answer(id: string, answers: Readonly<Record<string, object>>): Promise<void> {
    const bytes = Buffer.byteLength(JSON.stringify(answers));
    if (bytes > this.maxResultBytes) {
      const text = `The answers have ${bytes} bytes as JSON; ${this.maxResultBytes} is the maximum ("maxResultBytes"). Send less.`;
      throw new McpError('PAYLOAD_TOO_LARGE', text, { option: 'maxResultBytes' });
    }
    const taken = await this.#asking(() => this.store.answer(id, answers, this.clock.now()));
    if (taken.length > 0) this.changed(id);
    this.#running.get(id)?.look();
  }

  readonly maxIds = MAX_WATCHED;

  async honored(ids: readonly string[], call: McpCall): Promise<readonly string[]> {
    assertExtension(TASKS_EXTENSION, call);
    const honored: string[] = [];
    for (let start = 0; start < ids.length; start += ASKED_AT_ONCE) {
      const asked = ids.slice(start, start + ASKED_AT_ONCE);
      const found = await Promise.all(
        asked.map(async (id) => {
          const task = await this.find(id, call);
          return task && (await this.access.permits(task.tool, call)) ? [id] : [];
        }),
      );
      honored.push(...found.flat());
    }
    return honored;
  }

  watch(ids: readonly string[], flow: StreamFlow): Observable<OutboundMessage> {
    return taskNotifications(ids, flow, this);
  }

  watching(difference: 1 | -1): void {
    this.#watches += difference;
    this.#keepTicking();
  }

  // ---- for the tasks ---------------------------------------------------------------------------------------------

  changed(id: string): void {
    this.host.nodes.signal({ type: 'task', id } satisfies TaskSignal);
  }

  left(task: RunningTask): void {
    this.#running.delete(task.id);
    this.#state.left();
    this.#keepTicking();
  }

  report(text: string, error?: unknown): void {
    logger.error(error === undefined ? text : `${text} ${inspect(error)}`);
  }

  // ---- signals, ticks and dead nodes -----------------------------------------------------------------------------

  #onSignal(message: unknown): void {
    const { type, id } = (message ?? {}) as { type?: unknown; id?: unknown };
    if (type !== 'task' || typeof id !== 'string') return;
    this.#running.get(id)?.look();
    this.#changes$.next(id);
  }

  #missed(): void {
    for (const task of this.#running.values()) task.look();
    this.#missed$.next();
  }

  /** Notes that the store may have a task that no node runs: the next tick looks for it. */
  #leftOrphan(): void {
    this.#orphans = true;
    this.#keepTicking();
  }

  #keepTicking(): void {
    const needed = this.#state.is !== 'stopped' && (this.#running.size + this.#watches > 0 || this.#orphans);
    if (needed && !this.#tick) {
      this.#tick = this.clock.setInterval(() => void this.#onTick(), TICK_MS);
    } else if (!needed && this.#tick) {
      this.clock.clear(this.#tick);
      this.#tick = undefined;
    }
  }

  /** A store that is unavailable is asked again at the next tick. */
  async #onTick(): Promise<void> {
    if (this.#ticking) return;
    this.#ticking = true;
    try {
      if (this.#running.size > 0 || this.#orphans) await this.#readOwn();
      // A signal may be lost without a lost connection.
      if (++this.#ticks % TICKS_OF_WATCHES === 0) this.#missed$.next();
    } catch {
      // The store has logged it.
    } finally {
      this.#ticking = false;
      this.#keepTicking();
    }
  }

  async #readOwn(): Promise<void> {
    const active = new Set(await this.store.active(this.host.nodes.nodeId));
    for (const task of this.#running.values()) if (task.asks || !active.has(task.id)) task.look();
    // The task is stored, but the answer of the store was lost.
    const orphans = [...active].filter((id) => !this.#running.has(id) && !this.#making.has(id));
    for (const id of orphans) await this.#fail(id, ORPHAN);
    // A task whose creation is in progress may become an orphan.
    if (this.#making.size === 0) this.#orphans = false;
  }

  /**
   * Makes the tasks of a dead node fail. Can be repeated, and by several nodes at a time.
   *
   * @throws McpError UNAVAILABLE
   */
  async nodeDied(node: string): Promise<void> {
    const ids = await this.#asking(() => this.store.active(node));
    for (let start = 0; start < ids.length; start += ASKED_AT_ONCE) {
      await Promise.all(ids.slice(start, start + ASKED_AT_ONCE).map((id) => this.#fail(id, NODE_DIED)));
    }
  }

  async #fail(id: string, message: string): Promise<void> {
    const change = failed({ code: -32603, message }, this.clock.now());
    if (await this.#asking(() => this.store.patch(id, ACTIVE, change))) this.changed(id);
  }

  // ---- the end ---------------------------------------------------------------------------------------------------

  /** Accepts no more tasks, and gives running tasks `limitMs` to end; then they fail. */
  async drain(limitMs: number): Promise<void> {
    await this.#state.drain(limitMs);
    await Promise.all(Array.from(this.#running.values(), (task) => task.stop()));
    this.clock.clear(this.#tick);
    this.#tick = undefined;
  }

  /** Stops when the endpoint is closed. */
  close(): void {
    this.clock.clear(this.#tick);
    this.#tick = undefined;
    this.#changes$.complete();
    this.#missed$.complete();
  }

  /** Calls the store. @throws McpError UNAVAILABLE */
  #asking<T>(ask: () => Promise<T>): Promise<T> {
    return askStore(ask, this.host.storeFault, AWAY, 1);
  }
}

/** Returns whether a task belongs to a caller. A task of one tenant is unknown at the path of another. */
function isOwner(caller: Pick<McpCall, 'principal' | 'routeParams'>, task: McpNewTask): boolean {
  return caller.principal === task.principal && routeText(caller.routeParams) === routeText(task.routeParams);
}

/** Anonymous callers count by their address, so that no one of them takes the places of all. */
function addressToCount({ principal, request }: McpCall): Pick<McpNewTask, 'address'> {
  const address = principal === undefined ? addressOf(request) : '';
  return address === '' ? {} : { address: createHash('sha256').update(address).digest('base64url') };
}

/** Returns whether the client of a call declared the extension. */
function supportsTasks(call: McpCall): boolean {
  return extensionOf(call.client.capabilities, TASKS_EXTENSION) !== undefined;
}

const AWAY = 'The storage of this server is unavailable. The request may be repeated: try again soon.';
const NODE_DIED = 'The server that ran this task failed before the task had ended.';
const ORPHAN = 'The server could not start this task.';
