import type { Agent } from 'node:http';
import type { Server } from 'node:net';

/** Apps that the clients of tests reach without a port, by the origin at which they listen. */
const WAYS = new Map<string, { readonly agent: Agent; readonly server: Server }>();

/** Requests to an origin take this agent from now on, as long as its server listens: later the port may be another app's. */
export function open(origin: string, agent: Agent, server: Server): void {
  WAYS.set(origin, { agent, server });
}

export function close(origin: string): void {
  WAYS.get(origin)?.agent.destroy();
  WAYS.delete(origin);
}

/** The agent for a request: of an app without a port, or none, so that each request has a connection of its own. */
export function wayTo(url: string | URL): Agent | false {
  if (WAYS.size === 0) return false;
  const { origin } = new URL(url);
  const way = WAYS.get(origin);
  if (way?.server.listening) return way.agent;
  WAYS.delete(origin);
  return false;
}
