import { NestFactory } from '@nestjs/core';
import { expect, it, vi } from 'vitest';
import { AppModule } from '../../examples/oauth/app.module.js';
import { localAuthorizationServer } from '../../examples/oauth/authorization-server.js';
import { goThrough } from '../../examples/oauth/client.js';
import { freePort } from '../../bench/harness/free-port.js';

it('the example goes through the whole flow without a browser, by an authorization server of its own', async () => {
  // It says what to change for production, and that Node.js 20 is old.
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  vi.spyOn(console, 'info').mockImplementation(() => {});
  const [port, issuerPort] = [await freePort(), await freePort()];
  const [resource, issuer] = [`http://127.0.0.1:${port}/mcp`, `http://127.0.0.1:${issuerPort}`];
  const authorizationServer = await localAuthorizationServer(issuer, resource);
  const options = { logger: false, forceCloseConnections: true } as const;
  const app = await NestFactory.create(AppModule.protectedBy(issuer, resource), options);
  await app.listen(port, '127.0.0.1');
  try {
    expect(await goThrough(resource)).toEqual([
      'There are no notes yet. (scopes: notes:read)',
      'You have 1 notes. (scopes: notes:read notes:write)',
      'Buy milk (scopes: notes:read notes:write)',
    ]);
  } finally {
    await app.close();
    authorizationServer.closeAllConnections();
    await new Promise((resolve) => authorizationServer.close(resolve));
    vi.restoreAllMocks();
  }
});
