import type { Server } from 'node:http';
import { expect } from 'vitest';
import type { TestApp } from './app.js';

/** Waits until the server has as many connections as wanted: none, unless said otherwise. */
export async function connectionsGone(app: TestApp, left = 0): Promise<void> {
  const server = app.app.getHttpServer() as Server;
  const count = () =>
    new Promise<number>((resolve, reject) => {
      server.getConnections((error, connections) => (error ? reject(error) : resolve(connections)));
    });
  await expect.poll(count, { timeout: 10_000, interval: 5 }).toBe(left);
}
