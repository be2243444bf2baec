import type { DataSource } from 'typeorm';
import { hashed } from '../auth/passwords.js';
import { User } from '../auth/user.entity.js';
import { Contact } from '../contacts/contact.entity.js';
import { Deal } from '../deals/deal.entity.js';
import { View } from '../views/view.entity.js';

/** What a throw-away database has: two tenants, and one operator. */
export async function addDemoData({ manager }: DataSource): Promise<void> {
  const users = [
    { id: 'ann', tenant: 'acme', role: 'manager' },
    { id: 'sam', tenant: 'acme', role: 'seller' },
    { id: 'gus', tenant: 'globex', role: 'manager' },
    { id: 'olga', tenant: 'crm', role: 'operator' },
  ] as const;
  for (const user of users)
    await manager.insert(User, {
      ...user,
      password: await hashed(`secret of ${user.id}`),
    });

  for (const [tenant, name] of [
    ['acme', 'Wile E. Coyote'],
    ['globex', 'Hank Scorpio'],
  ] as const) {
    const contact = manager.create(Contact, {
      tenant,
      name,
      email: `boss@${tenant}.example`,
    });
    await manager.save(contact);
    await manager.insert(Deal, {
      tenant,
      contact: contact.id,
      title: `Anvils for ${name}`,
      cents: 50_000,
    });
  }
  await manager.insert(View, {
    tenant: 'acme',
    name: 'big_open_deals',
    description: 'Lists open deals of 100 euros and more',
    stage: 'open',
    cents: 10_000,
  });
}
