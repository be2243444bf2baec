import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

const { PORT = '3000', HOST = '127.0.0.1' } = process.env;

const app = await NestFactory.create(AppModule, { forceCloseConnections: true });
app.enableShutdownHooks();
await app.listen(Number(PORT), HOST);
console.log(
  `MCP at ${await app.getUrl()}/tenants/acme/mcp with the header "X-Api-Key: key-of-ann".`,
);
console.log(
  'Operators: /admin/tools/:name/off, /admin/tenants/:of/plugins, /admin/audit with "X-Api-Key: key-of-olga".',
);
