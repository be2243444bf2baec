import { connect, type Socket } from 'node:net';
import type { RawClient } from './raw-client.js';
import { request as httpRequest, createServer, type Server } from 'node:http';
import { RawResponse, type RawRequest } from './http.js';
import type { ModernClient, ModernMessage } from './modern-client.js';
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { expect } from 'vitest';
import type { TestApp } from './app.js';

/** A connection to the endpoint of a client, on which nothing is read until the test does. */
export async function rawSocket(client: Pick<RawClient, 'url'>): Promise<Socket> {
  const { hostname, port } = new URL(client.url);
  const socket = connect(Number(port), hostname);
  // Cuts are what these tests are about.
  socket.on('error', () => {});
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  return socket;
}

/** A request as it goes over the wire; a body is declared with its length, unless the headers say otherwise. */
export function requestText(
  client: Pick<RawClient, 'url' | 'usualHeaders'>,
  method: string,
  { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
): string {
  const { host, pathname } = new URL(client.url);
  const text = body === undefined ? '' : JSON.stringify(body);
  const length: Record<string, string> =
    body === undefined ? {} : { 'content-length': String(Buffer.byteLength(text)) };
  const all = { host, ...client.usualHeaders, ...length, ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${method} ${pathname} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${text}`;
}

/** What a socket is answered, up to its end. */
export async function readToEnd(socket: Socket): Promise<string> {
  let text = '';
  socket.setEncoding('utf8');
  for await (const chunk of socket) text += chunk as string;
  return text;
}

/** Posts a body chunk by chunk: each is a chunk of its own on the wire, and for who reads it. */
export function postInChunks(
  client: Pick<RawClient, 'url' | 'usualHeaders'>,
  chunks: Iterable<Uint8Array>,
): Promise<RawResponse> {
  const headers = { ...client.usualHeaders, 'transfer-encoding': 'chunked' };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(client.url, { method: 'POST', headers, agent: false }, (message) => {
      resolve(new RawResponse(message, sent));
    });
    sent.on('error', reject);
    for (const chunk of chunks) sent.write(chunk);
    sent.end();
  });
}

/** Cuts bytes into pieces of one size. */
export function* cut(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Posts a body that has no end: goes on as long as the server takes it. */
export class EndlessPost {
  /** Bytes that were given to the socket. */
  bytes = 0;
  readonly response: Promise<RawResponse>;
  /** Settles when the connection is over. */
  readonly closed: Promise<void>;

  constructor(client: RawClient, chunk: Uint8Array) {
    const headers = { ...client.usualHeaders, connection: 'keep-alive', 'transfer-encoding': 'chunked' };
    const sent = httpRequest(client.url, { method: 'POST', headers, agent: false });
    this.response = new Promise((resolve, reject) => {
      sent.on('response', (message) => resolve(new RawResponse(message, sent)));
      // After the answer it is the server's right to close, and ours to go on writing until it does.
      sent.on('error', reject);
    });
    this.closed = new Promise((resolve) => void sent.on('close', resolve));
    const write = (): void => {
      while (!sent.destroyed && !sent.errored) {
        this.bytes += chunk.length;
        if (!sent.write(chunk)) return;
      }
    };
    sent.on('drain', write);
    write();
  }
}

/** A POST whose answer its sender does not wait for. */
export class ForsakenPost {
  readonly #request;

  constructor(client: Pick<RawClient, 'url' | 'usualHeaders'>, body: unknown) {
    this.#request = httpRequest(client.url, { method: 'POST', headers: client.usualHeaders, agent: false });
    this.#request.on('error', () => {});
    this.#request.end(JSON.stringify(body));
  }

  /** Cuts the connection. */
  async hangUp(): Promise<void> {
    const closed = new Promise((resolve) => this.#request.once('close', resolve));
    this.#request.destroy();
    await closed;
  }
}

/** A message as some support for sessions wants its sender. */
export function senderOf(client: ModernClient, message: ModernMessage): Pick<RawClient, 'url' | 'usualHeaders'> {
  return { url: client.url, usualHeaders: client.headersOf(message) };
}

/** A call whose answer its sender does not wait for. */
export function forsakenCall(client: ModernClient, name: string, options: object = {}): ForsakenPost {
  const message = client.message('tools/call', { name, arguments: {} }, options);
  return new ForsakenPost(senderOf(client, message), message);
}

/** A second door to an app: connections that did not arrive on loopback, whatever networks this machine has. */
export class UnixSocketDoor {
  private constructor(
    private readonly server: Server,
    private readonly socketPath: string,
  ) {}

  static async open(app: INestApplication): Promise<UnixSocketDoor> {
    const socketPath = join(tmpdir(), `mcp-${randomUUID()}.sock`);
    const server = createServer((request, response) => {
      (app.getHttpServer() as Server).emit('request', request, response);
    });
    await new Promise<void>((resolve) => server.listen(socketPath, resolve));
    return new UnixSocketDoor(server, socketPath);
  }

  send(path: string, { method = 'POST', headers = {}, body }: RawRequest = {}): Promise<RawResponse> {
    const { socketPath } = this;
    return new Promise((resolve, reject) => {
      const sent = httpRequest({ socketPath, path, method, headers, agent: false }, (message) => {
        resolve(new RawResponse(message, sent));
      });
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
    await rm(this.socketPath, { force: true });
  }
}

/** Waits until the server has as many connections as wanted: none, unless said otherwise. */
export async function connectionsGone(app: TestApp, left = 0): Promise<void> {
  const countOf = (server: Server) =>
    new Promise<number>((resolve, reject) => {
      server.getConnections((error, connections) => (error ? reject(error) : resolve(connections)));
    });
  const count = async () => {
    const counts = await Promise.all(app.nodes.map((node) => countOf(node.app.getHttpServer() as Server)));
    return counts.reduce((total, connections) => total + connections, 0);
  };
  await expect.poll(count).toBe(left);
}
