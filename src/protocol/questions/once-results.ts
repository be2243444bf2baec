import { questionMessages } from './questions.messages.js';

/**
 * What `ctx.once()` has done, by key.
 *
 *     absent ──run──▶ running ──returned──▶ kept
 *        ▲               │
 *        └────failed─────┘
 *
 * A result is kept as JSON text from the moment it is there, and everybody gets a copy: what a later run finds is what this
 * one had, whatever the handler does to it.
 */
export class OnceResults {
  readonly #kept: Map<string, JsonText>;
  readonly #running = new Map<string, Promise<JsonText>>();

  constructor(kept: Iterable<readonly [string, JsonText]> = []) {
    this.#kept = new Map(kept);
  }

  /** @throws what `fn` throws; TypeError when its result is not JSON. Then the next call runs it again */
  async run(key: string, fn: () => unknown): Promise<unknown> {
    if (typeof key !== 'string') throw new TypeError(questionMessages.badOnceKey(key));
    const kept = this.#kept.get(key);
    return parsed(kept === undefined ? await this.#begin(key, fn) : kept);
  }

  /** Settles when none is running. Never rejects. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running.values());
  }

  /** What is there to be kept. */
  entries(): [string, JsonText][] {
    return [...this.#kept];
  }

  #begin(key: string, fn: () => unknown): Promise<JsonText> {
    let running = this.#running.get(key);
    if (!running) {
      running = this.#finish(key, fn);
      this.#running.set(key, running);
    }
    return running;
  }

  async #finish(key: string, fn: () => unknown): Promise<JsonText> {
    try {
      // In a turn of its own, so that it is known to run before it can be over.
      await undefined;
      const text = toJson(key, await fn());
      this.#kept.set(key, text);
      return text;
    } finally {
      this.#running.delete(key);
    }
  }
}

/** `''` stands for `undefined`: what is done for its effect returns nothing. */
export type JsonText = string;

function toJson(key: string, value: unknown): JsonText {
  if (value === undefined) return '';
  assertJson(value, (where) => new TypeError(questionMessages.notJson(key, where)), 'it', []);
  return JSON.stringify(value);
}

function parsed(text: JsonText): unknown {
  return text === '' ? undefined : JSON.parse(text);
}

/** What would come back as something else, or not at all, is an error now, and not a riddle in the next run. */
function assertJson(value: unknown, fault: (where: string) => Error, where: string, above: readonly unknown[]): void {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return;
  if (typeof value === 'number' && Number.isFinite(value)) return;
  if (typeof value !== 'object' || above.includes(value)) throw fault(where);
  const inside = [...above, value];
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) assertJson(item, fault, `${where}[${index}]`, inside);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if ((prototype !== null && prototype !== Object.prototype) || 'toJSON' in value) throw fault(where);
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined) assertJson(member, fault, `${where}.${name}`, inside);
  }
}
