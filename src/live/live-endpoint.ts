import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Implementation } from '@modelcontextprotocol/server';
import { Subscription } from 'rxjs';
import type { McpClock } from '../core/common/clock.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import type { DivertedClient, McpCall, McpSessionInfo } from '../core/calls/mcp-call.js';
import type { McpCallEnd } from '../core/calls/mcp-instrumentation.js';
import {
  type McpCallHooks,
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  ToolExaminer,
} from '../core/plugins/mcp-plugin.js';
import { DivertedCalls } from '../core/calls/diverted-calls.js';
import { logger } from '../core/calls/operator-log.js';
import { infoOf } from '../core/calls/call-info.js';
import { type McpHealth, McpHealthIndicator } from '../core/nodes/mcp-health.indicator.js';
import { HttpEdge } from '../core/http/edge/http-edge.js';
import { McpRegistry } from '../core/handlers/registry/mcp-registry.js';
import { OffSwitch } from '../core/plugins/off-switch.js';
import { LiveSessions } from '../core/sessions/running/live-sessions.js';
import type { McpSessionDetails } from '../core/sessions/running/session-state.js';
import { McpSessionService } from '../core/sessions/mcp-session.service.js';
import { McpSessionStore } from '../core/sessions/store/session-store.js';
import { McpEventStore } from '../core/log/event-store.js';
import type { McpError } from '../core/protocol/errors.js';
import { callEvent, cut, type EventRing, isFailure, refusalEvent, sessionEvent, shortId } from './live-events.js';
import type { EndpointState, Row } from './live-state.js';
import { CallRecords, type RunningCall } from './call-records.js';
import { HandlerRows } from './handler-rows.js';
import { handlerDetails, isListed, sessionDetails } from './live-details.js';
import { Payloads } from './payloads.js';
import { ToolsPerCaller } from './tools-per-caller.js';
import { ToolStatistics } from './statistics.js';

/** The page shows at most this many sessions, and calls, of an endpoint: those that were active last. */
const MOST_SHOWN = 1_000;
/** Tools are examined at most every so many milliseconds. */
const EXAMINE_MS = 30_000;
/** The reason that models read. */
const SWITCHED_OFF = 'The operator of this server switched it off.';
const CANCELLED = 'The operator of this server cancelled this request. Whether it had an effect is not known.';
/** Stands for the results of a store that failed after its check; the next check shows it as down. */
const GONE_MEANWHILE = [undefined, undefined, undefined] as const;
const NO_RECORDS: readonly McpSessionDetails[] = [];

/** The results of stores and bus, which may take long or fail. */
interface Asked {
  readonly health: McpHealth;
  readonly nodes: readonly string[];
  readonly logged: number;
  /** The sessions that this node does not have; none where there are too many to be listed. */
  readonly elsewhere: readonly McpSessionDetails[];
}

/**
 * # One endpoint, as the live page shows it
 *
 * The ends of calls are always counted, because a page that is opened after a fault must show it. Other data is read
 * only while a page is open: that of this node at each update, that of stores and bus every few seconds.
 */
export class LiveEndpoint implements McpEndpointPlugin {
  readonly #tools = new ToolStatistics();
  readonly #watching = new Subscription();
  /** Keeps how a session or a call is shown, by the objects that describe it and do not change. */
  readonly #introduced = new WeakMap<object, Introduction>();
  readonly #callRow = new WeakMap<RunningCall, Row>();
  readonly #taskKeys = new WeakMap<object, string>();
  #asked: Asked | undefined;
  #asking = false;
  readonly #perCaller: ToolsPerCaller;
  readonly #handlers: HandlerRows;
  #examined: { readonly at: number; readonly findings: ReturnType<ToolExaminer['findings']> } | undefined;
  readonly #records: CallRecords;
  /** The calls that run, listens among them, the oldest first. */
  readonly #running = new Set<RunningCall>();
  #calls = 0;
  #isRecording: boolean;
  readonly handler: (() => McpHandlerHooks | undefined) | undefined;

  /** Its position among the endpoints of the app. */
  readonly index: number;
  readonly #payloads: Payloads | undefined;

