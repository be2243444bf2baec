import { type JsonText, OnceResults } from './once-results.js';
import type { Question } from './question.js';

/**
 * What a run of a handler knows of the runs before it.
 *
 * - `sealed`: answers of earlier rounds, as they came back in the state. They win over what the client says now: what was
 *   done upon an answer stays true
 * - `given`: answers in this request. Of these only what was asked for is remembered, now or in an earlier round
 * - what `ctx.once()` has done
 * - the handler's own state, for handlers that return `inputRequired()` themselves
 *
 * Everything is a list or a map: keys are the handler's own, but also whatever a client sends.
 */
export class RunMemory {
  readonly once: OnceResults;
  /** The handler's own, of the round before. */
  readonly own: string | undefined;
  readonly #sealed: Map<string, unknown>;
  readonly #given: Map<string, unknown>;
  readonly #wanted: Set<string>;

  /** @param given `inputResponses` of the request */
  static fresh(given: object | undefined): RunMemory {
    return new RunMemory({ answers: [], wanted: [], once: [] }, given);
  }

  /** @param payload as {@link toPayload} made it */
  static revive(payload: string, given: object | undefined): RunMemory {
    return new RunMemory(JSON.parse(payload) as Payload, given);
  }

  private constructor({ answers, wanted, once, own }: Payload, given: object = {}) {
    this.#sealed = new Map(answers);
    this.#given = new Map(Object.entries(given));
    this.#wanted = new Set(wanted);
    this.once = new OnceResults(once.map(([key, value]) => [key, textOf(value)] as const));
    this.own = own;
  }

  /** @returns `undefined` when the client has not answered, or with something else than an answer */
  answerTo(question: Question): object | undefined {
    const { key } = question;
    this.#wanted.add(key);
    for (const answers of [this.#sealed, this.#given]) {
      const answer = answers.has(key) ? question.accept(answers.get(key)) : undefined;
      if (answer) return answer;
      answers.delete(key);
    }
    return undefined;
  }

  /** An answer that came by another way. */
  put(key: string, answer: unknown): void {
    this.#sealed.set(key, answer);
  }

  /** @returns `undefined` when there is nothing to remember */
  toPayload(own: string | undefined): string | undefined {
    const given = [...this.#given].filter(([key]) => this.#wanted.has(key));
    const payload: Payload = {
      answers: [...new Map([...given, ...this.#sealed])],
      wanted: [...this.#wanted],
      once: this.once.entries().map(([key, text]) => (text === '' ? [key] : [key, JSON.parse(text)])),
      own,
    };
    const { wanted, once } = payload;
    return wanted.length + once.length > 0 || own !== undefined ? JSON.stringify(payload) : undefined;
  }
}

interface Payload {
  readonly answers: readonly (readonly [key: string, answer: unknown])[];
  /** Keys of all questions that were asked. */
  readonly wanted: readonly string[];
  /** Without a value: it was `undefined`. */
  readonly once: readonly (readonly [key: string, value?: unknown])[];
  readonly own?: string | undefined;
}

function textOf(value: unknown): JsonText {
  return value === undefined ? '' : JSON.stringify(value);
}
