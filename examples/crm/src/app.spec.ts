import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { context, trace } from '@opentelemetry/api';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import {
  createAppFetch,
  createMcpTestClient,
  expectHealthy,
  expectNothingLeft,
  type McpAppFetch,
  type McpTestClient,
  type McpTestClientOptions,
} from 'nestjs-mcp-streamable/testing';
import { DataSource } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { AppModule } from './app.module.js';
import { Audit } from './audit/audit.entity.js';
import { addDemoData } from './database/demo-data.js';
import { startThrowAwayDatabase, type ThrowAwayDatabase } from './database/throw-away.js';
import { Payment } from './deals/deal.entity.js';

const REQUEST = 'c6e1c0f0-6d0b-4f6e-9a43-0f6a3a1c2b11';

let database: ThrowAwayDatabase;
let app: INestApplication;
let fetch: McpAppFetch;
const clients: McpTestClient[] = [];

beforeAll(async () => {
  database = await startThrowAwayDatabase();
  process.env['DATABASE_URL'] = database.url;
});
afterAll(async () => {
  delete process.env['DATABASE_URL'];
  await database.stop();
});

beforeEach(async () => {
  const fixture = await Test.createTestingModule({ imports: [AppModule] }).compile();
  app = fixture.createNestApplication({ logger: false });
  await app.init();
  await addDemoData(app.get(DataSource));
  fetch = await createAppFetch(app);
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await expectNothingLeft(app);
  await app.get(DataSource).dropDatabase();
  await app.close();
});

async function send(method: string, path: string, body?: object, token?: string) {
  const headers = {
    'content-type': 'application/json',
    ...(token && { authorization: `Bearer ${token}` }),
  };
  const response = await fetch(path, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as unknown };
}

async function login(name: string): Promise<string> {
  const { body } = await send('POST', '/auth/login', {
    name,
    password: `secret of ${name}`,
  });
  return (body as { token: string }).token;
}

async function clientOf(
  name: string,
  options: McpTestClientOptions = {},
): Promise<McpTestClient> {
  const client = await createMcpTestClient(app, { token: await login(name), ...options });
  clients.push(client);
  return client;
}

const namesOf = async (client: McpTestClient): Promise<string[]> =>
  (await client.list.tools()).map(({ name }) => name).toSorted();

describe('callers', () => {
  it('log in with the right password', async () => {
    const wrong = { name: 'ann', password: 'secret of sam' };
    expect((await send('POST', '/auth/login', wrong)).status).toBe(401);
    expect((await send('GET', '/contacts')).status).toBe(401);
    await expect(createMcpTestClient(app, { token: 'forged' })).rejects.toThrow('401');
  });

  it('see the tools of their role', async () => {
    const seller = [
      'big_open_deals',
      'contacts_create',
      'contacts_find',
      'deals_find',
      'deals_pay',
    ];
    expect(await namesOf(await clientOf('sam'))).toEqual(seller);
    const manager = [...seller, 'contacts_remove', 'views_save'].toSorted();
    expect(await namesOf(await clientOf('ann'))).toEqual(manager);
    expect(
      (await send('DELETE', '/contacts/1', undefined, await login('sam'))).status,
    ).toBe(403);
  });

  it('work on the data of their tenant', async () => {
    const gus = await clientOf('gus');
    expect((await gus.callTool('contacts_find')).text).toContain('Hank Scorpio');
    expect((await gus.callTool('contacts_find', { name: 'coyote' })).text).toBe('[]');
    expect(
      await gus.callTool('deals_pay', { id: 1, requestId: REQUEST, cents: 1 }),
    ).toMatchObject({
      isError: true,
      text: 'There is no deal 1.',
    });
  });

  it('may call a number of tools a minute', async () => {
    const sam = await clientOf('sam');
    for (let call = 0; call < 100; call++) await sam.callTool('deals_find');
    expect(await sam.callTool('deals_find')).toMatchObject({ isError: true });
    expect(await (await clientOf('ann')).callTool('deals_find')).toMatchObject({
      isError: false,
    });
  });
});

