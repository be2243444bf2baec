import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { afterEach, expect } from 'vitest';
import { AgreeingUser } from '../conformance/client.oauth.js';
import { type Era, fetchThrough, RESOURCE } from './protected-apps.js';
import { Injectable } from '@nestjs/common';
import { McpCtx, type McpContext, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';

const reconnectionOptions = {
  initialReconnectionDelay: 1,
  maxReconnectionDelay: 1,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 100,
};

interface Authorized {
  readonly client: Client;
  readonly user: AgreeingUser;
  /** Goes on after an `UnauthorizedError`, with what the user has agreed to. */
  agree(): Promise<void>;
}

/**
 * Official clients that authorize as they do in an app: connected as far as it goes without a user, then again with the code
 * that the user has brought back. Each is closed after its test.
 */
export function authorizingClients(): (
  app: () => { url: string },
  era: Era,
  moved?: Record<string, string>,
) => Promise<Authorized> {
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  return async (app, era, moved) => {
    const user = new AgreeingUser();
    const open = () => {
      const options = { authProvider: user, fetch: fetchThrough(app, moved), reconnectionOptions };
      const transport = new StreamableHTTPClientTransport(new URL(RESOURCE), options);
      const mode = era === 'modern' ? { pin: '2026-07-28' } : ('legacy' as const);
      const client = new Client({ name: 'official', version: '1.0.0' }, { versionNegotiation: { mode } });
      clients.push(client);
      return { client, transport };
    };
    const first = open();
    await expect(first.client.connect(first.transport)).rejects.toThrow(UnauthorizedError);
    const { code, iss } = user.takeAgreement();
    await first.transport.finishAuth(code, iss);
    const { client, transport } = open();
    await client.connect(transport);
    const agree = async () => {
      const agreement = user.takeAgreement();
      await transport.finishAuth(agreement.code, agreement.iss);
    };
    return { client, user, agree };
  };
}

/** Reading is for everyone who may come in, writing for few. */
@Injectable()
export class Notes {
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

export const textOf = (result: unknown): string => (result as { content: { text: string }[] }).content[0]!.text;
