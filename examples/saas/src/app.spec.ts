import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  createAppFetch,
  createMcpTestClient,
  expectNothingLeft,
  type McpAppFetch,
  type McpTestClient,
  type McpTestClientOptions,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AppModule } from './app.module.js';

const KEYS = { ann: 'key-of-ann', gus: 'key-of-gus' } as const;
const TENANTS = { ann: 'acme', gus: 'globex' } as const;
const GREET = {
  name: 'greet',
  description: 'Greets a city',
  inputSchema: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
  },
  template: 'Hello, {city}!',
};

let app: INestApplication;
let fetch: McpAppFetch;
const clients: McpTestClient[] = [];

async function clientOf(
  user: keyof typeof KEYS,
  options: McpTestClientOptions = {},
): Promise<McpTestClient> {
  const endpoint = `/tenants/${TENANTS[user]}/mcp`;
  const client = await createMcpTestClient(app, {
    endpoint,
    headers: { 'x-api-key': KEYS[user] },
    ...options,
  });
  clients.push(client);
  return client;
}

/** Does something as an operator. */
async function operate(method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(`/admin/${path}`, {
    method,
    headers: { 'x-api-key': 'key-of-olga', 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  expect(response.ok).toBe(true);
  const text = await response.text();
  return text === '' ? undefined : JSON.parse(text);
}

const namesOf = async (client: McpTestClient): Promise<string[]> =>
  (await client.list.tools()).map(({ name }) => name);

beforeEach(async () => {
  const fixture = await Test.createTestingModule({ imports: [AppModule] }).compile();
  app = fixture.createNestApplication();
  await app.init();
  fetch = await createAppFetch(app);
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await expectNothingLeft(app);
  await app.close();
});

describe('tenants and plans', () => {
  it('give each user the orders of its own tenant', async () => {
    expect(
      (await (await clientOf('ann')).callTool('list_orders')).structured,
    ).toMatchObject({
      orders: [{ id: 'A-1' }],
    });
    expect(
      (await (await clientOf('gus')).callTool('list_orders')).structured,
    ).toMatchObject({
      orders: [{ id: 'G-1' }],
    });
  });

  it('hide the endpoint of another tenant', async () => {
    await expect(clientOf('ann', { endpoint: '/tenants/globex/mcp' })).rejects.toThrow(
      'Not Found',
    );
  });

  it('hide tools that the plan of a tenant does not have', async () => {
    expect(await namesOf(await clientOf('ann'))).toContain('refund');
    expect(await namesOf(await clientOf('gus'))).not.toContain('refund');
  });
});

describe('plugins', () => {
  it('are tools of the tenant that has installed them, at once', async () => {
    const [ann, gus] = [await clientOf('ann'), await clientOf('gus')];
    expect(await namesOf(ann)).not.toContain('greet');
    await operate('PUT', 'tenants/acme/plugins', GREET);
    expect(await namesOf(ann)).toContain('greet');
    expect((await ann.callTool('greet', { city: 'Zurich' })).text).toBe('Hello, Zurich!');
    expect(await ann.callTool('greet', { city: 7 })).toMatchObject({ isError: true });
    expect(await namesOf(gus)).not.toContain('greet');
    await expect(gus.callTool('greet', { city: 'Zurich' })).rejects.toThrow('greet');
  });

  it('ask the user first, if their text says so', async () => {
    const asked: string[] = [];
    const ann = await clientOf('ann', {
      elicit: ({ message }) => {
        asked.push(message);
        return { action: 'decline' };
      },
    });
    await operate('PUT', 'tenants/acme/plugins', { ...GREET, confirm: 'Greet {city}?' });
    expect(await ann.callTool('greet', { city: 'Zurich' })).toMatchObject({
      isError: true,
    });
    expect(asked).toEqual(['Greet "Zurich"?']);
  });
});

describe('effects', () => {
  it('are asked for before an order is deleted', async () => {
    const asked: string[] = [];
    const elicit = (action: 'accept' | 'decline') => ({
      elicit: ({ message }: { message: string }) => {
        asked.push(message);
        return { action, content: {} };
      },
    });
    const refusing = await clientOf('ann', elicit('decline'));
    expect(await refusing.callTool('delete_order', { id: 'A-1' })).toMatchObject({
      isError: true,
    });
    const accepting = await clientOf('ann', elicit('accept'));
    expect((await accepting.callTool('delete_order', { id: 'A-1' })).text).toBe(
      'Deleted A-1.',
    );
    expect(asked).toEqual([
      'Delete the order A-1 for good?',
      'Delete the order A-1 for good?',
    ]);
  });

  it('happen once although a refund is repeated', async () => {
    const ann = await clientOf('ann');
    const refund = { id: 'A-1', amount: 5, iban: 'CH93 0076 2011', requestId: '7f9c' };
    const calls = [ann.callTool('refund', refund), ann.callTool('refund', refund)];
    for (const { text } of await Promise.all(calls))
      expect(text).toBe('Refunded 5; 5 in all.');
    expect((await ann.callTool('list_orders')).structured).toMatchObject({
      orders: [{ refunded: 5 }],
    });
  });
});

describe('operators', () => {
  it('switch a tool off, and the model reads why', async () => {
    const ann = await clientOf('ann');
    await operate('PUT', 'tools/refund/off', { reason: 'The bank is closed.' });
    expect(await namesOf(ann)).not.toContain('refund');
    const refund = { id: 'A-1', amount: 5, iban: 'CH93', requestId: '1' };
    expect(await ann.callTool('refund', refund)).toMatchObject({
      isError: true,
      text: expect.stringContaining('The bank is closed.'),
    });
    await operate('DELETE', 'tools/refund/off');
    expect((await ann.callTool('refund', refund)).isError).toBe(false);
  });

  it('read who did what, without secrets', async () => {
    const ann = await clientOf('ann');
    await ann.callTool('refund', {
      id: 'A-1',
      amount: 5,
      iban: 'CH93 0076 2011',
      requestId: '1',
    });
    const records = JSON.stringify(await operate('GET', 'audit'));
    expect(JSON.parse(records)).toContainEqual(
      expect.objectContaining({
        principal: 'ann',
        name: 'refund',
        outcome: 'served',
        arguments: { id: 'A-1', amount: 5, iban: '[redacted]', requestId: '1' },
      }),
    );
    expect(records).not.toContain('0076');
  });
});
