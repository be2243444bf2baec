import { Inject, Injectable } from '@nestjs/common';
import type { McpCall } from '../calls/mcp-call.js';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import type { ToolEntry } from '../handlers/registry/handler-table.js';
import { HandlerCalls } from './handler-calls.js';

type Deciding = Pick<ToolEntry, 'permits' | 'assertPermits'>;

/**
 * Decides about requests that concern an earlier call of a tool, such as those about its task. They need the scopes of the
 * tool: another client of the same user may have a narrower token. The other guards have decided about the call, and are not
 * asked. A tool that was removed since needs no scopes.
 */
@Injectable()
export class ToolAccess {
  constructor(
    @Inject(EndpointSources) private readonly sources: EndpointSources,
    @Inject(HandlerCalls) private readonly calls: HandlerCalls,
  ) {}

  /** @throws (rejects) McpError UNAVAILABLE if it is not known */
  async permits(tool: string, call: McpCall): Promise<boolean> {
    const deciding = await this.#deciding(tool, call);
    return deciding.every((each) => each.permits(this.calls.context(call)));
  }

  /** Refuses as a call of the tool would be. @throws (rejects) HandlerDeniedError with status and challenge; as `permits()` */
  async assertPermitted(tool: string, call: McpCall): Promise<void> {
    for (const each of await this.#deciding(tool, call)) each.assertPermits(this.calls.context(call));
  }

  /** Returns the tool; if no source has it, what may have been around it. */
  async #deciding(name: string, call: McpCall): Promise<readonly Deciding[]> {
    const { table, added } = this.sources;
    const tool = table.get('tool', name);
    if (tool) return [tool];
    const around: object[] = [];
    for (const source of added) {
      const answer = await (source.deciding?.(name, call) ?? source.find(name, call, 'tool'));
      if (Array.isArray(answer)) around.push(...(answer as readonly object[]));
      else if (answer) return [answer as unknown as ToolEntry];
    }
    return around as Deciding[];
  }
}
