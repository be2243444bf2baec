import { createHash, randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { decodeJwt } from 'jose';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AppModule } from '../../examples/login-proxy/app.module.js';
import { goThrough } from '../../examples/login-proxy/client.js';
import { localIdentityProvider } from '../../examples/login-proxy/identity-provider.js';
import { LoginProxy } from '../../examples/login-proxy/login-proxy.js';
import { freePort } from '../../bench/harness/free-port.js';

const CALLBACK = 'http://127.0.0.1/callback';
const SECRET = 'of this machine';

let app: INestApplication;
let servers: Server[];
let issuer: string;
let resource: string;
let idp: string;

beforeEach(async () => {
  // The package says what to change for production, and that Node.js 20 is old.
  for (const method of ['warn', 'info', 'error'] as const) vi.spyOn(console, method).mockImplementation(() => {});
  const origin = async (): Promise<string> => `http://127.0.0.1:${await freePort()}`;
  [issuer, idp] = [await origin(), await origin()];
  resource = `${await origin()}/mcp`;
  const upstream = { issuer: idp, clientId: 'login-proxy', clientSecret: SECRET };
  servers = [await localIdentityProvider(upstream, `${issuer}/callback`)];
  servers.push(await LoginProxy.start({ issuer, resource, scopes: ['notes:read', 'notes:write'], upstream }));
  app = await NestFactory.create(AppModule.protectedBy(issuer, resource), {
    logger: false,
    forceCloseConnections: true,
  });
  await app.listen(Number(new URL(resource).port), '127.0.0.1');
});

afterEach(async () => {
  await app.close();
  for (const server of servers) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  vi.restoreAllMocks();
});

/** Keeps cookies by path, and follows redirections of this machine. */
class Browser {
  readonly #cookies = new Map<string, { path: string; value: string }>();

