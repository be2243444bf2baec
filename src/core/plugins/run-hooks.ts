import { isThenable, type MaybePromise, promiseOf, quiet, settle } from '../common/promises.js';
import type { DivertedCalls } from '../calls/diverted-calls.js';
import { HandlerCancelled, HandlerSkipped } from '../calls/handler-signals.js';
import type { DivertedClient, McpCall } from '../calls/mcp-call.js';
import type { HandlerRound, McpEntering } from '../calls/mcp-context.js';
import type { McpQuestion } from '../calls/mcp-questions.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import { atOnce, safely } from './call-hooks.js';
import { DIVERTING } from './rings.js';
import type { McpHandlerHooks, McpRun, McpRunHooks, Passed } from './mcp-plugin.js';

type RunFactory = NonNullable<McpHandlerHooks['run']>;

/** What plugins do with the runs of one handler, by the place of their rings, outermost first. */
export interface HookedRuns {
  readonly target: McpHandlerTarget;
  readonly aroundRounds: readonly RunFactory[];
  readonly inRounds: readonly RunFactory[];
  readonly inResults: readonly RunFactory[];
  /** Where calls go that are diverted; absent: no plugin diverts calls of the handler. */
  readonly diverted?: Pick<DivertedCalls, 'add'> | undefined;
}

/** What the core does for the runs of plugins: what they ask the client, and what it sent. */
interface AskingRun extends Pick<McpRun, 'isMarked' | 'takeRequestState'> {
  ask(
    questions: Readonly<Record<string, McpQuestion>>,
    signal?: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>;
}

const NONE: readonly McpRunHooks[] = [];
/** Stands for the value of a handler, which plugins inside 'results' do not see. */
const TOKEN = {} as Passed;

/** A changed copy of a result, and the result that `next()` gave. */
const changedFrom = new WeakMap<object, object>();

/**
 * Marks a changed copy of a result, which `around` may then return in its place.
 *
 * @param result what `next()` gave to this run
 * @param changed the copy, in the form of the protocol: of a tool `{ content, structuredContent, … }`
 * @returns the copy, for `around` to return
 * @experimental
 */
export function passed(result: Passed, changed: object): Passed {
  changedFrom.set(changed, changedFrom.get(result) ?? result);
  return changed as Passed;
}

/** What the `next()` of a plugin runs, at most once. A plugin that does not await it must not end the process. */
class Inner<T> {
  running: Promise<Passed> | undefined;
  given: { readonly value: T } | undefined;
  #failed: { readonly error: unknown } | undefined;

  constructor(
    private readonly run: () => MaybePromise<T>,
    /** The plugin gets this instead of the value. */
    private readonly token?: Passed,
  ) {}

  readonly next = (): Promise<Passed> => (this.running ??= quiet(promiseOf(this.run).then(this.#give, this.#fail)));

  /** Returns whether an error is that of what was run. */
  threw(error: unknown): boolean {
    return this.#failed !== undefined && this.#failed.error === error;
  }

  readonly #give = (value: T): Passed => {
    this.given = { value };
    return this.token ?? (value as Passed);
  };

  readonly #fail = (error: unknown): never => {
    this.#failed = { error };
    throw error;
  };
}

/** One run of a handler, inside the rings around its rounds. */
export class PluginRun implements McpRun {
  readonly target: McpHandlerTarget;
  readonly hooks: readonly McpRunHooks[];
  /** What it has answered; a call has few answers. */
  #answers: object[] | undefined;
  /** Answers the call with a handle. */
  #divert: ((handle: never) => void) | undefined;
  #refusal: Promise<unknown> | undefined;
  #state: 'guarded' | 'admitted' | 'over' = 'guarded';

  constructor(
    readonly hooked: HookedRuns,
    readonly call: McpCall,
    readonly sent: Readonly<Record<string, unknown>>,
    private readonly asking: AskingRun,
    /** Asks the guards. @returns the result of a caller whom they refuse @throws (rejects) its error */
    private readonly askGuards: () => Promise<unknown>,
  ) {
    this.target = hooked.target;
    this.hooks = this.made(hooked.aroundRounds);
  }

  get isMarked(): boolean {
    return this.asking.isMarked;
  }

  async assertAdmitted(): Promise<void> {
    if (await this.refusal()) throw new HandlerSkipped('The guards refuse the caller.');
  }

