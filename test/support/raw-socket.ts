import { connect, type Socket } from 'node:net';
import type { RawClient } from './raw-client.js';

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
