import { isObject } from '../../protocol/json-rpc.js';
import type { InputRequiredResult } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { logger } from '../../calls/operator-log.js';
import { type HandlerGate, McpContext } from '../../calls/mcp-context.js';
import type { McpCall } from '../../calls/mcp-call.js';
import type { ToolEffects } from '../decorators/tool-effects.js';
import { ToolGates } from '../once/tool-gates.js';
import type { HandlerOff, SwitchedKind } from '../registry/disabled-handlers.js';
import type { McpRunHooks } from '../../plugins/mcp-plugin.js';
import { PluginRound, PluginRun } from '../../plugins/run-hooks.js';
import { type Hooked, HandlerTable } from '../registry/handler-table.js';
import { textBlock } from '../results/content.js';
import type { Served } from '../results/handler-outcome.js';
import { HandlerRun, type RunParts } from '../questions/handler-run.js';
import type { AskingRequest } from '../questions/request-state.js';
import { RequestedSchemas } from '../questions/question.js';
import { RequestStates } from '../questions/request-state.js';
import { StoredStates } from '../state/stored-states.js';
import { retryLater } from '../../protocol/errors.js';
import type { JsonRpcRequest } from '../../protocol/json-rpc.js';
import { sdk } from '../../protocol/spec.js';

/** What is called, and its place in the table, by which it is switched off. */
type CalledHandler<Args, T> = Pick<Served<Args, T>, 'invoke' | 'assertAdmits'> &
  Hooked & {
    readonly kind: SwitchedKind;
    readonly key: string;
    readonly origin: string;
    readonly effects?: ToolEffects;
  };

interface HookedCall<Args, T> {
  readonly call: McpCall;
  /** The name of the tool, or what else was asked for. */
  readonly tool: string;
  readonly handler: CalledHandler<Args, T>;
  readonly args: Args;
}

/** Runs the handlers of an endpoint for the methods that call them, each in a context of its call. */
@Injectable()
export class HandlerCalls {
  private readonly parts: RunParts;

  constructor(
    @Inject(RequestStates) requestStates: RequestStates,
    @Inject(StoredStates) states: Pick<StoredStates, 'of' | 'ofPrincipal'>,
    @Inject(ToolGates) private readonly gates: Pick<ToolGates, 'serve'>,
    @Inject(HandlerTable) private readonly table: Pick<HandlerTable, 'off'>,
  ) {
    this.parts = {
      requestStates,
      states,
      schemas: new RequestedSchemas(),
      report: (text) => logger.error(text),
    };
  }

  /** Returns the context of a handler that cannot ask, and of the guards of a list. */
  context(call: McpCall): McpContext {
    return new McpContext(call, new HandlerRun(call, this.parts));
  }

  /**
   * Runs a handler that can ask: its result may be questions.
   *
   * @param target the name of the tool or prompt, the URI of the resource
   * @param params the parameters that the request state is bound to, in addition to the target
   * @param args the arguments of the handler
   * @param fault of the request, which only callers receive whom the guards admit
   */
  run<Args, T>(
    call: McpCall,
    target: string,
    params: Readonly<Record<string, unknown>>,
    handler: CalledHandler<Args, T>,
    args: Args,
    fault?: Error,
  ): Promise<T | InputRequiredResult> {
    const { off } = this.table;
    if (off.active) {
      if (off.learn) return this.#whenKnown(off.learn).then(() => this.run(call, target, params, handler, args, fault));
      const switchedOff = off.get(handler.kind, handler.key);
      if (switchedOff) return this.#refused(call, handler, args, switchedOff);
    }
    const request = { target, params, ...retryFields(call.message as JsonRpcRequest) };
    let run: HandlerRun;
    try {
      if (fault) throw fault;
      run = new HandlerRun(call, this.parts, request);
    } catch (error) {
      // A caller from which guards hide the handler would learn that it exists (D31).
      return handler.assertAdmits(args, this.context(call)).then(() => Promise.reject(error));
    }
    if (handler.runs || handler.effects) return this.#hooked(run, { call, tool: target, handler, args });
    const context = new McpContext(call, run);
    return run.serve(() => handler.invoke(args, context));
  }

