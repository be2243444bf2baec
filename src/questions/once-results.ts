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
    return parsed(kept ?? (await this.#begin(key, fn)));
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
      // One turn later, so that it cannot be over before it is known to run.
      running = Promise.resolve()
        .then(fn)
        .then((value) => this.#keep(key, value))
        .finally(() => this.#running.delete(key));
      this.#running.set(key, running);
    }
    return running;
  }

  #keep(key: string, value: unknown): JsonText {
    const text = toJson(key, value);
    this.#kept.set(key, text);
    return text;
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