  constructor(
    private readonly host: McpEndpointHost,
    private readonly clock: McpClock,
    private readonly events: EventRing,
    { payloads }: { readonly payloads: boolean },
  ) {
    const { index } = host;
    this.index = index;
    this.#payloads = payloads ? new Payloads(host) : undefined;
    const off = (): OffSwitch | undefined => host.find(OffSwitch);
    this.#perCaller = new ToolsPerCaller(host);
    this.#handlers = new HandlerRows(host.handlers, this.#perCaller, off, (name) => hashOf(`tool ${index} ${name}`));
    this.#records = new CallRecords(this.#payloads);
    this.#isRecording = payloads;
    // Calls pay nothing while they are not recorded.
    const hooks = (): McpHandlerHooks | undefined =>
      this.#isRecording ? { run: (run) => this.#records.ofRun(run) } : undefined;
    this.handler = host.offer.serves === 'handlers' ? hooks : undefined;
    const { events$ } = this.service;
    const now = () => clock.now();
    this.#watching.add(
      events$.subscribe((event) => {
        const shown = sessionEvent(event);
        if (shown) events.add(index, now(), () => shown);
      }),
    );
    this.#watching.add(
      host.refusals$.subscribe((refusal) => {
        const shown = refusalEvent(refusal);
        events.add(index, now(), () => shown);
      }),
    );
  }

  call(call: McpCall): McpCallHooks {
    const running = { call, info: infoOf(call), at: performance.now(), number: ++this.#calls };
    this.#running.add(running);
    if (!this.#isRecording) return { answered: (end) => this.#answered(running, end) };
    const key = this.#callKey(running);
    const record = this.#records.begin(running, key);
    return {
      notified: (message) => record.notified(message),
      asked: (question, answer) => record.asked(question, answer),
      answered: (end) => {
        record.answered(end);
        this.#answered(running, end, key);
      },
    };
  }

  /** @param record the key of its record */
  #answered(running: RunningCall, end: McpCallEnd, record?: string): void {
    this.#running.delete(running);
    this.#perCaller.called(running.call.target);
    const now = this.clock.now();
    // The client decides how long a listen takes.
    if (end.call.method !== 'subscriptions/listen') this.#tools.note(end, isFailure(end.outcome), now);
    this.events.add(this.index, now, callEvent(end, record));
  }

  /** Records what happens in calls while a page is open, and always with the option `payloads`. */
  watch(isOpen: boolean): void {
    if (this.#payloads || isOpen === this.#isRecording) return;
    this.#isRecording = isOpen;
    this.host.refresh();
  }

  get nodeId(): string {
    return this.host.nodes.nodeId;
  }

  /**
   * Returns the reason why the endpoint would not serve a page of the Host of this request (E1): the browser sends no
   * Origin with a GET.
   */
  refusalOf({ headers, socket }: IncomingMessage): McpError | undefined {
    const host = headers.host ?? headers[':authority'];
    const origin = `http://${String(host)}`;
    const asked = { headers: { ...headers, origin }, socket } as IncomingMessage;
    return this.host.get(HttpEdge).hostRefusalOf(asked);
  }

  stop(): void {
    this.#watching.unsubscribe();
  }

  /** Queries stores and bus; at most one round runs. Never rejects. */
  async ask(): Promise<void> {
    this.#perCaller.read();
    if (this.#asking) return;
    this.#asking = true;
    try {
      const { host } = this;
      const { mcp: health } = await host.get(McpHealthIndicator).check('mcp');
      const answers = async () =>
        Promise.all([
          health.messageBus === 'up' ? host.nodes.alive() : undefined,
          health.eventStore === 'up' ? this.#log.stats?.() : undefined,
          health.sessionStore === 'up' ? this.#elsewhere(health) : undefined,
        ]);
      const [nodes, stats, elsewhere] = await answers().catch(() => GONE_MEANWHILE);
      const logged = stats?.bytes ?? -1;
      this.#asked = { health, nodes: nodes ?? [this.nodeId], logged, elsewhere: elsewhere ?? NO_RECORDS };
    } finally {
      this.#asking = false;
    }
  }

  /** Returns what the page shows now. */
  state(): EndpointState {
    const now = this.clock.now();
    return {
      facts: this.#facts(now),
      tables: {
        sessions: this.#sessionRows(),
        calls: this.#callRows(now),
        tools: byKey(this.#handlers.tools(this.#tools.rows(now))),
        offers: byKey(this.#handlers.others()),
      },
    };
  }

  /**
   * Returns what the page shows of one call, session or handler.
   *
   * @returns `undefined` if there is no such thing, or nothing is known of it
   * @throws (rejects) when a store does not answer
   */
  async details(kind: string, key: string): Promise<object | undefined> {
    if (kind === 'call') return this.#records.get(key);
    if (kind === 'session') {
      const id = this.#shownSession(key);
      const details = id === undefined ? undefined : await this.service.get(id);
      const live = id === undefined ? undefined : this.host.get(LiveSessions).peek(id)?.session;
      return details && sessionDetails(details, live, this.#payloads);
    }
    if (!isListed(kind)) return undefined;
    if (kind === 'tool') this.#perCaller.read();
    return handlerDetails(kind, key, {
      host: this.host,
      perCaller: this.#perCaller,
      statistics: this.#tools,
      findings: () => this.#findings(),
    });
  }

  /** Examines the tools, at most once in a while: it takes time, and an open page asks again and again. */
  #findings(): ReturnType<ToolExaminer['findings']> {
    const now = this.clock.now();
    if (!this.#examined || now - this.#examined.at >= EXAMINE_MS) {
      const findings = this.host.find(ToolExaminer)?.findings() ?? Promise.resolve([]);
      this.#examined = { at: now, findings };
    }
    return this.#examined.findings;
  }

  /** @returns whether there was such a session. @throws (rejects) when the store does not answer */
  async endSession(key: string): Promise<boolean> {
    const id = this.#shownSession(key) ?? (await this.service.list()).find((record) => hashOf(record.id) === key)?.id;
    return id !== undefined && this.#end(id);
  }

  /** Returns the id of a session of this node, or of another one if pages show it. */
  #shownSession(key: string): string | undefined {
    for (const { session } of this.host.get(LiveSessions).all()) {
      if (this.#introduction(session.info).key === key) return session.sessionId;
    }
    return this.#asked?.elsewhere.find((record) => this.#introduction(record).key === key)?.id;
  }

  /** @returns whether there was such a call, or task, on this node. @throws (rejects) when the store of tasks does not answer */
  async cancelCall(key: string): Promise<boolean> {
    for (const running of this.#running) {
      const { call, info } = running;
      if (this.#callKey(running) !== key || !isCancellable(running)) continue;
      this.host.cancel(call, CANCELLED);
      logger.log(`A call of ${cut(info.method)} was cancelled from the live page.`);
      return true;
    }
    for (const [{ target }, task] of this.#tasks()) {
      if (this.#taskKey(task) !== key) continue;
      const cancelled = await task.cancel();
      if (cancelled) logger.log(`A task of the tool ${cut(target!.key)} was cancelled from the live page.`);
      return cancelled;
    }
    return false;
  }

  /** @returns whether there was such a tool. @throws (rejects) when the state store does not answer */
  async switchTool(key: string, on: boolean): Promise<boolean> {
    const rows = this.#handlers.tools(this.#tools.rows(this.clock.now()));
    const tool = rows.find(({ id }) => id === key)?.name;
    if (tool === undefined) return false;
    const registry = this.host.get(McpRegistry);
    logger.log(`The tool ${cut(tool)} was switched ${on ? 'on' : 'off'} from the live page.`);
    await (on ? registry.enable(tool) : registry.disable(tool, { reason: SWITCHED_OFF }));
    return true;
  }

  async #end(id: string): Promise<boolean> {
    const ended = await this.service.terminate(id);
    if (ended) logger.log(`Session "${shortId(id)}…" was ended from the live page.`);
    return ended;
  }

  /** Returns sessions of other nodes. */
  async #elsewhere({ sessions = 0 }: McpHealth): Promise<readonly McpSessionDetails[]> {
    if (!this.#isShared || sessions > MOST_SHOWN) return NO_RECORDS;
    const live = this.host.get(LiveSessions);
    return (await this.service.list()).filter(({ id }) => !live.peek(id));
  }

  #facts(now: number): Record<string, unknown> {
    const { name, path } = this.host;
    const { serverInfo } = this.host.get<{ readonly serverInfo: Implementation }>(MCP_OPTIONS);
    const { health, nodes = [this.nodeId], logged } = this.#asked ?? {};
    const { live, inFlight, outbound, streams, readers, subscriptions, tasks } = this.service.nodeCounts();
    return {
      name: name ?? path,
      path: this.host.get(HttpEdge).paths()[0] ?? `/${path}`,
      title: serverInfo.title ?? '',
      server: `${serverInfo.name} ${serverInfo.version}`,
      node: this.nodeId,
      nodes,
      live,
      calls: inFlight,
      questions: outbound,
      streams,
      readers,
      listens: subscriptions,
      tasks,
      sessions: Math.max(health?.sessions ?? live, live),
      shared: this.#isShared,
      logged,
      draining: !this.service.accepting,
      sessionStore: health?.sessionStore,
      eventStore: health?.eventStore,
      messageBus: health?.messageBus,
      backend: health?.backend,
      warnings: health?.warnings,
      rate: this.#tools.calls.values(now),
      failures: this.#tools.failures.values(now),
    };
  }

  #sessionRows(): Map<string, Row> {
    const [live, store] = [this.host.get(LiveSessions), this.#log];
    let sessions = Array.from(live.all(), ({ session }) => session);
    if (sessions.length > MOST_SHOWN)
      sessions = sessions.toSorted((one, other) => other.lastSeenAt - one.lastSeenAt).slice(0, MOST_SHOWN);
    const rows = sessions.map(({ info, sessionId, createdAt, lastSeenAt, counts }) => {
      const { inFlight: calls, streams, readers } = counts;
      const log = sizeIn(store, sessionId);
      const whose = this.#introduction(info);
      return { ...whose, here: true, since: createdAt, seen: lastSeenAt, calls, streams, readers, log };
    });
    const elsewhere = (this.#asked?.elsewhere ?? NO_RECORDS)
      .filter(({ id }) => !live.peek(id))
      .slice(0, MOST_SHOWN - rows.length)
      .map((record) => {
        const { createdAt, lastSeenAt } = record;
        const whose = this.#introduction(record);
        return { ...whose, here: false, since: createdAt, seen: lastSeenAt, calls: 0, streams: 0, readers: 0, log: -1 };
      });
    return byKey([...rows, ...elsewhere]);
  }

  #introduction(info: McpSessionInfo): Introduction {
    let known = this.#introduced.get(info);
    if (!known) this.#introduced.set(info, (known = introductionOf(info)));
    return known;
  }

  #callRows(now: number): Map<string, Row> {
    const rows: Row[] = [];
    for (const running of this.#running) {
      let row = this.#callRow.get(running);
      if (!row) this.#callRow.set(running, (row = this.#rowOf(running, now)));
      rows.push(row);
      if (rows.length === MOST_SHOWN) break;
    }
    for (const task of this.#tasks()) {
      if (rows.length === MOST_SHOWN) break;
      rows.push(this.#taskRow(...task));
    }
    return byKey(rows);
  }

  /** Makes the row of a task whose call has already been answered. */
  #taskRow({ target, principal }: McpCall, task: DivertedClient): Row {
    return {
      key: this.#taskKey(task),
      method: task.asks ? 'task, waits for an answer' : 'task',
      name: cut(target!.key),
      session: null,
      client: '',
      version: '',
      principal: principal === undefined ? null : cut(principal),
      revision: '',
      since: task.createdAt,
      cancellable: true,
    };
  }

  #rowOf(running: RunningCall, now: number): Row {
    const { call, info, at } = running;
    const { name, version } = call.client.clientInfo;
    return {
      key: this.#callKey(running),
      method: cut(info.method),
      name: info.name === undefined ? null : cut(info.name),
      session: info.sessionId === undefined ? null : shortId(info.sessionId),
      client: cut(name),
      version: cut(version),
      principal: info.principal === undefined ? null : cut(info.principal),
      revision: cut(info.protocolVersion),
      since: Math.round(now - (performance.now() - at)),
      cancellable: isCancellable(running),
    };
  }

  #tasks(): DivertedCalls {
    return this.host.get(DivertedCalls);
  }

  /** Identifies a task by a hash, as a session: an anonymous caller that knows the id can use the task. */
  #taskKey(task: DivertedClient): string {
    let key = this.#taskKeys.get(task);
    if (key === undefined) this.#taskKeys.set(task, (key = hashOf(task.id)));
    return key;
  }

  #callKey({ number }: RunningCall): string {
    return `${this.nodeId}-${this.index}-${number}`;
  }

  private get service(): McpSessionService {
    return this.host.get(McpSessionService);
  }

  get #log(): McpEventStore {
    return this.host.get<McpEventStore>(McpEventStore);
  }

  get #isShared(): boolean {
    return this.host.get<McpSessionStore>(McpSessionStore).scope === 'shared';
  }
}

