import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose';
import { createMcpTestClient, expectNothingLeft, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { allowInsecureRequests, ClientSecretBasic, Configuration, discovery } from 'openid-client';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { AppModule, calendar, resource } from '../../examples/snippets/token-exchange.js';
import { AuthorizationServer } from '../support/authorization-server.js';

/** Verifies access tokens; its token endpoint exchanges those for the MCP endpoint, for a client with a secret. */
let users: AuthorizationServer;
let exchange: Server;
let api: Server;
let app: INestApplication;
let client: McpTestClient | undefined;
const seenByApi: string[] = [];
const exchanges: Record<string, string>[] = [];
const original = { calendar: { ...calendar }, resource: { ...resource } };

const listening = async (server: Server): Promise<string> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

async function body(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk as string;
  return text;
}

/** @throws when the token is for another audience */
const verified = async (token: string, audience: string) => {
  const keys = createLocalJWKSet(users.jwks as JSONWebKeySet);
  return (await jwtVerify(token, keys, { audience, issuer: users.issuer })).payload;
};

beforeEach(async () => {
  seenByApi.length = exchanges.length = 0;
  users = await AuthorizationServer.start();
  exchange = createServer((request, response) => {
    const reply = (status: number, json: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
    };
    const serve = async (): Promise<void> => {
      if (request.url!.includes('well-known')) {
        const issuer = `http://${request.headers.host}`;
        return reply(200, { issuer, token_endpoint: `${issuer}/token` });
      }
      const basic = Buffer.from(request.headers.authorization!.slice('Basic '.length), 'base64').toString();
      if (decodeURIComponent(basic) !== 'invoices-mcp:s3cret') return reply(401, { error: 'invalid_client' });
      const form = Object.fromEntries(new URLSearchParams(await body(request)));
      exchanges.push(form);
      const claims = await verified(form['subject_token']!, resource.url).catch(() => undefined);
      if (claims?.sub === 'mallory' || !claims)
        return reply(400, { error: 'invalid_grant', error_description: 'internal' });
      const { scope, resource: audience } = form;
      const issued = { sub: claims.sub, aud: audience, scope, act: { sub: 'invoices-mcp' } };
      return reply(200, {
        access_token: await users.token(issued),
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: 60,
      });
    };
    void serve();
  });
  api = createServer((request, response) => {
    const token = request.headers.authorization!.slice('Bearer '.length);
    seenByApi.push(token);
    verified(token, calendar.url).then(
      ({ sub, scope }) => response.end(`${request.url} of ${sub}, by ${scope}`),
      () => response.writeHead(401).end(),
    );
  });
  calendar.url = await listening(api);
  resource.issuer = users.issuer;
  const issuer = await listening(exchange);
  const idp = await discovery(new URL(issuer), 'invoices-mcp', undefined, ClientSecretBasic('s3cret'), {
    algorithm: 'oauth2',
    execute: [allowInsecureRequests],
  });
  const testing = await Test.createTestingModule({ imports: [AppModule] })
    .overrideProvider(Configuration)
    .useValue(idp)
    .compile();
  app = testing.createNestApplication();
});

afterEach(async () => {
  await client?.close();
  client = undefined;
  await expectNothingLeft(app);
  await app.close();
  for (const server of [exchange, api]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await users.close();
  Object.assign(calendar, original.calendar);
  Object.assign(resource, original.resource);
});

const connect = async (claims: Record<string, unknown> = {}): Promise<[McpTestClient, string]> => {
  const token = await users.token({ aud: resource.url, scope: 'calendar:read', ...claims });
  client = await createMcpTestClient(app, { token });
  return [client, token];
};

it('a tool calls another API as its user, with a token that is for this API alone', async () => {
  const [ann, token] = await connect({ sub: 'ann' });
  const { text } = await ann.callTool('list_meetings', { day: '2026-07-28' });
  expect(text).toBe('/meetings?day=2026-07-28 of ann, by calendar:read');
  expect(exchanges).toMatchObject([{ subject_token: token, resource: calendar.url, scope: 'calendar:read' }]);
  // The token of the client went to the authorization server alone.
  expect(seenByApi).toHaveLength(1);
  expect(seenByApi).not.toContain(token);
  await expect(verified(seenByApi[0]!, resource.url)).rejects.toThrow('aud');
});

it('the API refuses the token of the client itself', async () => {
  const [, token] = await connect();
  const { status } = await fetch(calendar.url, { headers: { authorization: `Bearer ${token}` } });
  expect(status).toBe(401);
});

it('a refused exchange is a result that the model reads, without tokens and texts of the authorization server', async () => {
  const [mallory, token] = await connect({ sub: 'mallory' });
  const { text, isError } = await mallory.callTool('list_meetings', { day: '2026-07-28' });
  expect({ text, isError }).toEqual({
    text: 'The calendar does not serve you (invalid_grant). Log in again.',
    isError: true,
  });
  expect(text).not.toContain(token);
  expect(seenByApi).toEqual([]);
});
