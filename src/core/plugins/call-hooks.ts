import { isThenable } from '../common/promises.js';
import type { CallHooks, McpCallHooksEnd } from '../calls/call-hooks.js';
import { assertOpen, type McpCall, type OutboundMessage, runOutsideCalls } from '../calls/mcp-call.js';
import { attempt, reportRejection, type Served } from '../calls/call-observer.js';
import { logError } from '../calls/operator-log.js';
import type { McpCallHooks, McpEndpointPlugin } from './mcp-plugin.js';

/** The hooks of the plugins of one call, outermost first. */
export class PluginCallHooks implements CallHooks {
  readonly #hooks: McpCallHooks[] = [];
  #answered = false;
  #ended = false;

  constructor(
    private readonly call: McpCall,
    private readonly observers: readonly McpEndpointPlugin[],
    private readonly others: readonly McpEndpointPlugin[],
  ) {}

  observe<T>(serve: () => T): T {
    return this.#within(this.observers, serve);
  }

  serve<T>(request: () => T): T {
    return this.#within(this.others, request);
  }

  notified(message: OutboundMessage): void {
    for (const hooks of this.#hooks) safely(() => hooks.notified?.(message));
  }

  asked(question: OutboundMessage, answer: Promise<unknown>): void {
    const settled = settledOf(answer);
    for (const hooks of this.#hooks) safely(() => hooks.asked?.(question, settled));
  }

  answered(end: McpCallHooksEnd): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#tell('answered', end);
  }

  ended(end: McpCallHooksEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#tell('ended', end);
  }

  /** What ends a call may run in the async context of its handler, which ends its own session for example. */
  #tell(what: 'answered' | 'ended', end: McpCallHooksEnd): void {
    runOutsideCalls(() => {
      for (const hooks of this.#hooks) safely(() => hooks[what]?.(end));
    });
  }

  #within<T>(plugins: readonly McpEndpointPlugin[], serve: () => T): T {
    const made: McpCallHooks[] = [];
    for (const plugin of plugins) {
      const hooks = safely(() => plugin.call?.(this.call));
      if (hooks) made.push(hooks);
    }
    this.#hooks.push(...made);
    return made.reduceRight<() => T>((inner, hooks) => {
      const admitting = hooks.admit ? () => this.#admitted(hooks, inner) : inner;
      return hooks.around ? () => this.#around(hooks, admitting) : admitting;
    }, serve)();
  }

  #around<T>(hooks: McpCallHooks, serve: () => T): T {
    return around(hooks, () => {
      // The plugin may have waited.
      assertOpen(this.call);
      return serve();
    });
  }

  #admitted<T>(hooks: McpCallHooks, serve: () => T): T {
    const admitting = hooks.admit!();
    if (!isThenable(admitting)) return serve();
    return admitting.then(() => {
      assertOpen(this.call);
      return serve();
    }) as T;
  }
}

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

export function settledOf(answer: Promise<unknown>): Promise<PromiseSettledResult<unknown>> {
  return Promise.allSettled([answer]).then(([settled]) => settled);
}

/** Serves a call inside a hook: once, and with the outcome of the call, whatever the hook does. */
function around<T>(hooks: McpCallHooks, serve: () => T): T {
  let served: Served<T> | undefined;
  const run = (): T => {
    served ??= attempt(serve);
    if ('error' in served) throw served.error;
    return served.value;
  };
  let returned: unknown;
  try {
    returned = hooks.around!(run);
  } catch (error) {
    if (!passesOn(served, error)) logError(error);
  }
  if (!isThenable(returned)) return run();
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

const passesOn = (served: Served<unknown> | undefined, error: unknown): boolean =>
  served !== undefined && 'error' in served && served.error === error;
