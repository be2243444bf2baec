import 'reflect-metadata';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  createMcpTestClient,
  expectNothingLeft,
  McpTestAuth,
  mintTestToken,
  refusalOf,
} from 'nestjs-mcp-streamable/testing';
import { expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/adapters.js';
import { Doors, KitTools, StaffGuard } from './tools.js';

const resource = 'https://api.example.com/mcp';
const serverInfo = { name: 'kit', version: '1.0.0' };

it.each(ONE_ADAPTER)('tokens of tests are those of the option "auth", on %s', async (adapter) => {
  const authorizationServers = ['https://login.example.com'];
  const auth = { resource, authorizationServers, verifier: McpTestAuth, requiredScopes: ['shop'] };
  const testing = await Test.createTestingModule({
    imports: [McpStreamableModule.forRoot({ serverInfo, auth })],
    providers: [McpTestAuth, KitTools, Doors, StaffGuard],
  }).compile();
  const app =
    adapter === 'express'
      ? testing.createNestApplication(new ExpressAdapter())
      : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
  const token = mintTestToken({ sub: 'anna', scopes: ['shop'], audience: resource });
  const mcp = await createMcpTestClient(app, { era: 'legacy', token });
  expect((await mcp.callTool('add', { a: 1, b: 1 })).structured).toEqual({ sum: 2 });
  const statusWith = async (authorization: string): Promise<[number, string | null]> => {
    const { status, headers } = await mcp.raw({ jsonrpc: '2.0', id: 1, method: 'ping' }, { authorization });
    return [status, headers.get('www-authenticate')];
  };
  const bearer = (options: Parameters<typeof mintTestToken>[0]) => statusWith(`Bearer ${mintTestToken(options)}`);
  const scopes = ['shop'];
  expect(await statusWith('')).toEqual([401, expect.stringContaining('resource_metadata=')]);
  expect(await statusWith('Bearer x.y.z')).toEqual([401, expect.stringContaining('error="invalid_token"')]);
  expect(await bearer({ sub: 'anna' })).toEqual([403, expect.stringContaining('error="insufficient_scope"')]);
  expect(await bearer({ sub: 'anna', scopes, expiresIn: -60 })).toEqual([401, expect.stringContaining('expired')]);
  expect(await bearer({ sub: 'anna', scopes, audience: 'https://other.example' })).toEqual([401, expect.anything()]);
  const refusalWith = (given: Parameters<typeof mintTestToken>[0]) =>
    refusalOf(createMcpTestClient(app, { token: mintTestToken(given) }));
  expect(await refusalOf(createMcpTestClient(app))).toMatchObject({ status: 401, challenge: { error: undefined } });
  const lacking = { status: 403, challenge: { error: 'insufficient_scope', scope: 'shop' } };
  expect(await refusalWith({ sub: 'anna', audience: resource })).toMatchObject(lacking);
  // The session is Anna's.
  expect((await bearer({ sub: 'bert', scopes }))[0]).toBe(404);
  await mcp.close();
  await expectNothingLeft(app);
  await app.close();
});
