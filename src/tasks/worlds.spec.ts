import { type Observable, NEVER } from 'rxjs';
import { expect, it } from 'vitest';
import { type Fate, LossyBus, NodeBackend } from '../../test/support/node-backend.js';
import { share, seededRandom } from '../../test/support/share.js';
import { InMemoryMessageBus, InMemoryMessageHub } from '../core/nodes/in-memory-message-bus.js';
import { McpCall, type OutboundMessage } from '../core/calls/mcp-call.js';
import type { McpContext } from '../core/calls/mcp-context.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { DivertedCalls } from '../core/calls/diverted-calls.js';
import type { McpRun } from '../core/plugins/mcp-plugin.js';
import { PluginRound, PluginRun } from '../core/plugins/run-hooks.js';
import { BusNodes } from '../core/nodes/bus-nodes.js';
import { DeadNodes } from '../core/nodes/dead-nodes.js';
import { ManualClock } from '../testing/index.js';
import { EndpointTasks } from './endpoint-tasks.js';
import { InMemoryTaskStore } from './in-memory-task-store.js';
import type { McpStoredTask, McpTaskStore } from '../stores/task-store.js';
import { resolveTasksOptions } from './tasks.options.js';
import type { ToolTask } from './tool-task.js';

/** More than a tick. */
const ROUND_MS = 6_000;
const RETRY = { firstDelayMs: 100, maxDelayMs: 5_000, giveUpAfterMs: 30_000 };
const TTL_MS = 10_000_000;
const STEPS = 70;
const FAULTY = ['create', 'get', 'patch', 'ask', 'answer', 'delete', 'active'] as const;
const ENDED = ['completed', 'failed', 'cancelled'];

/** Describes what the handler of a task does, and what came of it. */
interface Work {
  readonly name: string;
  readonly task: ToolTask;
  /** Counts how often its handler has begun. */
  runs: number;
  aborted: boolean;
  /** The handler has returned or thrown this. */
  said?: string;
  /** The client's answers, as the handler got them. */
  readonly got: string[];
  /** The client has received this. */
  id?: string;
  outcome?: 'task' | 'ordinary' | 'refused';
  readonly call: McpCall;
  node: Node;
}

interface Node {
  readonly name: string;
  readonly backend: NodeBackend;
  readonly bus: LossyBus;
  readonly tasks: EndpointTasks;
  readonly deadNodes: DeadNodes;
  is: 'alive' | 'dead' | 'stopped';
}

/**
 * A few nodes that share a store, and clients that begin tasks, ask for them, answer and cancel, while stores are away or lose answers,
 * messages are lost, late or doubled, nodes are killed or stop. Everything is decided by the seed, in fake time.
 */
class World {
  readonly wrong: string[] = [];
  readonly trace: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #clock = new ManualClock();
  readonly #hub = new InMemoryMessageHub();
  readonly #random: () => number;
  readonly #store: McpTaskStore;
  readonly #nodes: Node[] = [];
  readonly #works: Work[] = [];
  /** Counts how often a task has ended in the store. */
  readonly #ends = new Map<string, string[]>();
  readonly #stored = new Set<string>();
  /** The end that a reader has seen. */
  readonly #seen = new Map<string, string>();
  readonly #watched: { readonly node: Node; readonly id: string; readonly heard: string[]; leave(): void }[] = [];

