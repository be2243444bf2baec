import { ConflictException, Injectable, NotFoundException } from '@nestjs/common';
import { ILike } from 'typeorm';
import { Transactions } from '../database/transactions.js';
import type { ContactDto, CreateContactDto } from './contact.dto.js';
import { Contact } from './contact.entity.js';

@Injectable()
export class ContactsService {
  constructor(private readonly transactions: Transactions) {}

  find(tenant: string, name = ''): Promise<ContactDto[]> {
    const where = { tenant, name: ILike(`%${name}%`) };
    return this.#contacts.find({ where, order: { id: 'ASC' }, take: 50 });
  }

  async create(tenant: string, { name, email }: CreateContactDto): Promise<ContactDto> {
    const inserting = this.#contacts.createQueryBuilder().insert();
    const { identifiers } = await inserting
      .values({ tenant, name, email })
      .orIgnore()
      .execute();
    const [row] = identifiers as ({ id: number } | undefined)[];
    if (!row) throw new ConflictException(`Another contact has the address ${email}.`);
    return { id: row.id, name, email };
  }

  async remove(tenant: string, id: number): Promise<void> {
    const { affected } = await this.#contacts.delete({ tenant, id });
    if (affected === 0) throw new NotFoundException(`There is no contact ${id}.`);
  }

  get #contacts() {
    return this.transactions.manager.getRepository(Contact);
  }
}
