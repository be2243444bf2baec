import { NestFactory } from '@nestjs/core';
import { ParcelsModule } from './parcels.module.js';

const app = await NestFactory.create(ParcelsModule, { forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