/** The page shows with it whose a session or a call is. */
type Introduction = Readonly<Record<'key' | 'id' | 'client' | 'version' | 'revision', string>> & {
  readonly principal: string | null;
};

function introductionOf({ id, clientInfo, principal, protocolVersion }: McpSessionInfo): Introduction {
  return {
    key: hashOf(id),
    id: shortId(id),
    client: cut(clientInfo.name),
    version: cut(clientInfo.version),
    principal: principal === undefined ? null : cut(principal),
    revision: cut(protocolVersion),
  };
}

/** Returns the size of a log. A custom store may throw, which would end the process in a timer. */
function sizeIn(store: McpEventStore, sessionId: string): number {
  try {
    return store.sizeOf?.(sessionId) ?? -1;
  } catch {
    return -1;
  }
}

/** Tells whether an operator can cancel a call. A listen has no exchange that an error could end. */
function isCancellable({ call }: RunningCall): boolean {
  return call.exchange !== undefined;
}

/**
 * Identifies a session on all nodes without its id, because a caller that knows the id of an anonymous session can use
 * it.
 */
function hashOf(id: string): string {
  return createHash('sha256').update(`live page ${id}`).digest('base64url').slice(0, 16);
}

function byKey<R extends { readonly key: string }>(rows: readonly R[]): Map<string, Row> {
  return new Map(rows.map((row) => [row.key, row as R & Row]));
}
