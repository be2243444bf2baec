// #region script
import 'reflect-metadata';
import { writeFileSync } from 'node:fs';
import { NestFactory } from '@nestjs/core';
import { mcpServerJson } from 'nestjs-mcp-streamable';
import { CardModule } from './card-app.js';

const app = await NestFactory.createApplicationContext(CardModule, { logger: ['error'] });
const document = mcpServerJson(app, {
  packages: [{ registryType: 'npm', identifier: '@example/orders' }],
});
writeFileSync('server.json', JSON.stringify(document, null, 2));
await app.close();
// #endregion
