import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import type { INestApplicationContext } from '@nestjs/common';
import { type McpStdioOptions, type McpStdioServer, serveMcpStdio } from 'nestjs-mcp-streamable/stdio';
import { expect } from 'vitest';
import { modernMeta } from '../support/modern-client.js';

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
type Message = any;

/** A client that writes lines, and keeps those that it reads. */
export class LineClient {
  readonly messages: Message[] = [];
  #text = '';
  #lastId = 0;

  private constructor(
    readonly input: PassThrough,
    readonly output: PassThrough,
    readonly server: McpStdioServer,
  ) {}

  static async of(
    app: INestApplicationContext,
    options: McpStdioOptions = {},
    { reads = true, highWaterMark = 16_384 } = {},
  ): Promise<LineClient> {
    const [input, output] = [new PassThrough(), new PassThrough({ highWaterMark })];
    const client = new LineClient(input, output, await serveMcpStdio(app, { ...options, input, output }));
    if (reads) client.read();
    return client;
  }

  read(): void {
    this.output.on('data', (chunk: Buffer) => {
      const lines = (this.#text + String(chunk)).split('\n');
      this.#text = lines.pop()!;
      for (const line of lines) this.messages.push(JSON.parse(line));
    });
  }

  write(text: string | Buffer): void {
    this.input.write(text);
  }

  send(message: object): void {
    this.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  notify(method: string, params?: object): void {
    this.send({ method, params });
  }

  /** Sends a legacy request. @returns its id */
  request(method: string, params: object = {}, id: string | number = ++this.#lastId): string | number {
    this.send({ id, method, params });
    return id;
  }

  /** Sends a modern request. @returns its id */
  modern(method: string, params: object = {}, capabilities: object = {}, id: string | number = ++this.#lastId) {
    const key = 'io.modelcontextprotocol/clientCapabilities';
    this.send({ id, method, params: { ...params, _meta: { ...modernMeta(), [key]: capabilities } } });
    return id;
  }

  /** The first message that is as wanted. */
  async next(wanted: object): Promise<Message> {
    const matching = (): Message =>
      this.messages.find((message) => expect.objectContaining(wanted).asymmetricMatch(message));
    await expect.poll(matching).toBeDefined();
    return matching();
  }

  async answer(id: string | number): Promise<Message> {
    return this.next({ id });
  }

  async initialize(capabilities: object = {}): Promise<Message> {
    const params = { protocolVersion: '2025-11-25', capabilities, clientInfo: { name: 'lines', version: '1.0.0' } };
    const answer = await this.answer(this.request('initialize', params));
    this.notify('notifications/initialized');
    return answer;
  }

  /** The input ends, as when the client is done. @returns when the app is closed */
  async end(): Promise<void> {
    this.input.end();
    if (!this.input.readableEnded) await once(this.input, 'end');
    await this.server.closed;
  }
}
