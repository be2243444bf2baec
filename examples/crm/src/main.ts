import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { AppModule } from './app.module.js';
import { addDemoData } from './database/demo-data.js';
import { startThrowAwayDatabase } from './database/throw-away.js';

const { PORT = '3000', HOST = '127.0.0.1', NODE_ENV, DATABASE_URL } = process.env;

if (NODE_ENV === 'production' && !(DATABASE_URL && process.env['JWT_SECRET']))
  throw new Error('In production, set DATABASE_URL and JWT_SECRET.');
const isThrowAway = !DATABASE_URL;
if (isThrowAway) process.env['DATABASE_URL'] = (await startThrowAwayDatabase()).url;

const app = await NestFactory.create(AppModule, { forceCloseConnections: true });
// At SIGTERM calls are answered and streams end, before the connections to the database do.
app.enableShutdownHooks();
if (isThrowAway) await addDemoData(app.get(DataSource));
await app.listen(Number(PORT), HOST);
const url = await app.getUrl();
console.log(
  `MCP at ${url}/mcp, REST at ${url}/contacts, the live page at ${url}/mcp-live`,
);
