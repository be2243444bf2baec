import { HANDLER_FAILED } from '../core/calls/calls.js';
import type { McpCall, OutboundMessage } from '../core/calls/mcp-call.js';
import type { McpCallEnd, McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import type { McpCallHooks, McpRunHooks } from '../core/plugins/mcp-plugin.js';
import { rpcErrorOf } from '../core/protocol/errors.js';
import { refusalText } from './live-events.js';
import type { Payloads, ToolSchemas } from './payloads.js';

/** So many calls that have ended can be opened. */
const KEPT = 200;
/** A record has at most so many steps; the others are counted. */
const MOST_STEPS = 50;

/** A call while it runs. */
export interface RunningCall {
  readonly call: McpCall;
  readonly info: McpCallInfo;
  /** The time at which it began, by `performance.now()`. */
  readonly at: number;
  /** Numbers the calls of this page, from 1. */
  readonly number: number;
}

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
  readonly #running = new WeakMap<McpCall, CallRecord>();
  readonly #kept = new Map<string, CallRecord>();

  constructor(private readonly payloads: Payloads | undefined) {}

  begin(running: RunningCall, key: string): CallRecord {
    const record = new CallRecord(running, this.payloads);
    this.#running.set(running.call, record);
    this.#kept.set(key, record);
    if (this.#kept.size <= KEPT) return record;
    // The oldest; it may still run, and is kept by its call then.
    for (const oldest of this.#kept.keys()) {
      this.#kept.delete(oldest);
      break;
    }
    return record;
  }

  /** @returns what a record has of the run of a handler; `undefined`: the call has none */
  ofRun({ call }: { readonly call: McpCall }): McpRunHooks | undefined {
    const record = this.#running.get(call);
    record?.keepArguments();
    return record;
  }

  get(key: string): object | undefined {
    const record = this.#kept.get(key);
    return record && { key, ...record.shown() };
  }
}

const TRACE = /^[\da-f]{2}-([\da-f]{32})-[\da-f]{16}-/;

export class CallRecord implements Required<Pick<McpCallHooks, 'notified' | 'asked' | 'answered'>>, McpRunHooks {
  readonly #steps: Step[] = [];
  readonly #begin: number;
  readonly #traceId: string | undefined;
  #tool: ToolSchemas | undefined;
  #arguments: unknown;
  /** Until its arguments are copied. */
  #running: RunningCall | undefined;
  #left = 0;
  #entered: number | undefined;
  #returned: number | undefined;
  #ended: number | undefined;
  #outcome: McpCallEnd['outcome'] | undefined;
  #reason: string | undefined;
  #error: string | undefined;
  #result: unknown;

  constructor(
    running: RunningCall,
    private readonly payloads: Payloads | undefined,
  ) {
    const { info, at } = running;
    this.#running = running;
    this.#begin = at;
    const { traceparent } = info.meta ?? {};
    this.#traceId = typeof traceparent === 'string' ? TRACE.exec(traceparent)?.[1] : undefined;
    if (!payloads?.needTool(info)) this.keepArguments();
  }

  /** Copies the arguments when their schema is known, before the handler may change them. */
  keepArguments(): void {
    const running = this.#running;
    if (!this.payloads || !running) return;
    this.#running = undefined;
    const { call, info } = running;
    this.#tool = call.target?.kind === 'tool' ? call.target : undefined;
    this.#arguments = this.payloads.arguments(info, this.#tool);
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

  asked({ method, params }: OutboundMessage, answer: Promise<PromiseSettledResult<unknown>>): void {
    this.#add('question', method, params);
    void answer.then((settled) => {
      if (settled.status === 'fulfilled') this.#add('answer', actionOf(settled.value), settled.value);
      else this.#add('answer', 'none');
    });
  }

  answered(end: McpCallEnd): void {
    const { outcome, result, error } = end;
    this.#ended = this.#now;
    this.#outcome = outcome;
    this.#reason = refusalText(error);
    // No handler has run, if they are not there yet.
    this.keepArguments();
    this.#running = undefined;
    if (result) this.#result = this.payloads?.result(result, this.#tool);
    const failure = failureOf(end);
    if (failure !== undefined) this.#error = this.payloads?.text(failure);
    this.#tool = undefined;
  }

  shown(): object {
    return {
      running: this.#ended === undefined,
      outcome: this.#outcome,
      reason: this.#reason,
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

/** Returns why a call has no result, as its client may read it, or why a guard refused it. */
function failureOf({ outcome, error }: McpCallEnd): string | undefined {
  if (error === undefined) return undefined;
  if (outcome === 'cancelled') return error instanceof Error ? error.message : 'The request was cancelled.';
  return rpcErrorOf(error)?.message ?? HANDLER_FAILED;
}

const numberText = (value: unknown): string => (typeof value === 'number' ? String(value) : '?');

/** Returns what a user did with a question; other results say no more than that there is one. */
function actionOf(result: unknown): string {
  const { action } = (result ?? {}) as { action?: unknown };
  return action === 'accept' || action === 'decline' || action === 'cancel' ? action : 'answered';
}
