import { Injectable } from '@nestjs/common';
import { Tool, type ToolEvent, toolProgress } from 'nestjs-mcp-streamable';
import { concat, defer, map, type Observable, of, tap } from 'rxjs';
import { CurrentUser, type User } from '../auth/jwt.guard.js';
import { OrdersService } from './orders.service.js';

/** MCP: a tool that is no route, since it reports progress. The decorator for the user is that of the routes. */
@Injectable()
export class OrdersTools {
  constructor(private readonly orders: OrdersService) {}

  /** Progress makes the answer a stream; a client that cancels unsubscribes. */
  @Tool({
    name: 'send_orders',
    title: 'Send orders',
    description: 'Sends all orders that are paid',
    annotations: { destructiveHint: true },
  })
  send(@CurrentUser() user: User): Observable<ToolEvent<string>> {
    let sent = 0;
    const progress$ = this.orders.sendPaid(user.id).pipe(
      tap(({ done }) => (sent = done)),
      map(({ order, done, total }) => toolProgress(done, total, order.item)),
    );
    const result$ = defer(() => of(`${sent} orders are on their way.`));
    return concat(progress$, result$);
  }
}