describe('contacts', () => {
  it('are checked by the rules of the DTO', async () => {
    const sam = await clientOf('sam');
    const ada = { name: 'Ada Lovelace', email: 'ada@example.com' };
    expect((await sam.callTool('contacts_create', ada)).structured).toMatchObject(ada);
    expect(await sam.callTool('contacts_create', ada)).toMatchObject({
      isError: true,
      text: 'Another contact has the address ada@example.com.',
    });
    expect(await sam.callTool('contacts_create', { ...ada, email: 'ada' })).toMatchObject(
      {
        isError: true,
        text: expect.stringContaining('email must be an email'),
      },
    );
  });

  it('are deleted if the user confirms it', async () => {
    let action: 'accept' | 'decline' = 'decline';
    const ann = await clientOf('ann', { elicit: () => ({ action, content: {} }) });
    expect(await ann.callTool('contacts_remove', { id: 1 })).toMatchObject({
      isError: true,
    });
    expect((await ann.callTool('contacts_find')).text).toContain('Coyote');
    action = 'accept';
    expect((await ann.callTool('contacts_remove', { id: 1 })).structured).toEqual({
      removed: 1,
    });
    expect((await ann.callTool('contacts_find')).text).toBe('[]');
  });
});

describe('payments', () => {
  const payment = { id: 1, requestId: REQUEST, cents: 20_000 };
  const paymentsMade = () => app.get(DataSource).manager.count(Payment);

  it('happen once although a call is repeated, by a tool or by the route', async () => {
    const sam = await clientOf('sam');
    expect((await sam.callTool('deals_pay', payment)).structured).toMatchObject({
      paid: 20_000,
    });
    expect((await sam.callTool('deals_pay', payment)).structured).toMatchObject({
      paid: 20_000,
    });
    const { requestId, cents } = payment;
    const byRoute = await send(
      'POST',
      '/deals/1/payments',
      { requestId, cents },
      await login('sam'),
    );
    expect(byRoute).toMatchObject({ status: 200, body: { paid: 20_000 } });
    expect(await paymentsMade()).toBe(1);
  });

  it('keep nothing when they fail', async () => {
    const sam = await clientOf('sam');
    const result = await sam.callTool('deals_pay', { ...payment, cents: 50_001 });
    expect(result).toMatchObject({ isError: true, text: 'Only 50000 cents are open.' });
    expect(await paymentsMade()).toBe(0);
  });
});

describe('views', () => {
  it('are tools of the tenant that has saved them, at once', async () => {
    const [ann, gus] = [await clientOf('ann'), await clientOf('gus')];
    expect((await ann.callTool('big_open_deals')).structured).toMatchObject({
      deals: [{ id: 1 }],
    });
    const view = {
      name: 'lost_deals',
      description: 'Lists lost deals',
      stage: 'lost',
      cents: 0,
    };
    await ann.callTool('views_save', view);
    expect(await namesOf(ann)).toContain('lost_deals');
    expect((await ann.callTool('lost_deals')).structured).toEqual({ deals: [] });
    expect(await namesOf(gus)).not.toContain('lost_deals');
    await expect(gus.callTool('lost_deals')).rejects.toThrow('lost_deals');
  });
});

describe('operators', () => {
  it('find each decision in the table of the audit', async () => {
    await (await clientOf('sam')).callTool('contacts_find', { name: 'wile' });
    const rows = app.get(DataSource).getRepository(Audit);
    await expect
      .poll(() => rows.findOneBy({ tenant: 'acme' }))
      .toMatchObject({
        outcome: 'served',
        record: {
          name: 'contacts_find',
          principal: 'acme|sam',
          arguments: { name: 'wile' },
        },
      });
  });

  it('see the live page with their password', async () => {
    const page = (user: string) => {
      const basic = Buffer.from(`${user}:secret of ${user}`).toString('base64');
      return fetch('/mcp-live', { headers: { authorization: `Basic ${basic}` } });
    };
    expect((await page('olga')).status).toBe(200);
    const other = await page('ann');
    expect([other.status, other.headers.get('www-authenticate')]).toEqual([
      401,
      'Basic realm="live"',
    ]);
  });

  it('have metrics and spans of the calls', async () => {
    const exporter = new InMemorySpanExporter();
    trace.setGlobalTracerProvider(
      new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
    );
    try {
      await (await clientOf('sam')).callTool('deals_find');
    } finally {
      trace.disable();
      context.disable();
    }
    expect(exporter.getFinishedSpans().map(({ name }) => name)).toContain(
      'tools/call deals_find',
    );
    expect(await (await fetch('/metrics')).text()).toContain('deals_find');
  });
});

describe('the doctor', () => {
  it('has no findings', async () => {
    await expectHealthy(app);
  });
});
