import 'reflect-metadata';
import {
  Body,
  type CanActivate,
  Controller,
  Delete,
  type ExecutionContext,
  Get,
  Header,
  HttpCode,
  type INestApplication,
  Module,
  Post,
  Res,
  UseGuards,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import type { ServerResponse } from 'node:http';
import { report } from './agent.js';
import { ADD_DESCRIPTION, ADDING_TOOLS, JWT_AUDIENCE, PROGRESS_DESCRIPTION, SERVER_INFO, sum } from './tools.js';

/**
 * The floor: Nest routes that answer with the same JSON, and know nothing of MCP. No schema, no session, no guard; their
 * streams are responses that were never ended. With `JWT_ISSUER`, a guard in front that verifies tokens as an app does by hand.
 */
const { PORT = '3000', ADAPTER = 'express', JWT_ISSUER } = process.env;

interface Call {
  id: number;
  method: string;
  params: { arguments: { a: number; b: number }; _meta?: object };
}

/** The answer to `initialize`, as ours gives it. */
const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    completions: {},
    logging: {},
  },
  serverInfo: SERVER_INFO,
};

/** The answer to `tools/list`, as ours gives it. */
const LIST = {
  tools: [
    listed('progress', PROGRESS_DESCRIPTION, ['n']),
    ...ADDING_TOOLS.map((name) => listed(name, ADD_DESCRIPTION, ['a', 'b'])),
  ],
};

function listed(name: string, description: string, numbers: readonly string[]): object {
  const properties = Object.fromEntries(numbers.map((number) => [number, { type: 'number' }]));
  return { name, description, inputSchema: { type: 'object', properties, required: numbers } };
}

const open = new Set<ServerResponse>();

/** What a guard for access tokens does at least. */
const bearerGuard = (issuer: string): CanActivate => {
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
  return {
    async canActivate(context: ExecutionContext): Promise<boolean> {
      const request = context.switchToHttp().getRequest<{ headers: { authorization?: string }; user?: unknown }>();
      const token = request.headers.authorization?.slice('Bearer '.length) ?? '';
      const { payload } = await jwtVerify(token, keys, { issuer, audience: JWT_AUDIENCE, algorithms: ['ES256'] });
      request.user = payload;
      return true;
    },
  };
};

@Controller('mcp')
@UseGuards(...(JWT_ISSUER ? [bearerGuard(JWT_ISSUER)] : []))
class BareController {
  @Post()
  @HttpCode(200)
  post(@Body() { id, method, params }: Call): object {
    if (method === 'tools/list') return { jsonrpc: '2.0', id, result: LIST };
    const result = sum(params.arguments);
    return { jsonrpc: '2.0', id, result: params._meta ? modern(result) : result };
  }

  /** With the next two routes: the three requests of a session in which nothing is called. */
  @Post('initialize')
  @HttpCode(200)
  @Header('Mcp-Session-Id', '0123456789abcdefghijkl')
  initialize(@Body() { id }: { id: number }): object {
    return { jsonrpc: '2.0', id, result: INITIALIZED };
  }

  @Post('initialized')
  @HttpCode(202)
  initialized(): void {}

  @Delete()
  @HttpCode(204)
  end(): void {}

  @Get()
  get(@Res() reply: ServerResponse & { raw?: ServerResponse; hijack?: () => void }): void {
    reply.hijack?.();
    const response = reply.raw ?? reply;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform' });
    response.write(': open\n\n');
    open.add(response);
    response.on('close', () => open.delete(response));
  }
}

/** What 2026-07-28 puts around a result. */
function modern(result: object): object {
  return { ...result, resultType: 'complete', _meta: { 'io.modelcontextprotocol/serverInfo': SERVER_INFO } };
}

@Module({ controllers: [BareController] })
class BareModule {}

const adapter = ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app: INestApplication = await NestFactory.create(BareModule, adapter, { logger: ['error', 'warn'] });
await app.listen(Number(PORT), '127.0.0.1');
report(await app.getUrl(), {
  notify: async (sequence) => {
    const params = { level: 'info', data: sequence };
    const data = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params });
    for (const response of open) response.write(`event: message\ndata: ${data}\n\n`);
  },
});
