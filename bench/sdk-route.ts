import 'reflect-metadata';
import type { JSONRPCMessage, RequestId, Transport, TransportSendOptions } from '@modelcontextprotocol/server';
import { Server } from '@modelcontextprotocol/server';
import { Body, type CanActivate, Controller, Module, Post, Res, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ServerResponse } from 'node:http';
import { report } from './agent.js';
import { reportAll, SERVER_INFO, sum } from './tools.js';

/**
 * The floor of whoever lets the SDK dispatch: a Nest route with two guards that let everybody in, which hands each body to one
 * SDK server, within an `AsyncLocalStorage`. Nothing is checked, no session is looked for, nothing is logged; arguments have no
 * schema; the head of an answer is the same for all.
 */
const { PORT = '3000', ADAPTER = 'express' } = process.env;

type Message = Extract<JSONRPCMessage, { method: string }> & { id?: RequestId };
type Reply = ServerResponse & { raw?: ServerResponse; hijack?: () => void };

const calls = new AsyncLocalStorage<Message>();

/** One call: its answer, as JSON unless something went ahead of it. */
class Exchange {
  /** Frames that are joined into the next write. */
  #pending: string | undefined;

  constructor(
    private readonly id: RequestId,
    private readonly reply: Reply,
    private readonly adapter: { reply(reply: Reply, body: string, status: number): unknown; setHeader: SetHeader },
  ) {}

  notify(message: JSONRPCMessage): void {
    if (this.#pending === undefined) {
      this.reply.hijack?.();
      this.#raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform' });
      this.#pending = '';
    }
    if (this.#pending === '') setImmediate(() => this.#flush());
    this.#pending += frame(message);
  }

  answer(message: JSONRPCMessage): void {
    const answer = { ...message, id: this.id };
    if (this.#pending !== undefined) {
      this.#raw.end(this.#pending + frame(answer));
      this.#pending = '';
      return;
    }
    this.adapter.setHeader(this.reply, 'Content-Type', 'application/json');
    this.adapter.reply(this.reply, JSON.stringify(answer), 200);
  }

  #flush(): void {
    if (this.#pending !== '') this.#raw.write(this.#pending);
    this.#pending = '';
  }

  get #raw(): ServerResponse {
    return this.reply.raw ?? this.reply;
  }
}

type SetHeader = (reply: Reply, name: string, value: string) => unknown;

function frame(message: object): string {
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`;
}

/** All calls of all callers, under ids of their own. */
class OneTransport implements Transport {
  onmessage?: Transport['onmessage'];
  readonly #exchanges = new Map<RequestId, Exchange>();
  #lastId = 0;

  receive(message: Message, exchangeOf: (id: RequestId) => Exchange): void {
    const id = ++this.#lastId;
    this.#exchanges.set(id, exchangeOf(message.id!));
    calls.run(message, () => this.onmessage?.({ ...message, id }));
  }

  send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ('method' in message) this.#exchanges.get(options!.relatedRequestId!)!.notify(message);
    else {
      this.#exchanges.get(message.id!)!.answer(message);
      this.#exchanges.delete(message.id!);
    }
    return Promise.resolve();
  }

  start(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const server = new Server(SERVER_INFO, { capabilities: { tools: {} } });
server.setRequestHandler('tools/call', ({ params }, ctx) => {
  const args = params.arguments as { a: number; b: number; n: number };
  if (params.name !== 'progress') return sum(args);
  const progressToken = params._meta!.progressToken!;
  return reportAll(args, (progress, total) =>
    ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } }),
  );
});
const transport = new OneTransport();
await server.connect(transport);

class LetIn implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}
class LetInLater implements CanActivate {
  canActivate(): Promise<boolean> {
    return Promise.resolve(true);
  }
}

@Controller('mcp')
@UseGuards(new LetIn(), new LetInLater())
class SdkController {
  @Post()
  post(@Body() message: Message, @Res() reply: Reply): void {
    transport.receive(message, (id) => new Exchange(id, reply, adapter));
  }
}

@Module({ controllers: [SdkController] })
class SdkModule {}

const adapter = ADAPTER === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
const app = await NestFactory.create(SdkModule, adapter, { logger: ['error', 'warn'] });
await app.listen(Number(PORT), '127.0.0.1');
report(await app.getUrl());
