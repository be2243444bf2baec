import type { InputRequiredResult } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import type { MaybePromise } from '../common/promises.js';
import { logger } from '../calls/operator-log.js';
import { McpContext } from '../calls/mcp-context.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import { askIfOutdated, type Hooked } from '../plugins/plugin-host.js';
import { type HookedRuns, PluginRound, PluginRun } from '../plugins/run-hooks.js';
import type { Served } from '../handlers/results/handler-outcome.js';
import { HandlerRun, type RunParts } from '../questions/handler-run.js';
import { RequestedSchemas } from '../questions/question.js';
import { type AskingRequest, RequestStates } from '../questions/request-state.js';
import { StoredStates } from '../questions/state/stored-states.js';
import { isObject, type JsonRpcRequest } from '../protocol/json-rpc.js';

type CalledHandler<Args, T> = Pick<Served<Args, T>, 'invoke' | 'refusal'> & Hooked & McpHandlerTarget;

interface HookedCall<Args, T> {
  readonly call: McpCall;
  readonly runs: HookedRuns;
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
  ): MaybePromise<T | InputRequiredResult> {
    askIfOutdated(handler);
    const request = { target, params, ...retryFields(call.message as JsonRpcRequest) };
    let run: HandlerRun;
    try {
      if (fault) throw fault;
      run = new HandlerRun(call, this.parts, request);
    } catch (error) {
      return this.#refused(call, handler, args, error);
    }
    if (handler.runs) return this.#hooked(run, { call, runs: handler.runs, handler, args });
    const context = new McpContext(call, run);
    return run.serve(() => handler.invoke(args, context));
  }

  /** Runs a handler that plugins act on. */
  #hooked<Args, T>(
    run: HandlerRun,
    { call, runs, handler, args }: HookedCall<Args, T>,
  ): MaybePromise<T | InputRequiredResult> {
    const sent = args as Readonly<Record<string, unknown>>;
    const pluginRun = new PluginRun(runs, call, sent, run, () => handler.refusal(args, this.context(call)));
    return pluginRun.serve(() =>
      run.serve(() => {
        const round = new PluginRound(pluginRun);
        return round.serve(() => handler.invoke(args, new McpContext(call, run, round)));
      }),
    );
  }

  /**
   * Refuses a run that cannot begin, inside the rings around it. A caller from which guards hide the handler would learn that it exists
   * (D31).
   */
  #refused<Args, T>(call: McpCall, handler: CalledHandler<Args, T>, args: Args, error: unknown): MaybePromise<T> {
    const fail = (): Promise<never> => Promise.reject(error);
    const refusal = (): Promise<T | undefined> => handler.refusal(args, this.context(call));
    const answer = (refused: T | undefined): T | Promise<T> => refused ?? fail();
    if (!handler.runs) return refusal().then(answer);
    const asking = { isMarked: false, takeRequestState: () => undefined, ask: fail };
    const sent = args as Readonly<Record<string, unknown>>;
    const pluginRun = new PluginRun(handler.runs, call, sent, asking, refusal);
    return pluginRun.serve(() => pluginRun.refusal<T>().then(answer));
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
