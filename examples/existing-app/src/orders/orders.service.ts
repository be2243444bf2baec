import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { concatMap, from, map, type Observable, timer } from 'rxjs';
import type { CreateOrderDto, FindOrdersDto, OrderDto } from './order.dto.js';

/** The orders of each user. Routes and tools call the same methods, and throw the same errors. */
@Injectable()
export class OrdersService {
  readonly #orders = new Map<string, OrderDto[]>();
  #last = 0;

  find(owner: string, { state }: FindOrdersDto = {}): OrderDto[] {
    return (this.#orders.get(owner) ?? []).filter((order) => state === undefined || order.state === state);
  }

  create(owner: string, { item, count = 1 }: CreateOrderDto): OrderDto {
    const order: OrderDto = { id: `A-${++this.#last}`, item, count, state: 'open' };
    this.#orders.set(owner, [...this.find(owner), order]);
    return order;
  }

  pay(owner: string, id: string): OrderDto {
    const order = this.find(owner).find((one) => one.id === id);
    if (!order) throw new NotFoundException(`You have no order "${id}".`);
    if (order.state !== 'open') throw new ConflictException(`Order "${id}" is ${order.state} already.`);
    order.state = 'paid';
    return order;
  }

  /** Sends what is paid, one after the other. Who unsubscribes stops it. */
  sendPaid(owner: string): Observable<{ order: OrderDto; done: number; total: number }> {
    const paid = this.find(owner, { state: 'paid' });
    return from(paid).pipe(
      concatMap((order) => timer(100).pipe(map(() => Object.assign(order, { state: 'sent' as const })))),
      map((order, index) => ({ order, done: index + 1, total: paid.length })),
    );
  }
}
