import { Injectable } from '@nestjs/common';
import { McpArgs, Tool, type ToolEvent, toolProgress } from 'nestjs-mcp-streamable';
import { concat, defer, map, type Observable, of, tap } from 'rxjs';
import { CurrentUser, type User } from '../auth/jwt.guard.js';
import { CreateOrderDto, FindOrdersDto, type OrderDto, OrderIdDto } from './order.dto.js';
import { OrdersService } from './orders.service.js';

/**
 * What the controller does for pages, for models. The class of `@McpArgs()` is the schema of the tool, and the decorator for
 * the user that of the routes. An `HttpException` of the service is a result that the model reads.
 */
@Injectable()
export class OrdersTools {
  constructor(private readonly orders: OrdersService) {}

  @Tool({ name: 'find_orders', description: 'Lists your orders', annotations: { readOnlyHint: true } })
  find(@McpArgs() filter: FindOrdersDto, @CurrentUser() user: User): OrderDto[] {
    return this.orders.find(user.id, filter);
  }

  @Tool({ name: 'create_order', description: 'Orders something', annotations: { destructiveHint: false } })
  create(@McpArgs() order: CreateOrderDto, @CurrentUser() user: User): OrderDto {
    return this.orders.create(user.id, order);
  }

  @Tool({ name: 'pay_order', description: 'Pays an open order' })
  pay(@McpArgs() { id }: OrderIdDto, @CurrentUser() user: User): OrderDto {
    return this.orders.pay(user.id, id);
  }

  /** Progress makes the answer a stream; a client that cancels unsubscribes. */
  @Tool({ name: 'send_orders', description: 'Sends all orders that are paid' })
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
