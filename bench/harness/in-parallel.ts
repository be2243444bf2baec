import { HttpConnection } from './http-connection.js';

/** How many requests are on their way at a time. */
export const CONCURRENCY = 16;

/**
 * Does the same `count` times, over connections that each wait for their answer before they ask again.
 *
 * @param ports of several servers: each gets the next request
 */
export async function inParallel(
  ports: number | readonly number[],
  count: number,
  once: (connection: HttpConnection, index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    if (next >= count) return;
    const connections = await Promise.all([ports].flat().map((port) => HttpConnection.open(port)));
    try {
      while (next < count) {
        const index = next++;
        await once(connections[index % connections.length]!, index);
      }
    } finally {
      for (const connection of connections) connection.close();
    }
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, count) }, worker));
}

/** How many requests make so many units. @throws when it is no whole number: the price of a unit would be wrong */
export function requestsFor(units: number, unitsPerRequest: number): number {
  const requests = units / unitsPerRequest;
  if (!Number.isInteger(requests)) throw new Error(`${units} units do not divide by ${unitsPerRequest}.`);
  return requests;
}
