import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { exportJWK, SignJWT } from 'jose';
import {
  createAppFetch,
  createMcpTestClient,
  expectNothingLeft,
  type McpTestClient,
  refusalOf,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { AppModule as KeyApp } from '../../examples/snippets/api-key.guard.js';
import { ApiKeys, ApiKeyTable } from '../../examples/snippets/api-keys.js';
import { AppModule as BothApp, settings } from '../../examples/snippets/api-keys-and-oauth.js';

let app: INestApplication;
const clients: McpTestClient[] = [];

async function start(module: typeof KeyApp | typeof BothApp): Promise<ApiKeys> {
  const testing = await Test.createTestingModule({ imports: [module] }).compile();
  app = testing.createNestApplication();
  await app.init();
  return app.get(ApiKeys, { strict: false });
}

async function connect(token?: string): Promise<McpTestClient> {
  const client = await createMcpTestClient(app, token === undefined ? {} : { token });
  clients.push(client);
  return client;
}

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await expectNothingLeft(app);
  await app.close();
  vi.useRealTimers();
});

describe('API keys', () => {
  it('a caller with a key is its owner, and has the scopes of the key', async () => {
    const keys = await start(KeyApp);
    const ann = await connect(await keys.issue('ann', ['invoices:read'], 30));
    expect((await ann.callTool('list_invoices')).text).toBe('The invoices of ann: …');
    expect((await ann.list.tools()).map(({ name }) => name)).toEqual(['list_invoices']);
    expect(await refusalOf(ann.callTool('pay_invoice'))).toMatchObject({ status: 403 });
  });

  it('a caller without a key, or with a wrong one, gets 401', async () => {
    const keys = await start(KeyApp);
    const key = await keys.issue('ann', ['invoices:read'], 30);
    const [, id] = key.split('_');
    const wrong = [
      undefined,
      'secret',
      `acme_${id}_${'0'.repeat(64)}`,
      key.slice(0, -1),
      `${key}0`,
      `acme_${'0'.repeat(80)}`,
    ];
    for (const token of wrong) expect((await refusalOf(connect(token))).status).toBe(401);
    expect((await refusalOf(connect('acme___proto___x'))).status).toBe(401);
  });

  it('a key ends at its time, and when its owner, and no one else, deletes it', async () => {
    const keys = await start(KeyApp);
    const [key, brief] = [await keys.issue('ann', [], 30), await keys.issue('ann', [], 1)];
    const id = key.split('_')[1]!;
    expect(await keys.revoke(id, 'bob')).toBe(false);
    expect(await keys.find(key)).toMatchObject({ owner: 'ann' });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 86_400_000 });
    expect(await keys.find(brief)).toBeUndefined();
    expect(await keys.revoke(id, 'ann')).toBe(true);
    expect(await keys.find(key)).toBeUndefined();
  });

  it('the table has no key in it', async () => {
    const keys = await start(KeyApp);
    const key = await keys.issue('ann', [], 30);
    const [, id, secret] = key.split('_');
    const row = await app.get(ApiKeyTable, { strict: false }).find(id!);
    expect(JSON.stringify(row)).not.toContain(secret);
    expect(row!.hash.toString('hex')).not.toContain(secret!);
  });
});

describe('API keys beside OAuth', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const original = { ...settings };
  let stop = (): void => {};

  async function startBoth(): Promise<ApiKeys> {
    const jwk = { ...(await exportJWK(publicKey)), alg: 'ES256', kid: 'a' };
    const server = createServer((_request, response) => response.end(JSON.stringify({ keys: [jwk] })));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    settings.jwksUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    stop = () => void server.close(() => server.closeAllConnections());
    return start(BothApp);
  }

  const tokenOf = (claims: Record<string, unknown> = {}, key = privateKey): Promise<string> =>
    new SignJWT({ scope: 'invoices:read invoices:pay', client_id: 'claude', ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'a' })
      .setIssuer(settings.issuer)
      .setAudience((claims['aud'] as string) ?? settings.resource)
      .setSubject('ann')
      .setExpirationTime('5m')
      .sign(key);

  afterEach(() => {
    stop();
    Object.assign(settings, original);
  });

  it('a key and an access token of one user are one caller, each with its own scopes', async () => {
    const keys = await startBoth();
    const byKey = await connect(await keys.issue('ann', ['invoices:read'], 30));
    const byToken = await connect(await tokenOf());
    const name = `${settings.issuer}|ann`;
    for (const client of [byKey, byToken]) {
      expect((await client.callTool('list_invoices')).text).toBe(`The invoices of ${name}: …`);
    }
    expect((await byToken.callTool('pay_invoice')).text).toBe(`${name} has paid.`);
    expect(await refusalOf(byKey.callTool('pay_invoice'))).toMatchObject({ status: 403 });
  });

  it('wrong keys and tokens get 401, with the way to the login', async () => {
    const keys = await startBoth();
    const key = await keys.issue('ann', [], 30);
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    const wrong = [
      `${key.slice(0, -1)}x`,
      await tokenOf({ aud: 'https://other.example.com' }),
      await tokenOf({}, other),
      'not.a.jwt',
      // Bytes that end in the text of a key are none.
      `x${key}`,
    ];
    for (const token of wrong) {
      const { status, challenge } = await refusalOf(connect(token));
      expect(status).toBe(401);
      expect(challenge).toMatchObject({ resourceMetadata: expect.stringContaining('/.well-known/') });
    }
    expect((await refusalOf(connect())).status).toBe(401);
  });

  it('while the keys of the issuer cannot be fetched, tokens get 503 and API keys work', async () => {
    const keys = await startBoth();
    const token = await tokenOf();
    stop();
    const key = await connect(await keys.issue('ann', ['invoices:read'], 30));
    expect((await key.callTool('list_invoices')).isError).toBe(false);
    const { status } = await (
      await createAppFetch(app)
    )('/mcp', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    });
    expect(status).toBe(503);
  });

  it('a deleted key is refused at once', async () => {
    const keys = await startBoth();
    const key = await keys.issue('ann', ['invoices:read'], 30);
    const ann = await connect(key);
    await ann.callTool('list_invoices');
    await keys.revoke(key.split('_')[1]!, 'ann');
    expect((await refusalOf(connect(key))).status).toBe(401);
    expect(await refusalOf(ann.callTool('list_invoices'))).toMatchObject({ status: 401 });
  });

  it('users make keys by their login alone, and with no more scopes than they have', async () => {
    const keys = await startBoth();
    const server = await (await app.listen(0, '127.0.0.1'), app.getUrl());
    const post = (headers: Record<string, string>) =>
      fetch(`${server}/keys`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ scopes: ['invoices:read', 'invoices:pay', 'admin'] }),
      });
    const { key } = (await (await post({ cookie: 'login=ann' })).json()) as { key: string };
    expect(await keys.find(key)).toMatchObject({ owner: 'ann', scopes: ['invoices:read'] });
    // A key makes no further keys.
    expect((await post({ authorization: `Bearer ${key}` })).status).toBe(401);
    const revoked = await fetch(`${server}/keys/${key.split('_')[1]}`, {
      method: 'DELETE',
      headers: { cookie: 'login=ann' },
    });
    expect(await revoked.json()).toEqual({ deleted: true });
    expect(await keys.find(key)).toBeUndefined();
  });
});
