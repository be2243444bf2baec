import type { Server } from 'node:http';
import { expect } from 'vitest';
import type { TestApp } from './app.js';

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
  await expect.poll(count, { timeout: 10_000, interval: 5 }).toBe(left);
}
