import 'reflect-metadata';
import type { INestApplication, NestApplicationOptions } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { AppModule } from './app.module.js';
import { callLine } from './call-line.js';
import { connectHelp } from './connect-help.js';
import { readSettings, type Settings, SettingsError } from './settings.js';

/** Loopback only: a server without guards must not be reachable from a network. */
const HOST = '127.0.0.1';

async function start({ port, adapter }: Settings): Promise<void> {
  // Clients keep idle connections open. Closing them lets the shutdown end as soon as
  // all requests are answered.
  const forceCloseConnections = true;
  const httpAdapter =
    adapter === 'fastify'
      ? new FastifyAdapter({ forceCloseConnections })
      : new ExpressAdapter();
  const options: NestApplicationOptions = {
    logger: ['error', 'warn'],
    forceCloseConnections,
  };
  const app: INestApplication = await NestFactory.create(AppModule, httpAdapter, options);
  // Ctrl-C ends the sessions and answers the calls that are open.
  app.enableShutdownHooks();
  try {
    await app.listen(port, HOST);
  } catch (error) {
    await app.close();
    throw error;
  }
  console.log(connectHelp(`${await app.getUrl()}/mcp`));
  app
    .get(McpSessionService)
    .calls$.subscribe((call) => console.log(callLine(call, new Date())));
}

try {
  await start(readSettings(process.env));
} catch (error) {
  const taken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
  if (taken) console.error('The port is in use. Choose another one: PORT=3001 npm start');
  else console.error(error instanceof SettingsError ? error.message : error);
  process.exitCode = 1;
}
