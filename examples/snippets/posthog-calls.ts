// #region posthog
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { type McpCallEnd, McpSessionService } from 'nestjs-mcp-streamable';

export const ANALYTICS = Symbol('analytics');

/** The part of `PostHog` of `posthog-node` that is used. */
export interface Analytics {
  capture(event: {
    distinctId: string;
    event: string;
    properties: Record<string, unknown>;
  }): void;
}

/** Sends one event for each call of a tool. */
@Injectable()
export class PostHogCalls implements OnModuleInit {
  constructor(
    @Inject(McpSessionService) private readonly sessions: McpSessionService,
    @Inject(ANALYTICS) private readonly posthog: Analytics,
  ) {}

  onModuleInit(): void {
    this.sessions.calls$.subscribe((end) => this.#send(end));
  }

  #send({ call, outcome, durationMs, handled }: McpCallEnd): void {
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
