import { Inject, Injectable } from '@nestjs/common';
import type { McpCall } from '../context/mcp-call.js';
import { HandlerTable } from '../handlers/registry/handler-table.js';
import { HandlerCalls } from './handler-calls.js';

/**
 * Decides about requests that concern an earlier call of a tool, such as those about its task. They need the scopes of the
 * tool: another client of the same user may have a narrower token. The other guards have decided about the call, and are not
 * asked. A tool that was removed since needs no scopes.
 */
@Injectable()
export class ToolAccess {
  constructor(
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(HandlerCalls) private readonly calls: HandlerCalls,
  ) {}

  permits(tool: string, call: McpCall): boolean {
    return !this.#refusal(tool, call);
  }

  /** Refuses as a call of the tool would be. @throws (rejects) ProtocolError, and sets status and challenge */
  async assertPermitted(tool: string, call: McpCall): Promise<void> {
    const refusal = this.#refusal(tool, call);
    if (!refusal) return;
    call.denied = true;
    await this.calls.answerDenial(call, () => Promise.reject(refusal));
  }

  #refusal(tool: string, call: McpCall): Error | undefined {
    return this.table.get('tool', tool)?.refusal(this.calls.context(call));
  }
}
