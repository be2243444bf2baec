import { shown } from '../protocol/errors.js';
import type { Question } from './question.js';

/**
 * Remembers the results of the runs of a handler before this one.
 *
 * - `sealed`: answers of earlier rounds, as they came back in the state. They take precedence over answers in this
 *   request, because the handler may have acted on them
 * - `given`: answers in this request. Of these only what was asked for is remembered, now or in an earlier round
 * - what `ctx.once()` has done
 * - how often the client has repeated the request without a valid answer
 * - the handler's own state, for handlers that return `inputRequired()` themselves
 *
 * They are stored in lists and maps, not in objects, because clients can send any key.
 */
export class RunMemory {
  readonly once: OnceResults;
  /** The handler's own state of the round before. */
  readonly own: string | undefined;
  readonly #sealed: Map<string, unknown>;
  readonly #given: Map<string, unknown>;
  readonly #wanted: Set<string>;
  /** How often the client had repeated the request in vain before this run. */
  readonly #vain: number;
  /** Whether a question waits for an answer in this request. */
  readonly #waits: boolean;
  #accepted = false;

  /** Creates the memory of a first run. @param given `inputResponses` of the request */
  static fresh(given: object | undefined): RunMemory {
    return new RunMemory({ answers: [], wanted: [], once: [] }, given);
  }

  /** Restores the memory of the run before. @param payload as {@link toPayload} made it */
  static revive(payload: string, given: object | undefined): RunMemory {
    return new RunMemory(JSON.parse(payload) as Payload, given);
  }

  private constructor({ answers, wanted, once, own, vain = 0 }: Payload, given: object = {}) {
    this.#sealed = new Map(answers);
    this.#given = new Map(Object.entries(given));
    this.#wanted = new Set(wanted);
    this.#vain = vain;
    this.#waits = wanted.some((key) => !this.#sealed.has(key));
    this.once = new OnceResults(once.map(([key, value]) => [key, textOf(value)] as const));
    this.own = own;
  }

  /** Returns the client's answer to a question. @returns `undefined` when the client has sent no valid answer */
  answerTo(question: Question): object | undefined {
    const { key } = question;
    this.#wanted.add(key);
    for (const answers of [this.#sealed, this.#given]) {
      const answer = answers.has(key) ? question.accept(answers.get(key)) : undefined;
      if (answer) {
        this.#accepted ||= answers === this.#given;
        return answer;
      }
      answers.delete(key);
    }
    return undefined;
  }

  /** Counts how often in a row the client has repeated the request without a valid answer, as far as this run knows. */
  get vain(): number {
    return this.#waits && !this.#accepted ? this.#vain + 1 : 0;
  }

  /** Adds an answer that is not from the request. */
  put(key: string, answer: unknown): void {
    this.#sealed.set(key, answer);
  }

  /** Returns the memory as text. @returns `undefined` when there is nothing to remember */
  toPayload(own: string | undefined): string | undefined {
    const given = [...this.#given].filter(([key]) => this.#wanted.has(key));
    const payload: Payload = {
      answers: [...new Map([...given, ...this.#sealed])],
      wanted: [...this.#wanted],
      once: this.once.entries().map(([key, text]) => (text === '' ? [key] : [key, JSON.parse(text)])),
      own,
      ...(this.vain > 0 && { vain: this.vain }),
    };
    const { wanted, once } = payload;
    return wanted.length + once.length > 0 || own !== undefined ? JSON.stringify(payload) : undefined;
  }
}

interface Payload {
  readonly answers: readonly (readonly [key: string, answer: unknown])[];
  /** Lists the keys of all questions that were asked. */
  readonly wanted: readonly string[];
  /** An entry without a value stands for `undefined`. */
  readonly once: readonly (readonly [key: string, value?: unknown])[];
  readonly own?: string | undefined;
  readonly vain?: number;
}

function textOf(value: unknown): JsonText {
  return value === undefined ? '' : JSON.stringify(value);
}

/**
 * Keeps the results of `ctx.once()`, by key.
 *
 *     absent ──run──▶ running ──returned──▶ kept
 *        ▲               │
 *        └────failed─────┘
 *
 * A result is kept as JSON text at once, and each caller gets a copy: a later run finds the same value, also when the handler
 * has changed its copy.
 */
export class OnceResults {
  readonly #kept: Map<string, JsonText>;
  readonly #running = new Map<string, Promise<JsonText>>();

  constructor(kept: Iterable<readonly [string, JsonText]> = []) {
    this.#kept = new Map(kept);
  }

  /**
   * Runs `fn`, or returns its earlier result.
   *
   * @throws what `fn` throws; TypeError when its result is not JSON. Then the next call runs it again
   */
  async run(key: string, fn: () => unknown): Promise<unknown> {
    if (typeof key !== 'string') throw new TypeError(`${shown(key)} cannot be the key of ctx.once(): use a string.`);
    const kept = this.#kept.get(key);
    return parsed(kept ?? (await this.#begin(key, fn)));
  }

  /** Resolves when no function is running. Never rejects. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running.values());
  }

  /** Returns the results, to be sealed. */
  entries(): [string, JsonText][] {
    return [...this.#kept];
  }

  #begin(key: string, fn: () => unknown): Promise<JsonText> {
    let running = this.#running.get(key);
    if (!running) {
      // The function runs one turn later, so that it is registered before it can end.
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

/** `''` stands for `undefined`: a function that is called for its effect returns nothing. */
export type JsonText = string;

function toJson(key: string, value: unknown): JsonText {
  if (value === undefined) return '';
  assertJson(
    value,
    (where) =>
      new TypeError(
        `The result of ctx.once("${key}") cannot be kept: ${where} is not JSON. Return strings, numbers, booleans, null, arrays and plain objects; a date, for example, as its toISOString().`,
      ),
    'it',
    [],
  );
  return JSON.stringify(value);
}

function parsed(text: JsonText): unknown {
  return text === '' ? undefined : JSON.parse(text);
}

/** Refuses a value that JSON would change or drop: the next run would find another one. */
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
