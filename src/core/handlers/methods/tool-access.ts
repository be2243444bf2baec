import { Inject, Injectable } from '@nestjs/common';
import type { McpCall } from '../../calls/mcp-call.js';
import type { ToolTask } from '../../calls/mcp-task.js';
import { ToolCatalogues } from '../catalogue/tool-catalogues.js';
import { entryOf, HandlerTable, type ToolEntry } from '../registry/handler-table.js';
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
    @Inject(ToolCatalogues) private readonly catalogues: ToolCatalogues,
  ) {}

  /** Returns when a call becomes a task; `undefined`: never. */
  taskOf(call: McpCall): ToolTask | undefined {
    return entryOf(call, 'tool')?.task;
  }

  permits(tool: string, call: McpCall): boolean {
    return this.#deciding(tool, call).every((each) => each.permits(this.calls.context(call)));
  }

  /** Refuses as a call of the tool would be. @throws HandlerDeniedError with status and challenge */
  assertPermitted(tool: string, call: McpCall): void {
    for (const each of this.#deciding(tool, call)) each.assertPermits(this.calls.context(call));
  }

  #deciding(name: string, call: McpCall): readonly Pick<ToolEntry, 'permits' | 'assertPermits'>[] {
    const tool = this.table.get('tool', name);
    return tool ? [tool] : this.catalogues.deciding(name, call);
  }
}