  constructor(readonly seed: number) {
    this.#random = seededRandom(seed);
    const store = new InMemoryTaskStore(this.#clock);
    const patch = store.patch.bind(store);
    store.patch = async (id, expected, change) => {
      const changed = await patch(id, expected, change);
      if (changed && ENDED.includes(change.status ?? '')) {
        this.#ends.set(id, [...(this.#ends.get(id) ?? []), change.status!]);
      }
      return changed;
    };
    const create = store.create.bind(store);
    store.create = async (task, ...more) => {
      const outcome = await create(task, ...more);
      if (outcome === 'created') this.#stored.add(task.id);
      return outcome;
    };
    this.#store = store;
    for (let n = 0, of = this.#int(2, 4); n < of; n++) this.#nodes.push(this.#node(`n${n}`));
  }

  async run(): Promise<this> {
    for (let step = 0; step < STEPS; step++) await this.#step();
    await this.#end();
    return this;
  }

  #node(name: string): Node {
    const backend = new NodeBackend();
    const bus = new LossyBus(new InMemoryMessageBus(undefined, this.#hub));
    const options = resolveTasksOptions({ ttlMs: TTL_MS, maxTasks: 15 });
    const tasks = new EndpointTasks(
      backend.over(this.#store),
      { clock: this.#clock, nodes: BusNodes.over(bus), storeFault: () => {} },
      options,
      { permits: () => Promise.resolve(true) },
    );
    tasks.report = () => {};
    const runtime = { store: { scope: 'node' }, clock: this.#clock, retry: RETRY, storeFault: () => {} };
    const deadNodes = new DeadNodes(bus, runtime as never, {} as never, tasks);
    return { name, backend, bus, tasks, deadNodes, is: 'alive' };
  }

  // ---- what happens ----------------------------------------------------------------------------------------------

  async #step(): Promise<void> {
    const alive = this.#nodes.filter(({ is }) => is === 'alive');
    const node = this.#one(alive);
    const work = this.#works.length > 0 ? this.#one(this.#works) : undefined;
    const steps: [weight: number, name: string, () => unknown][] = [
      [6, 'begin', () => this.#begin(node)],
      [6, 'poll', () => work?.id && this.#poll(node, work.id)],
      [6, 'answer', () => work?.id && this.#answer(node, work.id)],
      [2, 'cancel', () => work?.id && this.#quietly(node.tasks.cancel(work.id))],
      [2, 'leave', () => work && !work.outcome && work.call.cancelled(new Error('gone'))],
      [3, 'watch', () => work?.id && this.#watch(node, work.id)],
      [2, 'away', () => node.backend.away()],
      [2, 'pause', () => node.backend.pause()],
      [2, 'refuse', () => node.backend.refuse(this.#one(FAULTY))],
      [2, 'lose answers', () => node.backend.loseAnswers(this.#one(FAULTY))],
      [6, 'back', () => node.backend.back()],
      [3, 'bad bus', () => (node.bus.fate = () => this.#one<Fate>(['arrives', 'lost', 'doubled', 'late']))],
      [2, 'late', () => node.bus.deliverLate()],
      [2, 'reconnect', () => node.bus.reconnect()],
      [1, 'kill', () => alive.length > 1 && this.#kill(node)],
      [1, 'stop', () => alive.length > 1 && this.#stop(node)],
      [8, 'time', () => this.#clock.advance(this.#int(0, 3_000))],
    ];
    let at = this.#random() * steps.reduce((sum, [weight]) => sum + weight, 0);
    const [, name, happen] = steps.find(([weight]) => (at -= weight) < 0)!;
    this.trace.push(`${name} ${node.name} ${work?.name ?? ''}`);
    this.#count(name);
    void happen();
    if (this.#random() < 0.7) await turn();
  }

  #begin(node: Node): void {
    const name = `w${this.#works.length}`;
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } } as const;
    const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
    const client = { identity: () => ({ protocolVersion: '2026-07-28', capabilities, clientInfo: {} }) };
    const call = new McpCall({ era: 'modern', principal: undefined, request: {} }, message, client as never);
    const afterMs = this.#one([0, 0, 500, Infinity]);
    const work: Work = {
      name,
      task: { support: 'optional', afterMs, ttlMs: undefined, pollIntervalMs: undefined },
      runs: 0,
      aborted: false,
      got: [],
      call,
      node,
    };
    this.#works.push(work);
    const script = Array.from({ length: this.#int(0, 4) }, () =>
      this.#one(['wait', 'wait', 'update', 'ask', 'ask two', 'start']),
    );
    const end = this.#one(['return', 'return', 'throw', 'throw secretly']);
    const target = {
      kind: 'tool',
      key: name,
      origin: name,
      metadata: [],
      option: () => work.task,
    } satisfies McpHandlerTarget;
    const diverted = new DivertedCalls();
    const aroundRounds = [(of: McpRun) => node.tasks.handler(target)!.run!(of)];
    const hooked = { target, aroundRounds, inRounds: [], inResults: [], diverted };
    const asking = { isMarked: false, takeRequestState: () => undefined, ask: async () => ({}) };
    const run = new PluginRun(hooked, call, {}, asking, async () => {});
    const round = new PluginRound(run);
    const served = run.serve(() => round.serve(() => this.#handle(work, round, script, end)));
    Promise.resolve(served).then(
      (result) => {
        const { resultType, taskId } = result as { resultType?: string; taskId?: string };
        if (call.state === 'cancelled') return;
        call.answered();
        work.outcome = resultType === 'task' ? 'task' : 'ordinary';
        if (taskId !== undefined) work.id = taskId;
        if (resultType === 'task' && !this.#stored.has(taskId!))
          this.wrong.push(`${work.name}: answered before it is stored`);
      },
      () => (work.outcome = 'refused'),
    );
  }

  async #handle(work: Work, round: PluginRound, script: readonly string[], end: string): Promise<object> {
    await round.enter({ validArguments: {}, context: {} as McpContext });
    const { call } = work;
    const port = call.taskPort!;
    work.runs++;
    work.call.signal.addEventListener('abort', () => (work.aborted = true));
    let asked = 0;
    for (const step of script) {
      if (work.call.aborted) throw new Error('aborted');
      if (step === 'wait') await this.#wait(work);
      else if (step === 'start') await port.start().catch(() => {});
      else if (!port.task) continue;
      else if (step === 'update') port.task.update(`step ${asked}`);
      else {
        const keys = step === 'ask' ? [`q${asked++}`] : [`q${asked++}`, `q${asked++}`];
        const question = { method: 'roots/list' } as const;
        const answers = await Promise.all(
          keys.map((key) => call.ask(question, {}, { key, embedded: question, accept: () => ({}) })),
        );
        work.got.push(...answers.map((answer) => (answer as { said: string }).said));
      }
    }
    work.said = end === 'return' ? `done ${work.got.join()}` : end;
    if (end === 'throw') throw Object.assign(new Error('thrown'), { code: -32001 });
    if (end === 'throw secretly') throw new Error('secret');
    return { content: [{ type: 'text', text: work.said }] };
  }

  /** Waits like a handler that minds its signal. */
  #wait({ call }: Work): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimeout(resolve, this.#int(10, 4_000));
      call.signal.addEventListener('abort', () => {
        this.#clock.clear(timer);
        reject(new Error('aborted'));
      });
    });
  }

  async #poll(node: Node, id: string): Promise<void> {
    const task = await node.tasks.find(id).catch((): 'away' => 'away');
    if (task === 'away') return;
    if (!task) return void this.wrong.push(`${id}: lost`);
    this.#look(task);
  }

  #look(task: McpStoredTask): void {
    if (!ENDED.includes(task.status)) {
      if (this.#seen.has(task.id)) this.wrong.push(`${task.id}: ${task.status} after its end`);
      return;
    }
    const end = JSON.stringify([task.status, task.result, task.error]);
    const before = this.#seen.get(task.id);
    if (before !== undefined && before !== end) this.wrong.push(`${task.id}: two ends, ${before} and ${end}`);
    this.#seen.set(task.id, end);
  }

  async #answer(node: Node, id: string): Promise<void> {
    const task = await node.tasks.find(id).catch(() => undefined);
    const keys = Object.keys(task?.questions ?? {}).filter(() => this.#random() < 0.7);
    const answers = Object.fromEntries(keys.map((key) => [key, { said: `${key} by ${node.name}` }]));
    await this.#quietly(node.tasks.answer(id, answers));
  }

  #watch(node: Node, id: string): void {
    const heard: string[] = [];
    const flow = { paused: false, resumed$: NEVER };
    const news$: Observable<OutboundMessage> = node.tasks.watch([id], flow);
    const hearing = news$.subscribe(({ params }) => heard.push(String(params?.['status'])));
    this.#watched.push({ node, id, heard, leave: () => hearing.unsubscribe() });
  }

  #kill(node: Node): void {
    node.is = 'dead';
    node.backend.die();
    this.#hub.kill(node.bus.nodeId);
    this.#claimAgain();
    // Its process is gone, and its clients with it.
    for (const work of this.#works) if (work.node === node && !work.outcome) work.call.cancelled(new Error('killed'));
  }

  #stop(node: Node): void {
    node.is = 'stopped';
    const limitMs = this.#int(0, 2_000);
    void (async () => {
      await node.tasks.drain(limitMs);
      node.tasks.close();
      await node.bus.close();
      this.#claimAgain();
    })();
  }

  /**
   * Acts like buses: a dead node is claimed again when the node that claimed it ends, and a node that leaves tasks
   * behind counts as dead.
   */
  #claimAgain(): void {
    const heirs = this.#nodes.filter(({ is }) => is === 'alive');
    for (const { is, bus } of this.#nodes) if (is !== 'alive') this.#one(heirs).bus.mourn(bus.nodeId);
  }

  // ---- the end ---------------------------------------------------------------------------------------------------

  async #end(): Promise<void> {
    const alive = this.#nodes.filter(({ is }) => is === 'alive');
    for (const { backend, bus } of this.#nodes) {
      backend.back();
      bus.heal();
    }
    const [node] = alive as [Node];
    // Each client that is asked something answers; everything else comes to its end by itself.
    for (let round = 0; round < 12; round++) {
      await this.#clock.advance(ROUND_MS);
      for (const { id } of this.#works) if (id !== undefined) await this.#answerAll(this.#one(alive), id);
    }
    for (const work of this.#works) await this.#judge(work, node);
    // Also tasks that no client knows of, and those of nodes that are gone.
    for (const { id, status } of await this.#store.list()) {
      if (!ENDED.includes(status)) this.wrong.push(`${id}: ${status} for ever`);
    }
    for (const { node: at, id, heard, leave } of this.#watched) {
      const end = (await this.#store.get(id))?.status;
      if (at.is === 'alive' && heard.at(-1) !== end) this.wrong.push(`${id}: heard ${heard.join()}, and it is ${end}`);
      if (heard.filter((status) => ENDED.includes(status)).length > 1) this.wrong.push(`${id}: heard of two ends`);
      leave();
    }
    await this.#closed();
  }

  async #answerAll(node: Node, id: string): Promise<void> {
    const task = await node.tasks.find(id);
    if (!task) return void this.wrong.push(`${id}: lost`);
    this.#look(task);
    const keys = Object.keys(task.questions);
    if (keys.length > 0) await node.tasks.answer(id, Object.fromEntries(keys.map((key) => [key, { said: key }])));
  }

  async #judge(work: Work, node: Node): Promise<void> {
    const { name, id, runs, outcome, got } = work;
    this.#count(`calls ${outcome ?? 'given up'}`);
    const of = (text: string): void => void this.wrong.push(`${name} (${id ?? outcome}): ${text}`);
    if (runs > 1) of(`ran ${runs} times`);
    if (id === undefined) return;
    const task = await node.tasks.find(id);
    if (!task) return of('lost');
    this.#look(task);
    this.#count(task.status);
    const ends = this.#ends.get(id) ?? [];
    if (ends.length !== 1) of(`ended ${ends.length} times: ${ends.join()}`);
    const { content } = (task.result ?? {}) as { content?: { text: string }[] };
    const text = content?.[0]?.text;
    if (task.status === 'completed' && text !== `done ${got.join()}`) of(`has another result: ${text}`);
    if (new Set(got.map((said) => said.split(' ')[0])).size !== got.length) of(`got an answer twice: ${got.join()}`);
    if (
      task.status === 'cancelled' &&
      work.node.is === 'alive' &&
      !work.aborted &&
      work.said === undefined &&
      runs > 0
    ) {
      of('was cancelled, and not aborted');
    }
  }

  /** Nothing is left, of nodes that were killed either. */
  async #closed(): Promise<void> {
    const closing = Promise.all(this.#nodes.map(({ tasks, bus }) => tasks.drain(0).then(() => bus.close())));
    await this.#clock.advance(5_000);
    await closing;
    for (const { tasks } of this.#nodes) {
      tasks.close();
      if (tasks.running > 0) this.wrong.push(`${tasks.running} tasks run on`);
      if (tasks.watches > 0) this.wrong.push(`${tasks.watches} watches are left`);
    }
    for (const { call } of this.#works) call.cancelled(new Error('over'));
    await this.#clock.advance(10_000);
    if (this.#clock.pending > 0) this.wrong.push(`${this.#clock.pending} timers are left`);
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  // ---- chance ----------------------------------------------------------------------------------------------------

  #int(from: number, to: number): number {
    return from + Math.floor(this.#random() * (to - from + 1));
  }

  #one<T>(of: readonly T[]): T {
    return of[Math.floor(this.#random() * of.length)]!;
  }

  async #quietly(promise: Promise<unknown>): Promise<void> {
    await promise.catch(() => {});
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** More worlds: `WORLDS=3000`; one of them again: `SEED=<its seed> WORLDS=1`, then with what happened. */
const WORLDS = share(300, process.env['WORLDS']);
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));

it(`in ${WORLDS} worlds of faults no task is lost, none has two ends, and none works for ever`, async () => {
  const counts: Record<string, number> = {};
  const failed: string[] = [];
  for (let seed = SEED; seed < SEED + WORLDS; seed++) {
    const world = await new World(seed).run();
    for (const [name, count] of Object.entries(world.counts)) counts[name] = (counts[name] ?? 0) + count;
    if (world.wrong.length === 0) continue;
    const trace = WORLDS === 1 ? world.trace : [];
    failed.push(
      `SEED=${seed} WORLDS=1 npx vitest run src/tasks/worlds.spec.ts\n  ${[...world.wrong, ...trace].join('\n  ')}`,
    );
  }
  const figures = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  process.stdout.write(`${WORLDS} worlds of tasks from seed ${SEED}: ${figures.join(', ')}\n`);
  expect(failed.join('\n')).toBe('');
});
