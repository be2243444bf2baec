import type { Agent } from 'node:http';

/** Apps that the clients of tests reach without a port, by the origin at which they listen. */
const WAYS = new Map<string, Agent>();

/** Requests to an origin take this agent from now on. */
export function open(origin: string, agent: Agent): void {
  WAYS.set(origin, agent);
}

export function close(origin: string): void {
  WAYS.get(origin)?.destroy();
  WAYS.delete(origin);
}

/** The agent for a request: of an app without a port, or none, so that each request has a connection of its own. */
export function wayTo(url: string | URL): Agent | false {
  return WAYS.size === 0 ? false : (WAYS.get(new URL(url).origin) ?? false);
}
