import { lastly, type MaybePromise } from '../core/common/promises.js';
import { HandlerCancelled } from '../core/calls/handler-signals.js';
import { routeText } from '../core/calls/mcp-call.js';
import type { McpContext, McpEntering } from '../core/calls/mcp-context.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { digestOfJson } from '../core/questions/request-state.js';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
  type McpRun,
  type McpRunHooks,
} from '../core/plugins/mcp-plugin.js';
import { ConfirmationPages, type McpConfirmation } from './mcp-confirmations.js';
import { QuestionText } from './question-text.js';
import { StoredQuestions } from './stored-questions.js';
import { confirmOf, type ToolConfirm } from './checked-options.js';
import { type ConfirmPages, confirmed } from './confirmed.js';
import { type EndpointEffects, toolOf } from './endpoint-effects.js';

/** The user confirms a call before its tool runs (`confirm`). */
export class ConfirmPlugin extends McpPlugin {
  readonly ring = 'confirm';

  constructor(private readonly effectsOf: (endpoint: McpEndpointHost) => EndpointEffects) {
    super();
  }

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    return new ConfirmingEndpoint(endpoint, this.effectsOf(endpoint));
  }
}

class ConfirmingEndpoint extends ConfirmationPages implements McpEndpointPlugin {
  readonly #questions: StoredQuestions;

  constructor(
    private readonly host: McpEndpointHost,
    private readonly effects: EndpointEffects,
  ) {
    super();
    const { store, options, isShared } = effects;
    this.#questions = new StoredQuestions(store, host.clock, { ...options, nodeId: host.nodes.nodeId, isShared });
  }

  handler(target: McpHandlerTarget): McpHandlerHooks | undefined {
    const confirm = confirmOf(target);
    if (!confirm) return undefined;
    const { effects } = this;
    const { clock } = this.host;
    effects.take(target);
    const ask = (run: McpRun, args: unknown, context: McpContext): Promise<object | undefined> => {
      const records = this.#questions.of(effects.ownerOf(run), run.call);
      return confirmed(confirm, { run, context, args, records, pages: this.#pagesOf(run, confirm), clock });
    };
    return { run: (run) => new ConfirmedRound((args, context) => ask(run, args, context)) };
  }

  find(principal: string, id: string): Promise<McpConfirmation | undefined> {
    return this.effects.pages.find(principal, id);
  }

  answer(principal: string, id: string, answer: 'accept' | 'decline'): Promise<boolean> {
    return this.effects.pages.answer(principal, id, answer);
  }

  /** Returns the pages of a call; `undefined` for an anonymous caller, whose page would not know its user. */
  #pagesOf({ call, target, sent }: McpRun, { message, ttlMs, whenUnable }: ToolConfirm): ConfirmPages | undefined {
    const { principal, routeParams } = call;
    if (whenUnable !== 'url' || principal === undefined) return undefined;
    const about: unknown[] = [routeText(routeParams) ?? null, digestOfJson(sent)];
    // A catalogue may change the text, and another one may have a tool of the same name. The pages of other tools are those of the versions
    // before, which nodes may still have.
    if (target.source !== undefined)
      about.push(toolOf(target), message instanceof QuestionText ? message.template : null);
    return this.effects.pages.of({ principal, tool: target.key, call: JSON.stringify(about), ttlMs });
  }
}

/** One round of a tool with `confirm`. A round that was answered by an interceptor before is over for the method too. */
class ConfirmedRound implements McpRunHooks {
  #over = false;

  /** @param ask returns the result of a call that is not confirmed */
  constructor(private readonly ask: (args: unknown, context: McpContext) => Promise<object | undefined>) {}

  enclose<T>(inside: () => MaybePromise<T>): MaybePromise<T> {
    return lastly(inside, () => (this.#over = true));
  }

  async entering({ validArguments, context }: McpEntering): Promise<object | undefined> {
    const args: unknown = await validArguments;
    if (this.#over) throw new HandlerCancelled(context.signal.reason);
    return this.ask(args, context);
  }
}
