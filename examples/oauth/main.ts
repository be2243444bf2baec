// An MCP endpoint that wants a login, and an authorization server for this machine beside it.
import 'reflect-metadata';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { localAuthorizationServer } from './authorization-server.js';

const { PORT = '3000', ISSUER_PORT = '3001' } = process.env;
const issuer = `http://127.0.0.1:${ISSUER_PORT}`;
const resource = `http://127.0.0.1:${PORT}/mcp`;

const authorizationServer = await localAuthorizationServer(issuer, resource);
const app = await NestFactory.create(AppModule.protectedBy(issuer, resource), {
  logger: ['error', 'warn'],
  forceCloseConnections: true,
});
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
const client = relative('.', fileURLToPath(new URL('client.js', import.meta.url)));
console.log(`${resource} accepts tokens of ${issuer}. Try: node ${client} ${resource}`);

const stop = (): void => {
  authorizationServer.close();
  authorizationServer.closeAllConnections();
};
process.once('SIGINT', stop);
process.once('SIGTERM', stop);