  /** Returns the result of a caller whom the guards refuse; they are asked once. @throws (rejects) its error */
  refusal<T>(): Promise<T | undefined> {
    return (this.#refusal ??= quiet(this.askGuards())) as Promise<T | undefined>;
  }

  /** Called when the guards have accepted the caller, in whichever round. */
  admitted(): void {
    this.#refusal ??= Promise.resolve();
    if (this.#state === 'guarded') this.#state = 'admitted';
  }

  async answer(result: object): Promise<Passed> {
    await this.assertAdmitted();
    (this.#answers ??= []).push(result);
    return result as Passed;
  }

  takeRequestState(): string | undefined {
    return this.asking.takeRequestState();
  }

  async ask(key: string, question: McpQuestion, signal?: AbortSignal): Promise<unknown> {
    return (await this.asking.ask({ [key]: question }, signal))[key];
  }

  divertTo(client: DivertedClient): void {
    const { hooked, call } = this;
    const isFree = this.#state === 'admitted' && !this.isMarked && call.handle === undefined;
    if (!hooked.diverted || !isFree || call.state !== 'open') {
      throw new Error(
        `The call cannot be diverted: only a plugin of the ring "${DIVERTING}" can do so, once, from entering() on, until the run has ended or is marked.`,
      );
    }
    call.hold();
    hooked.diverted.add(call, client);
    this.#divert?.(client.handle as never);
  }

  /** Runs the rounds inside the rings around them. @returns the handle, once the call was diverted */
  serve<T>(rounds: () => MaybePromise<T>): MaybePromise<T> {
    const work = (): MaybePromise<T> => this.through(this.hooks, rounds);
    return this.hooked.diverted ? this.#divertible(work) : work();
  }

  #divertible<T>(work: () => MaybePromise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#divert = resolve;
      const over = (settle: () => void): void => {
        this.#state = 'over';
        // The limit of running calls counts it until its handler has ended.
        if (this.call.handle) this.call.release();
        // No effect on a call that was diverted.
        settle();
      };
      promiseOf(work).then(
        (value) => over(() => resolve(value)),
        (error: unknown) => over(() => reject(error)),
      );
    });
  }

  made(factories: readonly RunFactory[]): readonly McpRunHooks[] {
    if (factories.length === 0) return NONE;
    const made: McpRunHooks[] = [];
    for (const factory of factories) {
      try {
        const hooks = atOnce(factory(this), 'run()');
        if (hooks) made.push(hooks);
      } catch (error) {
        // It fails as if its around() had thrown: behind the guards.
        made.push({ around: () => Promise.reject(error) });
      }
    }
    return made;
  }

  /** Runs what is innermost inside each of the hooks. */
  through<T>(hooks: readonly McpRunHooks[], innermost: () => MaybePromise<T>): MaybePromise<T> {
    let next = innermost;
    for (const one of hooks.toReversed()) {
      const inner = next;
      if (one.enclose) next = () => one.enclose!(inner);
      else if (one.around) next = () => this.#passage(one, inner);
    }
    return next();
  }

  #passage<T>(hooks: McpRunHooks, next: () => MaybePromise<T>): MaybePromise<T> {
    const inner = new Inner(next);
    return settle(
      () => hooks.around!(inner.next),
      (returned) => this.#passed<T>(returned, inner.given?.value),
      (error) => {
        if (inner.threw(error)) throw error;
        return this.#failed(error);
      },
    );
  }

  /** Checks what `around` has returned. @param result what its `next()` gave */
  #passed<T>(returned: Passed, result: unknown): MaybePromise<T> {
    if (result !== undefined && returned === result) return returned as T;
    if (this.#answers?.includes(returned)) return returned as T;
    if (result !== undefined && changedFrom.get(returned) === result) return this.#changed(returned as T);
    const text =
      'around() of a plugin must return what next() gave, a copy of it by passed(), or what run.answer() gave. It returned something else, so the call failed.';
    return this.#failed(new TypeError(text));
  }

  /** A run whose method was not reached may have the refusal of the guards as its result: nothing stands for that. */
  async #changed<T>(changed: T): Promise<T> {
    const refused = this.#state === 'guarded' ? await this.refusal<T>() : undefined;
    return refused ?? changed;
  }

  /** Fails for a caller whom the guards accept. Another one gets its refusal: it learns nothing of the failure (D31). */
  async #failed<T>(error: unknown): Promise<T> {
    const refused = await this.refusal<T>();
    if (refused) return refused;
    throw error;
  }
}