  async request(url: string | URL, init: RequestInit = {}, more: Record<string, string> = {}): Promise<Response> {
    const { pathname } = new URL(url);
    const sent = [...this.#cookies].filter(([, { path }]) => pathname.startsWith(path));
    const cookie = sent.map(([name, { value }]) => `${name.split('@')[0]}=${value}`).join('; ');
    const response = await fetch(url, { ...init, redirect: 'manual', headers: { cookie, ...more } });
    for (const set of response.headers.getSetCookie()) {
      const [, name, value = ''] = /^([^=]+)=([^;]*)/.exec(set)!;
      const [, path = '/'] = /; path=([^;]+)/i.exec(set) ?? [];
      if (value === '') this.#cookies.delete(`${name}@${path}`);
      else this.#cookies.set(`${name}@${path}`, { path, value });
    }
    return response;
  }

  /** @returns the first answer that is no redirection, or one that `ends` accepts */
  async follow(url: string | URL, ends = (_: URL) => false): Promise<{ url: URL; response: Response; page: string }> {
    let next = new URL(url);
    for (;;) {
      const response = await this.request(next);
      const location = response.headers.get('location');
      if (location === null) return { url: next, response, page: await response.text() };
      next = new URL(location, next);
      if (ends(next) || next.href.startsWith(CALLBACK)) return { url: next, response, page: '' };
    }
  }

  decide(url: URL, decision: string, more: Record<string, string> = {}): Promise<Response> {
    return this.request(url, { method: 'POST', body: new URLSearchParams({ decision }) }, more);
  }
}

async function register(metadata: object = {}): Promise<{ status: number; client_id: string }> {
  const body = {
    client_name: 'A client',
    redirect_uris: [CALLBACK],
    application_type: 'native',
    token_endpoint_auth_method: 'none',
    ...metadata,
  };
  const response = await fetch(`${issuer}/reg`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, ...((await response.json()) as { client_id: string }) };
}

const verifier = randomBytes(32).toString('base64url');

function authorizeUrl(clientId: string, parameters: Record<string, string> = {}): URL {
  const url = new URL('/auth', issuer);
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const usual = { client_id: clientId, redirect_uri: CALLBACK, response_type: 'code', scope: 'notes:read', state: 's' };
  const proof = { code_challenge: challenge, code_challenge_method: 'S256', resource };
  url.search = new URLSearchParams({ ...usual, ...proof, ...parameters }).toString();
  return url;
}

async function redeem(form: Record<string, string>): Promise<{ status: number; body: Record<string, string> }> {
  const body = new URLSearchParams({ grant_type: 'authorization_code', redirect_uri: CALLBACK, ...form });
  const response = await fetch(`${issuer}/token`, { method: 'POST', body });
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}

/** A code of the proxy for a client, as its user allows it. */
async function codeFor(clientId: string, browser = new Browser()): Promise<string> {
  const consent = await browser.follow(authorizeUrl(clientId));
  const resumed = (await browser.decide(consent.url, 'allow')).headers.get('location')!;
  return (await browser.follow(new URL(resumed, issuer))).url.searchParams.get('code')!;
}

/** @returns the status of the endpoint for a token */
async function statusWith(token: string): Promise<number> {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  return (await fetch(resource, { method: 'POST', headers, body })).status;
}

it('a client that the identity provider does not know logs its user in there, and gets tokens of the proxy', async () => {
  expect(await goThrough(resource)).toEqual([
    'There are no notes yet. (scopes: notes:read)',
    'You have 1 notes. (scopes: notes:read notes:write)',
    'Buy milk (scopes: notes:read notes:write)',
  ]);
  // Clients cannot register there.
  const { status } = await fetch(`${idp}/reg`, { method: 'POST', body: '{}' });
  expect(status).toBe(404);
});

describe('the consent page', () => {
  it('the consent page is shown for each client, also to a user who is logged in and has allowed another client', async () => {
    const browser = new Browser();
    await codeFor((await register()).client_id, browser);
    const other = await register({ client_name: 'Another client' });
    const { response, page } = await browser.follow(authorizeUrl(other.client_id));
    expect(response.status).toBe(200);
    expect(page).toContain('Another client');
    expect(page).toContain('notes:read');
  });

  it('the consent page shows where the code goes, runs no script, and cannot be framed', async () => {
    const name = '<script>alert(1)</script><img src=x>';
    const { client_id } = await register({ client_name: name });
    const { response, page } = await new Browser().follow(authorizeUrl(client_id));
    expect(page).not.toContain('<script');
    expect(page).not.toContain('<img');
    expect(page).toContain(CALLBACK);
    expect(response.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
  });

  it('denied, gives the client an error and no code', async () => {
    const browser = new Browser();
    const { url } = await browser.follow(authorizeUrl((await register()).client_id));
    const resumed = (await browser.decide(url, 'deny')).headers.get('location')!;
    const { searchParams } = (await browser.follow(new URL(resumed, issuer))).url;
    expect(Object.fromEntries(searchParams)).toMatchObject({ error: 'access_denied', state: 's' });
    expect(searchParams.has('code')).toBe(false);
  });

  it('the consent page takes no decision that a page of another origin sends', async () => {
    const browser = new Browser();
    const { url } = await browser.follow(authorizeUrl((await register()).client_id));
    for (const site of ['same-site', 'cross-site', 'none']) {
      const response = await browser.decide(url, 'allow', { 'sec-fetch-site': site });
      expect(response.status).toBe(400);
      expect(response.headers.get('location')).toBeNull();
    }
    expect((await browser.decide(url, 'allow', { 'sec-fetch-site': 'same-origin' })).status).toBe(303);
  });

  it('the consent page takes no decision of another browser', async () => {
    const { url } = await new Browser().follow(authorizeUrl((await register()).client_id));
    const response = await new Browser().decide(url, 'allow');
    expect(response.status).toBe(400);
    expect(response.headers.get('location')).toBeNull();
  });
});

describe('refused are', () => {
  it('redirect URIs that a client has not registered, and ones that nobody may register', async () => {
    const { client_id } = await register();
    for (const redirect_uri of ['https://evil.example.com/', `${CALLBACK}/../evil`, `${CALLBACK}@evil.example.com`]) {
      const { response } = await new Browser().follow(authorizeUrl(client_id, { redirect_uri }));
      expect(response.status).toBe(400);
      expect(response.headers.get('location')).toBeNull();
    }
    for (const uri of ['javascript:alert(1)', 'http://evil.example.com/callback', 'data:text/html,x']) {
      for (const application_type of ['native', 'web']) {
        expect((await register({ redirect_uris: [uri], application_type })).status).toBe(400);
      }
    }
  });

  it('an answer of the identity provider that no login, or the login of another browser, has asked for', async () => {
    const { client_id } = await register();
    const [attacker, victim] = [new Browser(), new Browser()];
    // The attacker stops before the callback, and has a victim's browser go on.
    const mine = await attacker.follow(authorizeUrl(client_id), ({ pathname }) => pathname === '/callback');
    const injected = await victim.follow(mine.url);
    expect(injected.response.status).toBe(400);
    // In a login of its own, the victim's browser takes no code of the attacker either.
    const theirs = await victim.follow(authorizeUrl(client_id), ({ pathname }) => pathname === '/callback');
    const mixed = new URL(theirs.url);
    mixed.searchParams.set('code', mine.url.searchParams.get('code')!);
    expect((await victim.follow(mixed)).response.status).toBe(400);
    const unknown = new URL(`${issuer}/callback?code=x&state=x`);
    expect((await new Browser().follow(unknown)).response.status).toBe(400);
    expect((await new Browser().follow(`${issuer}/callback`)).response.status).toBe(400);
  });

  it('an answer of the identity provider that was used', async () => {
    const browser = new Browser();
    const start = authorizeUrl((await register()).client_id);
    const { url } = await browser.follow(start, ({ pathname }) => pathname === '/callback');
    expect((await browser.follow(url)).response.status).toBe(200);
    expect((await browser.follow(url)).response.status).toBe(400);
  });

  it('a code without its verifier, of another client, or used before', async () => {
    const [one, other] = [await register(), await register()];
    const code = await codeFor(one.client_id);
    const attempts: Record<string, string>[] = [
      { code, client_id: one.client_id },
      { code, client_id: one.client_id, code_verifier: 'x'.repeat(43) },
      { code, client_id: other.client_id, code_verifier: verifier },
    ];
    for (const attempt of attempts) expect((await redeem(attempt)).body['error']).toBe('invalid_grant');
    const good = await codeFor(one.client_id);
    const form = { code: good, client_id: one.client_id, code_verifier: verifier };
    expect((await redeem(form)).status).toBe(200);
    expect((await redeem(form)).body['error']).toBe('invalid_grant');
  });

  it('an authorization without PKCE, and one for another resource', async () => {
    const { client_id } = await register();
    const without = authorizeUrl(client_id);
    for (const name of ['code_challenge', 'code_challenge_method']) without.searchParams.delete(name);
    const plain = authorizeUrl(client_id, { resource: 'https://other.example.com/' });
    expect((await new Browser().follow(without)).url.searchParams.get('error')).toBe('invalid_request');
    expect((await new Browser().follow(plain)).url.searchParams.get('error')).toBe('invalid_target');
  });

  it('tokens of the identity provider at the endpoint; the client gets none of them', async () => {
    const { client_id } = await register();
    const { body } = await redeem({ code: await codeFor(client_id), client_id, code_verifier: verifier });
    expect(decodeJwt(body['access_token']!)).toMatchObject({ iss: issuer, aud: resource, sub: 'ann' });
    expect(await statusWith(body['access_token']!)).not.toBe(401);
    // As the proxy gets them.
    const authorization = new URL(`${idp}/auth`);
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    authorization.search = new URLSearchParams({
      client_id: 'login-proxy',
      redirect_uri: `${issuer}/callback`,
      response_type: 'code',
      scope: 'openid',
      code_challenge: challenge,
      code_challenge_method: 'S256',
    }).toString();
    const back = await new Browser().follow(authorization, ({ pathname }) => pathname === '/callback');
    const response = await fetch(`${idp}/token`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from(`login-proxy:${encodeURIComponent(SECRET)}`).toString('base64')}`,
      },
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code: back.url.searchParams.get('code')!,
        redirect_uri: `${issuer}/callback`,
        code_verifier: verifier,
      }),
    });
    const tokens = (await response.json()) as { access_token: string; id_token: string };
    expect(tokens.id_token).toBeDefined();
    for (const token of [tokens.access_token, tokens.id_token]) expect(await statusWith(token)).toBe(401);
  });
});
