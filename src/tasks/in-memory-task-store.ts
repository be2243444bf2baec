import { systemClock, type McpClock } from '../common/clock.js';
import {
  ACTIVE,
  hasEnded,
  type McpStoredTask,
  type McpTaskInfo,
  type McpTaskStatus,
  type McpTaskStore,
  type McpNewTask,
  type McpTaskChange,
  type McpTaskLease,
  type McpTaskLimits,
} from './task-store.js';

/** Maximum number of lost tasks that one renewal returns. */
const MAX_LOST = 100;

/**
 * # Tasks in the memory of this process
 *
 * There is no timer: an expired task is not found, and is removed when a task is created or listed, or a lease is renewed.
 * Values are kept as JSON, so that callers share no object with the store.
 *
 * Invariant: `#leases` has every node with a task that has not ended.
 *
 * @publicApi
 */
export class InMemoryTaskStore implements McpTaskStore {
  readonly scope = 'node';
  readonly #tasks = new Map<string, Entry>();
  /** When the lease of a node ends. */
  readonly #leases = new Map<string, number>();

  constructor(private readonly clock: McpClock = systemClock) {}

  /** How many tasks there are. */
  get size(): number {
    this.#expire();
    return this.#tasks.size;
  }

  async create(
    task: McpNewTask,
    { total, perPrincipal }: McpTaskLimits,
    leaseMs: number,
  ): Promise<'created' | 'total-cap' | 'principal-cap'> {
    const now = this.#expire();
    if (this.#tasks.size >= total) return 'total-cap';
    if (perPrincipal !== Infinity && this.#countOf(task.principal) >= perPrincipal) return 'principal-cap';
    const info: McpTaskInfo = { ...task, status: 'working', lastUpdatedAt: task.createdAt };
    const [questions, answers] = [new Map<string, string>(), new Map<string, string>()];
    this.#tasks.set(task.id, { info, outcome: '{}', questions, answers, expiresAt: now + task.ttlMs });
    this.#leases.set(task.node, Math.max(this.#leases.get(task.node) ?? 0, now + leaseMs));
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
      lost: this.#isLost(info, this.clock.now()),
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
    return this.#current(id) !== undefined && this.#tasks.delete(id);
  }

  async renew(node: string, leaseMs: number): Promise<McpTaskLease> {
    const now = this.#expire();
    this.#leases.set(node, now + leaseMs);
    const infos = Array.from(this.#tasks.values(), ({ info }) => info).filter(({ status }) => ACTIVE.includes(status));
    const nodes = new Set(infos.map((info) => info.node));
    for (const [other, until] of this.#leases) if (until <= now && !nodes.has(other)) this.#leases.delete(other);
    const active = infos.filter((info) => info.node === node);
    const lost = infos.filter((info) => info.node !== node && this.#isLost(info, now));
    return { active: active.map(({ id }) => id), lost: lost.slice(0, MAX_LOST).map(({ id }) => id) };
  }

  async list({ principal }: { principal?: string | null } = {}): Promise<McpTaskInfo[]> {
    this.#expire();
    const infos = Array.from(this.#tasks.values(), ({ info }) => ({ ...info }));
    return principal === undefined ? infos : infos.filter((info) => info.principal === (principal ?? undefined));
  }

  #isLost({ node, status }: McpTaskInfo, now: number): boolean {
    return !hasEnded(status) && (this.#leases.get(node) ?? 0) <= now;
  }

  #countOf(principal: string | undefined): number {
    let count = 0;
    for (const { info } of this.#tasks.values()) if (info.principal === principal) count++;
    return count;
  }

  #current(id: string): Entry | undefined {
    const entry = this.#tasks.get(id);
    return entry && entry.expiresAt > this.clock.now() ? entry : undefined;
  }

  /** @returns the time */
  #expire(): number {
    const now = this.clock.now();
    for (const [id, { expiresAt }] of this.#tasks) if (expiresAt <= now) this.#tasks.delete(id);
    return now;
  }
}

interface Entry {
  info: McpTaskInfo;
  /** JSON of an {@link Outcome}: it may be large. */
  outcome: string;
  /** JSON, by key. */
  readonly questions: Map<string, string>;
  readonly answers: Map<string, string>;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

type Outcome = Pick<McpStoredTask, 'result' | 'error'>;

/** `Object.fromEntries` defines properties, also for a key such as `__proto__`. */
function parsed(values: ReadonlyMap<string, string>): Record<string, unknown> {
  return Object.fromEntries(Array.from(values, ([key, json]) => [key, JSON.parse(json) as unknown]));
}
