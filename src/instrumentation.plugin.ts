import { infoOf } from './core/calls/call-info.js';
import type { McpInstrumentation } from './core/calls/mcp-instrumentation.js';
import { safely } from './core/plugins/call-hooks.js';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from './core/plugins/mcp-plugin.js';

/** Has an object of the option `instrumentation` observe calls, as plugins do. */
export class InstrumentationPlugin extends McpPlugin {
  readonly ring = 'observe';

  constructor(private readonly observer: McpInstrumentation) {
    super();
  }

  attach({ questions$, sessionEnds$ }: McpEndpointHost): McpEndpointPlugin {
    const { observer } = this;
    if (observer.question) {
      questions$.subscribe(({ question, outcome }) => safely(() => observer.question!(question, outcome)));
    }
    if (observer.sessionEnded) sessionEnds$.subscribe((end) => safely(() => observer.sessionEnded!(end)));
    return {
      call: (call) => ({
        around: (serve) => observer.call(infoOf(call), serve),
        ...(observer.ended && { answered: (end) => observer.ended!(end) }),
      }),
    };
  }
}
