import { HttpConnection } from './http-connection.js';

/** How many requests are on their way at a time. */
export const CONCURRENCY = 16;

/** Connections that nobody uses now, by port: a turn of some milliseconds shall not have to pay for new ones. */
const IDLE = new Map<number, HttpConnection[]>();

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
    const lent = await Promise.all([ports].flat().map(borrow));
    while (next < count) {
      const index = next++;
      await once(lent[index % lent.length]!.connection, index);
    }
    for (const { idle, connection } of lent) idle.push(connection);
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, count) }, worker));
}

async function borrow(port: number): Promise<{ connection: HttpConnection; idle: HttpConnection[] }> {
  const idle = IDLE.get(port) ?? [];
  IDLE.set(port, idle);
  for (let known = idle.pop(); known; known = idle.pop()) {
    if (known.fresh) return { connection: known, idle };
    known.close();
  }
  return { connection: await HttpConnection.open(port), idle };
}

/** How many requests make so many units. @throws when it is no whole number: the price of a unit would be wrong */
export function requestsFor(units: number, unitsPerRequest: number): number {
  const requests = units / unitsPerRequest;
  if (!Number.isInteger(requests)) throw new Error(`${units} units do not divide by ${unitsPerRequest}.`);
  return requests;
}
