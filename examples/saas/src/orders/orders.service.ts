import { Injectable, NotFoundException } from '@nestjs/common';

export interface Order {
  readonly id: string;
  readonly item: string;
  readonly refunded: number;
}

/** The orders of all tenants. */
@Injectable()
export class Orders {
  readonly #ofTenants = new Map<string, Map<string, Order>>([
    ['acme', new Map([['A-1', { id: 'A-1', item: 'anvil', refunded: 0 }]])],
    ['globex', new Map([['G-1', { id: 'G-1', item: 'globe', refunded: 0 }]])],
  ]);

  list(tenant: string): Order[] {
    return [...this.#of(tenant).values()];
  }

  refund(tenant: string, id: string, amount: number): Order {
    const order = this.#find(tenant, id);
    const refunded = { ...order, refunded: order.refunded + amount };
    this.#of(tenant).set(id, refunded);
    return refunded;
  }

  remove(tenant: string, id: string): void {
    this.#find(tenant, id);
    this.#of(tenant).delete(id);
  }

  #of(tenant: string): Map<string, Order> {
    return this.#ofTenants.get(tenant) ?? new Map<string, Order>();
  }

  #find(tenant: string, id: string): Order {
    const order = this.#of(tenant).get(id);
    if (!order) throw new NotFoundException(`There is no order ${id}.`);
    return order;
  }
}
