import { request as httpRequest } from 'node:http';
import { Readable } from 'node:stream';
import { wayTo } from './ways.js';

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
