import { isThenable } from '../common/promises.js';
import type { CallHooks, CallPhase } from '../calls/call-plugins.js';
import { assertOpen, currentMcpCall, type McpCall, type OutboundMessage, runOutsideCalls } from '../calls/mcp-call.js';
import type { McpCallEnd } from '../calls/mcp-instrumentation.js';
import { logError } from '../calls/operator-log.js';
import type { McpCallHooks, McpEndpointPlugin } from './mcp-plugin.js';

/** The plugins that act on calls, in the order of their rings. */
export interface PluginsOfCalls {
  readonly observers: readonly McpEndpointPlugin[];
  readonly recorders: readonly McpEndpointPlugin[];
  readonly others: readonly McpEndpointPlugin[];
}

/** The hooks of the plugins of one call, outermost first. */
export class PluginCallHooks implements CallHooks {
  readonly #hooks: McpCallHooks[] = [];
  #recorders: readonly McpCallHooks[] = [];
  readonly #reported: Record<CallPhase, boolean> = { answered: false, ended: false };
  /** The end of a task whose call is not answered yet, because an async `around` waits. */
  #early: McpCallEnd | undefined;

  constructor(
    private readonly call: McpCall,
    private readonly plugins: PluginsOfCalls,
  ) {}

  observe<T>(serve: () => T): T {
    const observers = this.#made(this.plugins.observers);
    // They are asked now, for calls that end before their target is known.
    this.#recorders = this.#made(this.plugins.recorders);
    return this.#within(observers, serve);
  }

  serve<T>(request: () => T): T {
    const others = this.#made(this.plugins.others);
    return this.#within(others.length > 0 ? [...this.#recorders, ...others] : this.#recorders, request);
  }

  notified(message: OutboundMessage): void {
    for (const hooks of this.#hooks) if (hooks.notified) safely(() => hooks.notified!(message));
  }

  asked(question: OutboundMessage, answer: Promise<unknown>): void {
    const asked = this.#hooks.filter((hooks) => hooks.asked !== undefined);
    if (asked.length === 0) return;
    const settled = settledOf(answer);
    for (const hooks of asked) safely(() => hooks.asked!(question, settled));
  }

  over(end: McpCallEnd, phases: readonly CallPhase[]): void {
    // What ends a call may run in the async context of its handler, which ends its own session for example.
    if (currentMcpCall()) return runOutsideCalls(() => this.over(end, phases));
    if (phases[0] === 'ended' && !this.#reported.answered) {
      this.#early = end;
      return;
    }
    this.#report(end, phases);
    if (this.#early) this.#report(this.#early, ['ended']);
  }

  #report(end: McpCallEnd, phases: readonly CallPhase[]): void {
    for (const phase of phases) {
      if (this.#reported[phase]) continue;
      this.#reported[phase] = true;
      for (const hooks of this.#hooks) {
        try {
          const returned: unknown = hooks[phase]?.(end);
          if (isThenable(returned)) returned.then(undefined, logError);
        } catch (error) {
          logError(error);
        }
      }
    }
  }

  #made(plugins: readonly McpEndpointPlugin[]): readonly McpCallHooks[] {
    if (plugins.length === 0) return NONE;
    const made: McpCallHooks[] = [];
    for (const plugin of plugins) {
      try {
        const hooks = plugin.call!(this.call);
        if (isThenable(hooks)) hooks.then(undefined, logError);
        else if (hooks) made.push(hooks);
      } catch (error) {
        logError(error);
      }
    }
    this.#hooks.push(...made);
    return made;
  }

  #within<T>(made: readonly McpCallHooks[], serve: () => T): T {
    let next = serve;
    for (const hooks of made.toReversed()) {
      const inner = next;
      const admitting = hooks.admit ? () => this.#admitted(hooks, inner) : inner;
      next = hooks.around ? () => this.#around(hooks, admitting) : admitting;
    }
    return next();
  }

  /** Serves the call inside a hook: once, and with the outcome of the call, whatever the hook does. */
  #around<T>(hooks: McpCallHooks, serve: () => T): T {
    let served: Served<T> | undefined;
    let hasWaited = false;
    const run = (): T => {
      if (!served) {
        try {
          if (hasWaited) assertOpen(this.call);
          served = { value: serve() };
        } catch (error) {
          served = { error };
        }
      }
      if ('error' in served) throw served.error;
      return served.value;
    };
    let returned: unknown;
    try {
      returned = hooks.around!(run);
    } catch (error) {
      if (!passesOn(served, error)) logError(error);
    }
    hasWaited = true;
    // Most hooks return what they were given.
    if (!isThenable(returned) || (served && 'value' in served && served.value === returned)) return run();
    const own = Promise.resolve(returned);
    if (served) {
      void reportRejection(own, served);
      return run();
    }
    // An async function serves it later: at the latest when its promise settles.
    return own.then(run, (error: unknown) => {
      if (!passesOn(served, error)) logError(error);
      return run();
    }) as T;
  }

  #admitted<T>(hooks: McpCallHooks, serve: () => T): T {
    const admitting = hooks.admit!();
    if (!isThenable(admitting)) return serve();
    // The then() of some libraries returns nothing.
    return Promise.resolve(admitting).then(() => {
      assertOpen(this.call);
      return serve();
    }) as T;
  }
}

const NONE: readonly McpCallHooks[] = [];

/** Runs a hook; what it throws, or rejects with, is logged. */
export function safely<T>(hook: () => T): T | undefined {
  try {
    const returned = hook();
    if (isThenable(returned)) returned.then(undefined, logError);
    return returned;
  } catch (error) {
    logError(error);
    return undefined;
  }
}

/**
 * Returns the answer of a hook, which counts at once.
 *
 * @throws TypeError for a promise: what it rejects with must not end the process
 */
export function atOnce<T>(answer: T, hook: string): T {
  if (!isThenable(answer)) return answer;
  answer.then(undefined, () => {});
  throw new TypeError(`${hook} of a plugin must answer at once, but it returned a promise.`);
}

function settledOf(answer: Promise<unknown>): Promise<PromiseSettledResult<unknown>> {
  return Promise.allSettled([answer]).then(([settled]) => settled);
}

/** What serving a call gave, or threw. */
type Served<T> = { readonly value: T } | { readonly error: unknown };

/** Reports what an async hook throws, unless it only passes on that the call was rejected. */
async function reportRejection(returned: PromiseLike<unknown>, served: Served<unknown>): Promise<void> {
  const outcome = 'value' in served ? served.value : Promise.reject(served.error);
  const [own, call] = await Promise.allSettled([returned, outcome]);
  if (own.status === 'rejected' && call.status === 'fulfilled') logError(own.reason);
}

const passesOn = (served: Served<unknown> | undefined, error: unknown): boolean =>
  served !== undefined && 'error' in served && served.error === error;
