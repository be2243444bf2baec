import type { MaybePromise } from '../../common/promises.js';
import type { McpContext } from '../../calls/mcp-context.js';
import type { McpQuestion } from '../../calls/mcp-questions.js';
import type { McpHandlerTarget } from '../../calls/mcp-target.js';
import { askIfOutdated, type Hooked } from '../../plugins/plugin-host.js';
import { PluginRound, PluginRun } from '../../plugins/run-hooks.js';
import type { Served } from '../results/handler-outcome.js';

/**
 * Runs a handler, and what plugins do with its runs, as a part of the call of another one.
 */
export function invokeHooked<Args extends Readonly<Record<string, unknown>>, T>(
  handler: Served<Args, T> & Hooked & McpHandlerTarget,
  args: Args,
  context: McpContext,
): MaybePromise<T> {
  askIfOutdated(handler);
  if (!handler.runs) return handler.invoke(args, context);
  const asking = {
    isMarked: false,
    takeRequestState: () => undefined,
    ask: (questions: Readonly<Record<string, McpQuestion>>) => context.ask(questions),
  };
  const run = new PluginRun(handler.runs, context.mcpCall, args, asking, () => handler.refusal(args, context));
  const round = new PluginRound(run);
  return run.serve(() => round.serve(() => handler.invoke(args, context.within(round))));
}
