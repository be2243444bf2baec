import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  type McpAppFetch,
  createAppFetch,
  createMcpTestClient,
  expectHealthy,
  expectNothingLeft,
  type McpTestClient,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AppModule } from './app.module.js';
import { configure } from './configure.js';

let app: INestApplication;
let request: McpAppFetch;

beforeEach(async () => {
  const fixture = await Test.createTestingModule({ imports: [AppModule] }).compile();
  app = fixture.createNestApplication();
  configure(app);
  await app.init();
  request = await createAppFetch(app);
});
afterEach(async () => {
  await expectNothingLeft(app);
  await app.close();
});

async function send(method: string, path: string, body?: object, token?: string) {
  const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) };
  const response = await request(path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

async function login(name: string): Promise<string> {
  const { body } = await send('POST', '/api/v1/auth/login', { name, password: `secret of ${name}` });
  return (body as { data: { token: string } }).data.token;
}

describe('REST', () => {
  it('wants a login', async () => {
    expect(await send('GET', '/api/v1/orders')).toMatchObject({ status: 401 });
    expect(await send('POST', '/api/v1/auth/login', { name: 'ann', password: '?' })).toMatchObject({ status: 401 });
  });

  it('checks bodies, and wraps what it answers', async () => {
    const token = await login('ann');
    const created = await send('POST', '/api/v1/orders', { item: 'tea' }, token);
    expect(created).toMatchObject({ status: 201, body: { data: { id: 'A-1', item: 'tea', count: 1, state: 'open' } } });
    expect(await send('POST', '/api/v1/orders', { item: 'tea', price: 0 }, token)).toMatchObject({ status: 400 });
    expect((await send('GET', '/api/v1/orders?state=open', undefined, token)).body).toMatchObject({
      data: [{ id: 'A-1' }],
    });
  });

  it('has a document of its routes, and of nothing else', async () => {
    const { body, headers } = await send('GET', '/docs-json');
    expect(Object.keys((body as { paths: object }).paths)).toEqual([
      '/api/v1/auth/login',
      '/api/v1/orders',
      '/api/v1/orders/{id}/pay',
    ]);
    expect(headers.get('content-security-policy')).toContain("default-src 'self'");
  });
});

it('MCP wants a login', async () => {
  await expect(createMcpTestClient(app)).rejects.toThrow('401');
});

// Sessions, and the revision that has none.
describe.each(['legacy', 'modern'] as const)('MCP (%s)', (era) => {
  let token: string;
  let mcp: McpTestClient;

  beforeEach(async () => {
    token = await login('ann');
    mcp = await createMcpTestClient(app, { era, token });
  });
  afterEach(() => mcp.close());

  it('has the rules and descriptions of the DTOs', async () => {
    const tools = await mcp.list.tools();
    expect(tools.map(({ name }) => name)).toEqual(['send_orders', 'orders_find', 'orders_create', 'orders_pay']);
    expect(tools[2]!.inputSchema).toMatchObject({
      properties: {
        item: { type: 'string', minLength: 1, maxLength: 100, description: 'What is ordered, such as "green tea"' },
        count: { type: 'integer', minimum: 1, maximum: 100, description: 'How many of it' },
      },
      required: ['item'],
    });
  });

  it('works on the orders of the routes, of this user alone', async () => {
    await send('POST', '/api/v1/orders', { item: 'tea' }, token);
    expect((await mcp.callTool('orders_create', { item: 'cake', count: 2 })).structured).toMatchObject({ id: 'A-2' });
    await mcp.callTool('orders_pay', { id: 'A-2' });
    expect((await send('GET', '/api/v1/orders?state=paid', undefined, token)).body).toEqual({
      data: [{ id: 'A-2', item: 'cake', count: 2, state: 'paid' }],
    });

    const bob = await createMcpTestClient(app, { era, token: await login('bob') });
    expect((await bob.callTool('orders_find')).text).toBe('[]');
    expect(await bob.callTool('orders_pay', { id: 'A-1' })).toMatchObject({
      isError: true,
      text: 'You have no order "A-1".',
    });
    await bob.close();
  });

  it('tells the model what is wrong with its arguments', async () => {
    const tooFew = await mcp.callTool('orders_create', { item: 'tea', count: 0 });
    expect(tooFew).toMatchObject({ isError: true, text: expect.stringContaining('count must not be less than 1') });
    const unknown = await mcp.callTool('orders_create', { item: 'tea', price: 1 });
    expect(unknown).toMatchObject({ isError: true, text: expect.stringContaining('property price should not exist') });
  });

  it('reports progress, without an envelope', async () => {
    await mcp.callTool('orders_create', { item: 'tea' });
    await mcp.callTool('orders_pay', { id: 'A-1' });
    const { text, progress } = await mcp.callTool('send_orders');
    expect(progress).toMatchObject([{ progress: 1, total: 1, message: 'tea' }]);
    expect(text).toBe('1 orders are on their way.');
  });

  it('counts the calls of a user', async () => {
    for (let call = 0; call < 20; call++) expect((await mcp.callTool('orders_find')).isError).toBe(false);
    expect(await mcp.callTool('orders_find')).toMatchObject({
      isError: true,
      text: expect.stringContaining('Too Many'),
    });
    const bob = await createMcpTestClient(app, { era, token: await login('bob') });
    expect((await bob.callTool('orders_find')).isError).toBe(false);
    await bob.close();
  });
});

it('a session is its user’s', async () => {
  const ann = await createMcpTestClient(app, { era: 'legacy', token: await login('ann') });
  const headers = {
    authorization: `Bearer ${await login('bob')}`,
    accept: 'text/event-stream',
    'mcp-session-id': ann.sessionId!,
  };
  expect((await request('/api/mcp', { headers })).status).toBe(404);
  await ann.close();
});

it('a page of an allowed origin reads the id of its session', async () => {
  const headers = { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' };
  const preflight = await request('/api/mcp', { method: 'OPTIONS', headers });
  expect(preflight.status).toBe(204);
  const answer = await request('/api/mcp', { method: 'POST', headers });
  expect(answer.headers.get('access-control-allow-origin')).toBe('http://localhost:5173');
  expect(answer.headers.get('access-control-expose-headers')).toContain('Mcp-Session-Id');
  const stranger = await request('/api/mcp', { method: 'POST', headers: { origin: 'https://evil.example' } });
  expect(stranger.status).toBe(403);
});

describe('the doctor', () => {
  it('has no findings', async () => {
    await expectHealthy(app);
  });
});
