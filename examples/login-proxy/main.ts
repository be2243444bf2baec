// An MCP endpoint; a login proxy, which clients find by it; an identity provider for this machine, which knows the proxy alone.
import 'reflect-metadata';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { localIdentityProvider } from './identity-provider.js';
import { LoginProxy } from './login-proxy.js';

const { PORT = '3000', ISSUER_PORT = '3001', IDP_PORT = '3002' } = process.env;
const issuer = `http://127.0.0.1:${ISSUER_PORT}`;
const resource = `http://127.0.0.1:${PORT}/mcp`;
const upstream = {
  issuer: `http://127.0.0.1:${IDP_PORT}`,
  clientId: 'login-proxy',
  clientSecret: 'of this machine',
};

const identityProvider = await localIdentityProvider(upstream, `${issuer}/callback`);
const proxy = await LoginProxy.start({
  issuer,
  resource,
  scopes: ['notes:read', 'notes:write'],
  upstream,
});
const app = await NestFactory.create(AppModule.protectedBy(issuer, resource), {
  logger: ['error', 'warn'],
  forceCloseConnections: true,
});
app.enableShutdownHooks();
await app.listen(Number(PORT), '127.0.0.1');
const client = relative('.', fileURLToPath(new URL('client.js', import.meta.url)));
console.log(`${resource} accepts tokens of ${issuer}. Try: node ${client} ${resource}`);

const stop = (): void => {
  for (const server of [proxy, identityProvider]) {
    server.close();
    server.closeAllConnections();
  }
};
process.once('SIGINT', stop);
process.once('SIGTERM', stop);
