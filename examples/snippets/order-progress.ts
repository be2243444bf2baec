// #region observable
import { Inject, Injectable } from '@nestjs/common';
import { Tool, type ToolEvent, toolLog, toolProgress } from 'nestjs-mcp-streamable';
import { map, type Observable } from 'rxjs';
import { Orders } from './orders.service.js';

@Injectable()
export class ExportTools {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  /** When the client cancels, the Observable is unsubscribed: the export stops. */
  @Tool({ name: 'export_orders', description: 'Exports all orders' })
  export(): Observable<ToolEvent<string>> {
    return this.orders
      .export$()
      .pipe(map(({ rows, total, url }) => url ?? toolProgress(rows, total)));
  }

  @Tool({ name: 'check_orders', description: 'Checks all orders' })
  async *check(): AsyncIterable<ToolEvent<string>> {
    for (const id of await this.orders.ids())
      yield toolLog('info', `Order ${id} is fine.`);
    yield 'All orders are fine.';
  }
}
// #endregion
