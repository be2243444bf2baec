import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { Injectable } from '@nestjs/common';
import { McpCtx, type McpContext, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { describe, expect, it } from 'vitest';
import { AgreeingUser } from '../conformance/client.oauth.js';
import { ADAPTERS } from '../support/app.js';
import {
  authorizationServer,
  closing,
  ERAS,
  type Era,
  fetchThrough,
  protectedApps,
  RESOURCE,
} from './protected-apps.js';

@Injectable()
class Notes {
  @Tool({ name: 'read' })
  read(@McpCtx() ctx: McpContext) {
    return `${ctx.auth!.scopes.join(' ')} as ${ctx.principal}`;
  }

  @Tool({ name: 'write' })
  @RequireScopes('notes:write', { listed: true })
  write() {
    return 'written';
  }
}

const text = (result: unknown) => (result as { content: { text: string }[] }).content[0]!.text;

describe.each(ADAPTERS)('the official client finds its way in, on %s', (adapter) => {
  const idp = authorizationServer();
  const start = protectedApps(adapter, idp, { providers: [Notes], auth: { requiredScopes: ['notes:read'] } });
  const closed = closing<Client>();

  /** Connects, authorizing when it must: the user agrees to everything. */
  const connected = async (app: { url: string }, user: AgreeingUser, era: Era) => {
    const options = { authProvider: user, fetch: fetchThrough(() => app) };
    const open = async () => {
      const transport = new StreamableHTTPClientTransport(new URL(RESOURCE), options);
      const mode = era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
      const client = new Client({ name: 'official', version: '1.0.0' }, { versionNegotiation: { mode } });
      return { client: closed(client), transport };
    };
    const first = await open();
    await expect(first.client.connect(first.transport)).rejects.toThrow(UnauthorizedError);
    const { code, iss } = user.takeAgreement();
    await first.transport.finishAuth(code, iss);
    const second = await open();
    await second.client.connect(second.transport);
    return second;
  };

  it.each(ERAS)('A1, A2, A7: 401, metadata, token, step-up, wider token, served (%s)', async (era) => {
    const app = await start();
    const user = new AgreeingUser();
    idp().asked.length = 0;
    const { client, transport } = await connected(app, user, era);
    expect(text(await client.callTool({ name: 'read' }))).toBe(`notes:read as ${idp().issuer}|ann`);
    await expect(client.callTool({ name: 'write' })).rejects.toThrow(UnauthorizedError);
    const { code, iss } = user.takeAgreement();
    await transport.finishAuth(code, iss);
    expect(text(await client.callTool({ name: 'write' }))).toBe('written');
    expect(idp().asked).toEqual(['notes:read', 'notes:read notes:write']);
  });
});
