import { Injectable, NotFoundException } from '@nestjs/common';
import { from, type Observable, of, concatMap, delay } from 'rxjs';

export interface Order {
  id: string;
  item: string;
  owner: string;
}

export interface ExportStep {
  rows: number;
  total: number;
  /** With the last step. */
  url?: string;
}

@Injectable()
export class Orders {
  readonly #orders: readonly Order[] = [
    { id: '7', item: 'lamp', owner: 'ann' },
    { id: '8', item: 'chair', owner: 'bob' },
  ];

  find(id: string): Promise<Order> {
    const order = this.#orders.find((each) => each.id === id);
    if (order) return Promise.resolve(order);
    return Promise.reject(new NotFoundException(`There is no order ${id}.`));
  }

  ids(): Promise<string[]> {
    return Promise.resolve(this.#orders.map(({ id }) => id));
  }

  export$(): Observable<ExportStep> {
    return from([50, 100]).pipe(
      concatMap((rows) => of(rows).pipe(delay(1))),
      concatMap((rows) => [
        {
          rows,
          total: 100,
          ...(rows === 100 && { url: 'https://example.com/orders.csv' }),
        },
      ]),
    );
  }
}
