import { randomUUID } from 'node:crypto';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { RawResponse, type RawRequest } from './http.js';

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
