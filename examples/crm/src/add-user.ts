// node dist/add-user.js ann acme manager        (DATABASE_URL and PASSWORD are set)
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { AppModule } from './app.module.js';
import { hashed } from './auth/passwords.js';
import { type Role, User } from './auth/user.entity.js';

const [id, tenant, role] = process.argv.slice(2);
const { DATABASE_URL, PASSWORD } = process.env;
if (!DATABASE_URL || !PASSWORD || !id || !tenant || !role)
  throw new Error(
    'Set DATABASE_URL and PASSWORD, and name the user, its tenant and role.',
  );

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
const { manager } = app.get(DataSource);
await manager.insert(User, {
  id,
  tenant,
  role: role as Role,
  password: await hashed(PASSWORD),
});
await app.close();
