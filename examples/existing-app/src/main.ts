import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { configure } from './configure.js';

const { PORT = '3000', HOST = '127.0.0.1' } = process.env;

const app = await NestFactory.create(AppModule, {
  // MCP: clients keep connections open, which would hold up the end of the process.
  forceCloseConnections: true,
});
configure(app);
// MCP: at SIGTERM calls are answered and streams end, before the server closes.
app.enableShutdownHooks();
await app.listen(Number(PORT), HOST);
console.log(`REST at ${await app.getUrl()}/api/v1, its document at /docs, MCP at /api/mcp`);
