import { type Agent, request as httpRequest } from 'node:http';
import type { Server } from 'node:net';
import { Readable } from 'node:stream';

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

/**
 * A `fetch` whose every request has a connection of its own. The global one keeps sockets for later, some of which have
 * never sent a request: `app.close()` on Fastify would wait for them.
 */
export function loneFetch(url: string | URL, { method = 'GET', headers, body, signal }: RequestInit = {}) {
  return new Promise<Response>((resolve, reject) => {
    const given = Object.fromEntries(new Headers(headers));
    const sent = httpRequest(
      url,
      { method, headers: given, agent: wayTo(url), signal: signal ?? undefined },
      (message) => {
        const { statusCode: status = 0, headers: received } = message;
        const empty = status === 204 || status === 205 || status === 304;
        // An abort after the head is the reader's to hear of.
        message.on('error', () => {});
        const stream = empty ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>);
        resolve(new Response(stream, { status, headers: new Headers(received as Record<string, string>) }));
      },
    );
    sent.on('error', reject);
    sent.end(body instanceof URLSearchParams ? body.toString() : (body ?? undefined));
  });
}
