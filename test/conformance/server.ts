import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { EverythingModule } from './everything.module.js';

const { PORT = '3000', ADAPTER = 'express' } = process.env;
const adapter = ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(EverythingModule, adapter, { logger: ['error', 'warn'] });
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
process.stdout.write(`listening on ${await app.getUrl()}/mcp\n`);
