import type {
  McpStoredTask,
  McpTaskInfo,
  McpTaskStatus,
  McpTaskStore,
  McpNewTask,
  McpTaskChange,
  McpTaskLimits,
  McpTaskOutcome,
} from '../../stores/task-store.js';
import type { RedisConnection, RedisScript } from '../connection/redis-connection.js';
import { encoded } from '../redis-keys.js';
import * as scripts from './task.scripts.js';

/**
 * # Tasks in Redis
 *
 * All keys are in one slot, so that one script checks the limits. task.scripts.ts lists the keys.
 *
 * @publicApi
 */
export class RedisTaskStore implements McpTaskStore {
  readonly scope = 'shared';

  /** @param known resolves when this node has sent a heartbeat: without one, no other node would find it dead and end its tasks */
  constructor(
    private readonly connection: RedisConnection,
    private readonly known: () => Promise<void>,
  ) {}

  async create(
    task: McpNewTask,
    { total, perPrincipal, perAddress = Infinity }: McpTaskLimits,
  ): Promise<McpTaskOutcome> {
    await this.known();
    const { id, principal, address, node, ttlMs, createdAt } = task;
    const caps = [total, perPrincipal, perAddress].map((cap) => (Number.isFinite(cap) ? cap : -1));
    const about = JSON.stringify(task);
    const where = [id, ownerOf(principal), encoded(node)];
    const outcome = await this.#run(scripts.create, ...where, ttlMs, ...caps, about, createdAt, address ?? '');
    return outcome as McpTaskOutcome;
  }

  async get(id: string): Promise<McpStoredTask | undefined> {
    const found = (await this.#run(scripts.get, encoded(id))) as string[];
    if (found.length === 0) return undefined;
    const fields = new Map<string, string>();
    for (let at = 0; at < found.length; at += 2) fields.set(found[at]!, found[at + 1]!);
    return {
      ...infoOf(['about', 'status', 'message', 'updated'].map((name) => fields.get(name) ?? null)),
      ...(JSON.parse(fields.get('outcome') ?? '{}') as Pick<McpStoredTask, 'result' | 'error'>),
      questions: valuesOf(fields, 'q'),
      answers: valuesOf(fields, 'a') as Record<string, object>,
    };
  }

  async patch(id: string, expected: readonly McpTaskStatus[], change: McpTaskChange): Promise<boolean> {
    const { status, statusMessage, result, error, lastUpdatedAt } = change;
    const fields = ['updated', lastUpdatedAt];
    if (status !== undefined) fields.push('status', status);
    if (statusMessage !== undefined) fields.push('message', statusMessage);
    if (result !== undefined || error !== undefined) fields.push('outcome', JSON.stringify({ result, error }));
    return (await this.#run(scripts.patch, encoded(id), `,${expected.join(',')},`, ...fields)) === 1;
  }

  async ask(id: string, questions: Readonly<Record<string, unknown>>, at: number): Promise<boolean> {
    const pairs = Object.entries(questions).flatMap(([key, question]) => [codeOf(key), JSON.stringify(question)]);
    return (await this.#run(scripts.ask, encoded(id), at, ...pairs)) === 1;
  }

  async answer(id: string, answers: Readonly<Record<string, object>>, at: number): Promise<string[]> {
    const pairs = Object.entries(answers).flatMap(([key, answer]) => [codeOf(key), JSON.stringify(answer)]);
    const taken = (await this.#run(scripts.answer, encoded(id), at, ...pairs)) as string[];
    return taken.map(keyOf);
  }

  async delete(id: string): Promise<boolean> {
    return (await this.#run(scripts.remove, encoded(id))) === 1;
  }

  async active(node: string): Promise<string[]> {
    return (await this.#run(scripts.active, encoded(node))) as string[];
  }

  async list({ principal }: { principal?: string | null } = {}): Promise<McpTaskInfo[]> {
    const whose = principal === undefined ? 'ids' : `of:${ownerOf(principal ?? undefined)}`;
    const found = (await this.#run(scripts.list, whose)) as (string | null)[][];
    return found.map(infoOf).toSorted((a, b) => a.createdAt - b.createdAt);
  }

  #run(script: RedisScript, ...args: (string | number)[]): Promise<unknown> {
    return this.connection.run(script, this.connection.keys.tasks, ...args);
  }
}

/** Returns the code of an owner. The anonymous caller has a code that no principal has. */
function ownerOf(principal: string | undefined): string {
  return principal === undefined ? '' : `=${encoded(principal)}`;
}

/** Returns a key as the name of a field. JSON escapes lone surrogates, which cannot be UTF-8. */
function codeOf(key: string): string {
  return JSON.stringify(key);
}

function keyOf(code: string): string {
  return JSON.parse(code) as string;
}

function infoOf([about, status, statusMessage, updated]: (string | null)[]): McpTaskInfo {
  return {
    ...(JSON.parse(about!) as McpNewTask),
    // JSON leaves out undefined values.
    principal: (JSON.parse(about!) as McpNewTask).principal,
    status: status as McpTaskStatus,
    ...(statusMessage !== null && { statusMessage: statusMessage! }),
    lastUpdatedAt: Number(updated),
  };
}

/** `Object.fromEntries` defines properties, also for a key such as `__proto__`. */
function valuesOf(fields: ReadonlyMap<string, string>, kind: 'q' | 'a'): Record<string, unknown> {
  const entries = [...fields].filter(([name]) => name.startsWith(`${kind}:`));
  return Object.fromEntries(entries.map(([name, json]) => [keyOf(name.slice(2)), JSON.parse(json) as unknown]));
}
