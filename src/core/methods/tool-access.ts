import { Inject, Injectable } from '@nestjs/common';
import type { MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import { ToolCatalogues } from '../../catalogue/tool-catalogues.js';
import { HandlerTable, type ToolEntry } from '../handlers/registry/handler-table.js';
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

  /** @throws (rejects) McpError UNAVAILABLE if it is not known */
  async permits(tool: string, call: McpCall): Promise<boolean> {
    const deciding = await this.#deciding(tool, call);
    return deciding.every((each) => each.permits(this.calls.context(call)));
  }

  /** Refuses as a call of the tool would be. @throws (rejects) HandlerDeniedError with status and challenge; as `permits()` */
  async assertPermitted(tool: string, call: McpCall): Promise<void> {
    for (const each of await this.#deciding(tool, call)) each.assertPermits(this.calls.context(call));
  }

  #deciding(name: string, call: McpCall): MaybePromise<readonly Pick<ToolEntry, 'permits' | 'assertPermits'>[]> {
    const tool = this.table.get('tool', name);
    return tool ? [tool] : this.catalogues.deciding(name, call);
  }
}