/**
 * # One round of a run
 *
 *     begun ──the method is about to run──▶ entering ──▶ the method runs
 *       │                                      ├─ answered: the answer of a plugin is the result
 *       └──────────────────────────────────────┴─ over: the round has its result; nothing of it runs any more
 *
 * Invariants: hooks are entered once, however often an interceptor runs the method; an answer is a mark, which decides whatever
 * enhancers make of the signal that leaves the method.
 */
export class PluginRound implements HandlerRound {
  readonly #inRounds: readonly McpRunHooks[];
  readonly #inResults: readonly McpRunHooks[];
  readonly #all: readonly McpRunHooks[];
  #begun = false;
  #entering: Promise<void> | undefined;
  #entered = false;
  #over = false;
  answer: object | undefined;

  constructor(private readonly run: PluginRun) {
    const { inRounds, inResults } = run.hooked;
    this.#inRounds = run.made(inRounds);
    this.#inResults = run.made(inResults);
    this.#all = [...run.hooks, ...this.#inRounds, ...this.#inResults];
  }

  /** Runs the round inside its rings. */
  serve<T>(invoke: () => MaybePromise<T>): MaybePromise<T> {
    return this.run.through(this.#inRounds, invoke);
  }

  valueOf<T>(produce: () => MaybePromise<T>): MaybePromise<T> {
    const seesToken = this.#inResults.some((one) => one.around !== undefined);
    return seesToken ? this.#valueInside(produce) : this.run.through(this.#inResults, produce);
  }

  async #valueInside<T>(produce: () => MaybePromise<T>): Promise<T> {
    const innermost = new Inner(produce, TOKEN);
    let { next } = innermost;
    for (const one of this.#inResults.toReversed()) {
      const inner = next === innermost.next ? next : new Inner(next).next;
      if (one.enclose) next = () => promiseOf(() => one.enclose!(inner));
      else if (one.around) next = () => one.around!(inner);
    }
    try {
      await next();
      // Whatever a plugin answers: the value is the handler's.
      if (!innermost.given) await innermost.running;
      if (innermost.given) return innermost.given.value;
      throw new TypeError('around() of a plugin did not call next(), so the call failed.');
    } catch (error) {
      // A caller whom the guards refuse gets its refusal, as in a passage (D31).
      if (!innermost.threw(error)) this.answer = await this.run.refusal<object>();
      throw error;
    }
  }

  enter(entering: McpEntering): Promise<void> | undefined {
    if (this.#begun) return this.#entering;
    this.#begun = true;
    this.run.admitted();
    try {
      this.#entering = this.#enter(0, entering);
    } catch (error) {
      this.#entering = quiet(Promise.reject(error));
    }
    return this.#entering;
  }

  entered(): void {
    if (this.#entered) return;
    this.#entered = true;
    for (const one of this.#all) if (one.entered) safely(() => one.entered!());
  }

  returned(): void {
    for (const one of this.#all) if (one.returned) safely(() => one.returned!());
  }

  asking(answers: Promise<unknown>): void {
    const asked = this.#all.filter((one) => one.asking !== undefined);
    if (asked.length === 0) return;
    const answered = answers.then(
      () => {},
      () => {},
    );
    for (const one of asked) safely(() => one.asking!(answered));
  }

  end(): void {
    // A method that an interceptor runs after its answer, to refresh a cache for example, is entered as any other.
    this.#over = this.#begun;
  }

  /** @returns a promise as soon as a hook does */
  #enter(position: number, method: McpEntering): Promise<void> | undefined {
    for (let at = position; at < this.#all.length; at++) {
      const entering: MaybePromise<object | undefined | void> = this.#all[at]!.entering?.(method);
      if (isThenable(entering)) {
        return quiet(
          Promise.resolve(entering).then((answer) => {
            this.#answerWith(answer);
            return this.#enter(at + 1, method);
          }),
        );
      }
      this.#answerWith(entering);
    }
    return undefined;
  }

  #answerWith(answer: object | undefined | void): void {
    // An interceptor has ended the round meanwhile, or the call was cancelled.
    if (this.#over) throw new HandlerCancelled(undefined);
    if (!answer) return;
    this.answer = answer;
    throw new HandlerSkipped('The call was answered without its handler.');
  }
}
