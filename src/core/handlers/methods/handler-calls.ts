import { isObject } from '../../protocol/json-rpc.js';
import type { InputRequiredResult } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { logger } from '../../calls/operator-log.js';
import { McpContext } from '../../calls/mcp-context.js';
import type { McpCall } from '../../calls/mcp-call.js';
import type { ToolEffects } from '../decorators/tool-effects.js';
import { ToolGates } from '../once/tool-gates.js';
import type { Served } from '../results/handler-outcome.js';
import { HandlerRun, type RunParts } from '../questions/handler-run.js';
import type { AskingRequest } from '../questions/request-state.js';
import { RequestedSchemas } from '../questions/question.js';
import { RequestStates } from '../questions/request-state.js';
import { StoredStates } from '../state/stored-states.js';
import type { JsonRpcRequest } from '../../protocol/json-rpc.js';

/** Runs the handlers of an endpoint for the methods that call them, each in a context of its call. */
@Injectable()
export class HandlerCalls {
  private readonly parts: RunParts;

  constructor(
    @Inject(RequestStates) requestStates: RequestStates,
    @Inject(StoredStates) states: Pick<StoredStates, 'of' | 'ofPrincipal'>,
    @Inject(ToolGates) private readonly gates: Pick<ToolGates, 'serve'>,
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
   */
  run<Args, T>(
    call: McpCall,
    target: string,
    params: Readonly<Record<string, unknown>>,
    handler: Pick<Served<Args, T>, 'invoke' | 'assertAdmits'> & { readonly effects?: ToolEffects },
    args: Args,
  ): Promise<T | InputRequiredResult> {
    call.handled = true;
    const request = { target, params, ...retryFields(call.message as JsonRpcRequest) };
    let run: HandlerRun;
    try {
      if (call.fault) throw call.fault;
      run = new HandlerRun(call, this.parts, request);
    } catch (fault) {
      // A caller from which guards hide the handler would learn that it exists (D31).
      return handler.assertAdmits(args, this.context(call)).then(() => Promise.reject(fault));
    }
    if (handler.effects) return this.#gated(call, run, target, handler, handler.effects, args);
    const context = new McpContext(call, run);
    return run.serve(() => handler.invoke(args, context));
  }

  #gated<Args, T>(
    call: McpCall,
    run: HandlerRun,
    tool: string,
    handler: Pick<Served<Args, T>, 'invoke'>,
    effects: ToolEffects,
    args: Args,
  ): Promise<T | InputRequiredResult> {
    const about = { call, run, tool, effects, args: args as Readonly<Record<string, unknown>> };
    return run.serve(() =>
      this.gates.serve(about, (gate) => handler.invoke(args, new McpContext(call, run, undefined, undefined, gate))),
    );
  }

  /** Runs a handler that cannot ask: the result is that of its method. */
  serve<T>(call: McpCall, handler: (context: McpContext) => Promise<T>): Promise<T> {
    call.handled = true;
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