  /** Runs a handler that plugins act on, or that has effects. */
  #hooked<Args, T>(
    run: HandlerRun,
    { call, tool, handler, args }: HookedCall<Args, T>,
  ): Promise<T | InputRequiredResult> {
    const sent = args as Readonly<Record<string, unknown>>;
    const passing = new PluginRun(handler.runs ?? { ...NO_RUNS, target: handler }, call, sent, {
      isMarked: () => run.isMarked,
      assertAdmitted: () => handler.assertAdmits(args, this.context(call)),
      ask: (questions) => run.ask(questions),
    });
    const { effects } = handler;
    const inRound = (own?: (context: () => McpContext) => McpRunHooks): Promise<T> => {
      const round = new PluginRound(
        passing,
        own?.(() => context),
      );
      const context = new McpContext(call, run, undefined, round);
      return round.serve(() => handler.invoke(args, context));
    };
    if (!effects) return passing.serve(() => run.serve(() => inRound()));
    const about = { call, run, tool, effects, args: sent };
    return passing.serve(() => run.serve(() => this.gates.serve(about, (gate) => inRound(hooksOf(gate)))));
  }

  /** Refuses a call of a handler that is switched off; a caller from which guards hide it learns nothing of it (D31). */
  async #refused<Args, T>(
    call: McpCall,
    handler: CalledHandler<Args, T>,
    args: Args,
    { reason }: HandlerOff,
  ): Promise<T> {
    await handler.assertAdmits(args, this.context(call));
    const { kind, key } = handler;
    const what = kind === 'template' ? 'resource template' : kind;
    const text = `The ${what} "${key}" is switched off${reason === undefined ? '.' : `: ${reason}`}`;
    if (kind === 'tool') return { content: [textBlock(text)], isError: true } as T;
    throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, text);
  }

  /** @throws (rejects) McpError UNAVAILABLE */
  async #whenKnown(learn: () => Promise<void>): Promise<void> {
    await learn().catch((cause: unknown) => {
      // It was read, and what the store lacked could not be written.
      if (!this.table.off.learn) return;
      const text = 'This server does not know yet which of its handlers are switched off. Try again soon.';
      throw retryLater('UNAVAILABLE', text, 1, { cause });
    });
  }

  /** Runs a handler that cannot ask: the result is that of its method. */
  serve<T>(call: McpCall, handler: (context: McpContext) => Promise<T>): Promise<T> {
    return handler(this.context(call));
  }
}

/**
 * Returns the fields that a client adds when it repeats a request with answers. An answer is an object, and not the
 * `{ method, result }` that some drafts wrapped it in: others are dropped, key by key.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
 */
function retryFields({ params = {} }: JsonRpcRequest): Pick<AskingRequest, 'inputResponses' | 'requestState'> {
  const { inputResponses, requestState } = params as Record<string, unknown>;
  if (inputResponses === undefined) return requestState === undefined ? NO_RETRY : { requestState };
  // The object has no prototype: its names are the client's.
  const accepted = Object.create(null) as Record<string, object>;
  for (const [key, answer] of isObject(inputResponses) ? Object.entries(inputResponses) : []) {
    if (isObject(answer) && !('method' in answer) && !('result' in answer)) accepted[key] = answer;
  }
  return { inputResponses: accepted, requestState };
}

const NO_RETRY = Object.freeze({});

/** The gate of a tool with effects stands where plugins of the rings 'once' and 'confirm' stand. */
const hooksOf =
  (gate: HandlerGate) =>
  (context: () => McpContext): McpRunHooks => ({
    entering: (admitted) => gate.enter(admitted, context()),
    entered: () => gate.entered(),
  });

const NO_RUNS = { aroundRounds: [], inRounds: [], inResults: [] };
