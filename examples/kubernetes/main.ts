// #region main
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

const app = await NestFactory.create(AppModule, { forceCloseConnections: true });
app.enableShutdownHooks(); // SIGTERM ends calls in order
await app.listen(Number(process.env['PORT'] ?? 3000), '0.0.0.0');
// #endregion
