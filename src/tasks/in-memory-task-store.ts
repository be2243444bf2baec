import { systemClock, type McpClock } from '../core/common/clock.js';
import {
  hasEnded,
  type McpStoredTask,
  type McpTaskInfo,
  type McpTaskStatus,
  type McpTaskStore,
  type McpNewTask,
  type McpTaskChange,
  type McpTaskLimits,
  type McpTaskOutcome,
} from '../stores/task-store.js';

/**
 * # Tasks in the memory of this process
 *
 * There is no timer: an expired task is not found, and is removed when a task is created, or tasks are listed. Values are kept as
 * JSON, so that callers share no object with the store.
 *
 * Invariant: `#active` has the tasks of `#tasks` that have not ended, by their nodes.
 *
 * @publicApi
 */
export class InMemoryTaskStore implements McpTaskStore {
  readonly scope = 'node';
  readonly #tasks = new Map<string, Entry>();
  /** Maps a node to ids of tasks. */
  readonly #active = new Map<string, Set<string>>();

  constructor(private readonly clock: McpClock = systemClock) {}

  /** Counts the tasks. */
  get size(): number {
    this.#expire();
    return this.#tasks.size;
  }

  async create(
    task: McpNewTask,
    { total, perPrincipal, perAddress = Infinity }: McpTaskLimits,
  ): Promise<McpTaskOutcome> {
    const now = this.#expire();
    if (this.#tasks.size >= total) return 'total-cap';
    const { principal, address } = task;
    if (perPrincipal !== Infinity && this.#count((info) => info.principal === principal) >= perPrincipal)
      return 'principal-cap';
    if (address !== undefined && this.#count((info) => info.address === address) >= perAddress) return 'address-cap';
    const info: McpTaskInfo = { ...task, status: 'working', lastUpdatedAt: task.createdAt };
    const [questions, answers] = [new Map<string, string>(), new Map<string, string>()];
    this.#tasks.set(task.id, { info, outcome: '{}', questions, answers, expiresAt: now + task.ttlMs });
    const ofNode = this.#active.get(task.node) ?? new Set();
    this.#active.set(task.node, ofNode.add(task.id));
    return 'created';
  }

  async get(id: string): Promise<McpStoredTask | undefined> {
    const entry = this.#current(id);
    if (!entry) return undefined;
    const { info, outcome, questions, answers } = entry;
    return {
      ...info,
      ...(JSON.parse(outcome) as Outcome),
      questions: parsed(questions),
      answers: parsed(answers) as Record<string, object>,
    };
  }

  async patch(id: string, expected: readonly McpTaskStatus[], change: McpTaskChange): Promise<boolean> {
    const entry = this.#current(id);
    if (!entry || !expected.includes(entry.info.status)) return false;
    const { result, error, ...info } = change;
    entry.info = { ...entry.info, ...info };
    if (result !== undefined || error !== undefined) entry.outcome = JSON.stringify({ result, error });
    if (hasEnded(entry.info.status)) {
      entry.questions.clear();
      entry.answers.clear();
      this.#deactivate(entry.info);
    }
    return true;
  }

  async ask(id: string, questions: Readonly<Record<string, unknown>>, at: number): Promise<boolean> {
    const entry = this.#current(id);
    if (!entry || hasEnded(entry.info.status)) return false;
    for (const [key, question] of Object.entries(questions)) {
      if (!entry.answers.has(key)) entry.questions.set(key, JSON.stringify(question));
    }
    const status = entry.questions.size > 0 ? 'input_required' : entry.info.status;
    entry.info = { ...entry.info, status, lastUpdatedAt: at };
    return true;
  }

  async answer(id: string, answers: Readonly<Record<string, object>>, at: number): Promise<string[]> {
    const entry = this.#current(id);
    const taken = Object.keys(answers).filter((key) => entry?.questions.delete(key));
    if (!entry || taken.length === 0) return [];
    for (const key of taken) entry.answers.set(key, JSON.stringify(answers[key]));
    const status = entry.questions.size > 0 ? 'input_required' : 'working';
    entry.info = { ...entry.info, status, lastUpdatedAt: at };
    return taken;
  }

  async delete(id: string): Promise<boolean> {
    const entry = this.#current(id);
    if (entry) this.#remove(entry.info);
    return entry !== undefined;
  }

  async active(node: string): Promise<string[]> {
    return Array.from(this.#active.get(node) ?? []).filter((id) => this.#current(id));
  }

  async list({ principal }: { principal?: string | null } = {}): Promise<McpTaskInfo[]> {
    this.#expire();
    const infos = Array.from(this.#tasks.values(), ({ info }) => ({ ...info }));
    return principal === undefined ? infos : infos.filter((info) => info.principal === (principal ?? undefined));
  }

  #count(counts: (info: McpTaskInfo) => boolean): number {
    let count = 0;
    for (const { info } of this.#tasks.values()) if (counts(info)) count++;
    return count;
  }

  #current(id: string): Entry | undefined {
    const entry = this.#tasks.get(id);
    return entry && entry.expiresAt > this.clock.now() ? entry : undefined;
  }

  /** Removes expired tasks. @returns the time */
  #expire(): number {
    const now = this.clock.now();
    for (const { info, expiresAt } of this.#tasks.values()) if (expiresAt <= now) this.#remove(info);
    return now;
  }

  #remove(info: McpTaskInfo): void {
    this.#tasks.delete(info.id);
    this.#deactivate(info);
  }

  #deactivate({ id, node }: McpTaskInfo): void {
    const ofNode = this.#active.get(node);
    if (ofNode?.delete(id) && ofNode.size === 0) this.#active.delete(node);
  }
}

interface Entry {
  info: McpTaskInfo;
  /** An {@link Outcome} as JSON: it may be large. */
  outcome: string;
  /** Maps keys to questions as JSON. */
  readonly questions: Map<string, string>;
  readonly answers: Map<string, string>;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

type Outcome = Pick<McpStoredTask, 'result' | 'error'>;

/** Parses values. `Object.fromEntries` defines properties, also for a key such as `__proto__`. */
function parsed(values: ReadonlyMap<string, string>): Record<string, unknown> {
  return Object.fromEntries(Array.from(values, ([key, json]) => [key, JSON.parse(json) as unknown]));
}
