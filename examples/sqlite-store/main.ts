import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

const { PORT = '3000', SQLITE_FILE = 'sessions.sqlite' } = process.env;

const app = await NestFactory.create(AppModule.over(SQLITE_FILE), {
  logger: ['error', 'warn'],
  forceCloseConnections: true,
});
// At SIGTERM, also that of `nest start --watch`, calls are answered and streams end; sessions stay in the file.
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
console.log(`Process ${process.pid} listens on ${await app.getUrl()}/mcp`);
