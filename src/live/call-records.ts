import type { RunningCall } from '../core/calls/call-observer.js';
import type { CallWatcher, OutboundMessage } from '../core/calls/mcp-call.js';
import type { McpCallEnd, McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import type { Payloads, ToolSchemas } from './payloads.js';

/** So many calls that have ended can be opened. */
const KEPT = 200;
/** A record has at most so many steps; the others are counted. */
const MOST_STEPS = 50;

/** Something that a call sent or got before its end. */
export interface Step {
  /** Milliseconds since the dispatch. */
  readonly at: number;
  readonly what: 'progress' | 'log' | 'question' | 'answer' | 'notification';
  /** What can be said without the data of the caller, such as `3 of 10`. */
  readonly text: string;
  /** Redacted; with the option `payloads` only. */
  readonly data?: unknown;
}

/**
 * # What happens in calls
 *
 * A call is recorded if a page is open when it begins, or with the option `payloads`; the end of each other call is an event
 * alone. The records of the latest 200 recorded calls are kept.
 *
 * Invariant: a record of a call that has ended holds neither the call nor its messages, but copies of bounded size.
 */
export class CallRecords {
  readonly #running = new WeakMap<McpCallInfo, CallRecord>();
  readonly #kept = new Map<string, CallRecord>();

  constructor(private readonly payloads: Payloads | undefined) {}

  begin(running: RunningCall, key: string): void {
    const record = new CallRecord(key, running, this.payloads);
    running.call.watcher = record;
    this.#running.set(running.info, record);
    this.#kept.set(key, record);
    if (this.#kept.size <= KEPT) return;
    // The oldest; it may still run, and is kept by its call then.
    for (const oldest of this.#kept.keys()) {
      this.#kept.delete(oldest);
      break;
    }
  }

  /** @returns the key of its record, if it has one */
  end(end: McpCallEnd): string | undefined {
    const record = this.#running.get(end.call);
    record?.end(end);
    return record?.key;
  }

  get(key: string): object | undefined {
    return this.#kept.get(key)?.shown();
  }
}

const TRACE = /^[\da-f]{2}-([\da-f]{32})-[\da-f]{16}-/;

class CallRecord implements CallWatcher {
  readonly #steps: Step[] = [];
  readonly #begin: number;
  readonly #traceId: string | undefined;
  #tool: ToolSchemas | undefined;
  readonly #arguments: unknown;
  #left = 0;
  #entered: number | undefined;
  #returned: number | undefined;
  #ended: number | undefined;
  #outcome: McpCallEnd['outcome'] | undefined;
  #error: string | undefined;
  #result: unknown;

  constructor(
    readonly key: string,
    { call, info, at }: RunningCall,
    private readonly payloads: Payloads | undefined,
  ) {
    this.#begin = at;
    const { traceparent } = info.meta ?? {};
    this.#traceId = typeof traceparent === 'string' ? TRACE.exec(traceparent)?.[1] : undefined;
    if (!payloads) return;
    this.#tool = call.target?.kind === 'tool' ? call.target : undefined;
    this.#arguments = payloads.arguments(info, this.#tool);
  }

  entered(): void {
    this.#entered ??= this.#now;
  }

  returned(): void {
    this.#returned = this.#now;
  }

  notified({ method, params = {} }: OutboundMessage): void {
    const { progress, total, level } = params;
    if (method === 'notifications/progress') {
      this.#add('progress', numberText(progress) + (total === undefined ? '' : ` of ${numberText(total)}`), params);
    } else if (method === 'notifications/message') this.#add('log', String(level), params);
    else this.#add('notification', method, params);
  }

  asked({ method, params }: OutboundMessage, answer: Promise<unknown>): void {
    this.#add('question', method, params);
    answer.then(
      (result) => this.#add('answer', actionOf(result), result),
      () => this.#add('answer', 'none'),
    );
  }

  failed(text: string): void {
    this.#error = this.payloads?.text(text);
  }

  end({ outcome, result }: McpCallEnd): void {
    this.#ended = this.#now;
    this.#outcome = outcome;
    if (result) this.#result = this.payloads?.result(result, this.#tool);
    this.#tool = undefined;
  }

  shown(): object {
    return {
      key: this.key,
      running: this.#ended === undefined,
      outcome: this.#outcome,
      ms: this.#ended,
      stages: this.#stages,
      traceId: this.#traceId,
      steps: this.#steps,
      left: this.#left,
      payloads: this.payloads !== undefined,
      arguments: this.#arguments,
      result: this.#result,
      error: this.#error,
    };
  }

  /** The times at which a stage ended. A call that a guard refused did not enter its method. */
  get #stages(): object {
    return { entered: this.#entered, returned: this.#returned, ended: this.#ended };
  }

  get #now(): number {
    return Math.round((performance.now() - this.#begin) * 100) / 100;
  }

  #add(what: Step['what'], text: string, data?: unknown): void {
    if (this.#steps.length === MOST_STEPS) {
      this.#left++;
      return;
    }
    const copy = data === undefined ? undefined : this.payloads?.step(data);
    this.#steps.push({ at: this.#now, what, text, ...(copy !== undefined && { data: copy }) });
  }
}

const numberText = (value: unknown): string => (typeof value === 'number' ? String(value) : '?');

/** Returns what a user did with a question; other results say no more than that there is one. */
function actionOf(result: unknown): string {
  const { action } = (result ?? {}) as { action?: unknown };
  return action === 'accept' || action === 'decline' || action === 'cancel' ? action : 'answered';
}
