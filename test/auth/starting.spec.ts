import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { expect, it } from 'vitest';
import { serverInfo, TestApp } from '../support/app.js';
import { RawClient } from '../support/raw-client.js';
import { RESOURCE } from './protected-apps.js';

let url = '';
let early: { status: number; header(name: string): string | undefined };

@Injectable()
class Early implements OnModuleInit {
  async onModuleInit(): Promise<void> {
    early = await client().post(client().initializeMessage());
  }
}
@Module({ providers: [Early] })
class EarlyModule {}
@Module({ imports: [EarlyModule] })
class BehindModule {}

const client = (): RawClient => new RawClient(url);

it('A6: an endpoint with "auth" serves nobody before it has started', async () => {
  const auth = { resource: RESOURCE, authorizationServers: ['https://idp.test'] };
  const imports = [McpStreamableModule.forRoot({ serverInfo, auth }), BehindModule];
  // An app whose server has other routes too, and listens before Nest is ready.
  const server = createServer();
  const app = await TestApp.of('express', { imports }, async (made) => {
    server.on('request', made.getHttpAdapter().getInstance() as RequestListener);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  });
  expect(early.status).toBe(503);
  expect(early.header('retry-after')).toBe('1');
  expect((await client().post(client().initializeMessage())).status).toBe(401);
  await new Promise((resolve) => server.close(resolve));
  await app.close();
});
