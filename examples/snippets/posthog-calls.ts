// #region posthog
import type { McpCallEnd, McpCallInfo, McpInstrumentation } from 'nestjs-mcp-streamable';

/** The part of `PostHog` of `posthog-node` that is used. */
export interface Analytics {
  capture(event: {
    distinctId: string;
    event: string;
    properties: Record<string, unknown>;
  }): void;
}

/** Sends one event for each call of a tool. */
export class PostHogCalls implements McpInstrumentation {
  constructor(private readonly posthog: Analytics) {}

  call<T>(_info: McpCallInfo, run: () => T): T {
    return run();
  }

  ended({ call, outcome, durationMs, handled }: McpCallEnd): void {
    // A client may name tools that do not exist.
    if (!handled || call.method !== 'tools/call') return;
    const { name: tool, principal, clientInfo, protocolVersion } = call;
    const properties = {
      tool,
      outcome,
      durationMs,
      client: clientInfo.name,
      protocolVersion,
    };
    this.posthog.capture({
      distinctId: principal ?? 'anonymous',
      event: 'mcp_tool_called',
      properties: { ...properties, $process_person_profile: principal !== undefined },
    });
  }
}
// #endregion
