import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { MoreThanOrEqual } from 'typeorm';
import { Transactions } from '../database/transactions.js';
import type { DealDto, PayDto } from './deal.dto.js';
import { Deal, Payment, type Stage } from './deal.entity.js';

@Injectable()
export class DealsService {
  constructor(private readonly transactions: Transactions) {}

  find(tenant: string, stage?: Stage, cents = 0): Promise<DealDto[]> {
    const where = { tenant, cents: MoreThanOrEqual(cents), ...(stage && { stage }) };
    const order = { id: 'ASC' } as const;
    return this.transactions.manager.find(Deal, { where, order, take: 50 });
  }

  /**
   * Its key is written in the transaction of the payment. So a repeat finds it in any case:
   * also if the process has died before the result was stored, and for callers of the route.
   */
  pay(tenant: string, id: number, pay: PayDto, signal?: AbortSignal): Promise<DealDto> {
    return this.transactions.run(async () => {
      const { manager } = this.transactions;
      const where = { tenant, id };
      const deal = await manager.findOne(Deal, {
        where,
        lock: { mode: 'pessimistic_write' },
      });
      if (!deal) throw new NotFoundException(`There is no deal ${id}.`);

      const { cents } = pay;
      const key = { tenant, request: pay.requestId };
      const last = await manager.findOneBy(Payment, key);
      if (last?.deal === id && last.cents === cents) return deal;
      if (last) throw new ConflictException('This requestId stands for another payment.');
      if (deal.paid + cents > deal.cents)
        throw new ConflictException(`Only ${deal.cents - deal.paid} cents are open.`);

      await manager.insert(Payment, { ...key, deal: id, cents });
      deal.paid += cents;
      if (deal.paid === deal.cents) deal.stage = 'won';
      await manager.update(Deal, where, { paid: deal.paid, stage: deal.stage });
      return deal;
    }, signal);
  }
}
