import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { createAppFetch, createMcpTestClient, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { AppModule, TenantAudit } from '../../examples/snippets/tenants.js';
import { eventually } from '../support/eventually.js';

let app: INestApplication;
const clients: McpTestClient[] = [];

beforeEach(async () => {
  const testing = await Test.createTestingModule({ imports: [AppModule] }).compile();
  app = testing.createNestApplication({ logger: false });
  await app.init();
});

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await app.close();
});

async function connect(tenant: string, token: string, era: 'legacy' | 'modern' = 'modern'): Promise<McpTestClient> {
  const client = await createMcpTestClient(app, { endpoint: `/tenants/${tenant}/mcp`, token, era });
  clients.push(client);
  return client;
}

it.each(['legacy', 'modern'] as const)(
  'a user of two tenants has the data and the state of each apart (%s)',
  async (era) => {
    const acme = await connect('acme', 'a', era);
    const globex = await connect('globex', 'a', era);
    expect((await acme.callTool('list_projects')).text).toBe('The projects of acme: …');
    for (const visit of [1, 2]) expect((await acme.callTool('count_visits')).text).toBe(`Visit ${visit} of acme.`);
    expect((await globex.callTool('count_visits')).text).toBe('Visit 1 of globex.');
    const bob = await connect('globex', 'b', era);
    expect((await bob.callTool('count_visits')).text).toBe('Visit 1 of globex.');
  },
);

it('a tenant of others looks like one that does not exist', async () => {
  const fetch = await createAppFetch(app);
  const post = async (tenant: string, headers: Record<string, string>) => {
    const answer = await fetch(`/tenants/${tenant}/mcp`, { method: 'POST', headers });
    return { status: answer.status, body: await answer.text() };
  };
  const bob = { authorization: 'Bearer b' };
  const others = await post('acme', bob);
  expect(others.status).toBe(404);
  expect(others).toEqual(await post('no-such', bob));
  expect((await post('acme', {})).status).toBe(401);
  // Neither does an encoded name reach another tenant.
  for (const tenant of ['acme%2f..%2fglobex', 'globex%7Cann', 'GLOBEX'])
    expect((await post(tenant, bob)).status).toBe(404);
});

it('the session of one tenant is none at the path of another', async () => {
  const acme = await connect('acme', 'a', 'legacy');
  const sessionId = (acme.client.transport as { sessionId?: string }).sessionId!;
  expect(sessionId).toBeDefined();
  const fetch = await createAppFetch(app);
  const answer = await fetch('/tenants/globex/mcp', {
    method: 'POST',
    headers: {
      authorization: 'Bearer a',
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-session-id': sessionId,
      'mcp-protocol-version': '2025-11-25',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  });
  expect(answer.status).toBe(404);
});

it('the audit has the tenant of each call', async () => {
  const [acme, globex] = [await connect('acme', 'a'), await connect('globex', 'b')];
  await acme.callTool('list_projects');
  await globex.callTool('list_projects');
  const { rows } = app.get(TenantAudit);
  await eventually(() => expect(rows.filter(({ kind }) => kind === 'tool')).toHaveLength(2));
  expect(rows.map(({ tenant, principal, name }) => ({ tenant, principal, name }))).toEqual([
    { tenant: 'acme', principal: 'acme|ann', name: 'list_projects' },
    { tenant: 'globex', principal: 'globex|bob', name: 'list_projects' },
  ]);
});
