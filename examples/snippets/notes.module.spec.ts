/// <reference types="vitest/globals" />
// #region spec
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose';
import {
  createMcpTestClient,
  expectNothingLeft,
  refusalOf,
} from 'nestjs-mcp-streamable/testing';
import { NotesModule } from './notes.module.js';

describe('NotesModule', () => {
  let app: INestApplication;
  let keyServer: Server;
  let key: CryptoKey;

  function signedBy(privateKey: CryptoKey): Promise<string> {
    return new SignJWT({ sub: 'ann', client_id: 'test' })
      .setProtectedHeader({ alg: 'ES256' })
      .setIssuer('https://idp.example.com/')
      .setAudience('https://api.example.com/mcp')
      .setExpirationTime('5m')
      .sign(privateKey);
  }

  beforeEach(async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256');
    key = privateKey;
    const keySet = JSON.stringify({ keys: [await exportJWK(publicKey)] });
    keyServer = createServer((_, response) => response.end(keySet));
    await once(keyServer.listen(0, '127.0.0.1'), 'listening');
    const { port } = keyServer.address() as AddressInfo;
    process.env.JWKS_URI = `http://127.0.0.1:${port}`;
    const fixture = await Test.createTestingModule({ imports: [NotesModule] }).compile();
    app = fixture.createNestApplication();
  });

  it('reads a note for a caller whose token is valid', async () => {
    const mcp = await createMcpTestClient(app, { token: await signedBy(key) });
    expect((await mcp.callTool('last_note')).text).toBe('Call Bo.');
    await mcp.close();
  });

  it('refuses a token that is signed with another key', async () => {
    const { privateKey } = await generateKeyPair('ES256');
    const client = createMcpTestClient(app, { token: await signedBy(privateKey) });
    const refusal = await refusalOf(client);
    expect(refusal).toMatchObject({
      status: 401,
      message: 'The signature of the token is not valid.',
    });
  });

  afterEach(async () => {
    await expectNothingLeft(app);
    await app.close();
    keyServer.closeAllConnections();
    keyServer.close();
  });
});
// #endregion
