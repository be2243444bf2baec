import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import { configure } from './configure.js';

const { PORT = '3000', HOST = '127.0.0.1' } = process.env;

const app = await NestFactory.create<NestExpressApplication>(AppModule, {
  // MCP: clients keep connections open, which would hold up the end of the process.
  forceCloseConnections: true,
});
configure(app);
// MCP: at SIGTERM calls are answered and streams end, before the server closes.
app.enableShutdownHooks();
await app.listen(Number(PORT), HOST);
console.log(`REST at ${await app.getUrl()}/api/v1, its document at /docs, MCP at /api/mcp`);
