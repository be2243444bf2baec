import { request as httpRequest } from 'node:http';
import { RawResponse } from './http.js';
import type { RawClient } from './raw-client.js';

/** Posts a body chunk by chunk: each is a chunk of its own on the wire, and for who reads it. */
export function postInChunks(
  client: Pick<RawClient, 'url' | 'usualHeaders'>,
  chunks: Iterable<Uint8Array>,
): Promise<RawResponse> {
  const headers = { ...client.usualHeaders, 'transfer-encoding': 'chunked' };
  return new Promise((resolve, reject) => {
    const sent = httpRequest(client.url, { method: 'POST', headers, agent: false }, (message) => {
      resolve(new RawResponse(message, sent));
    });
    sent.on('error', reject);
    for (const chunk of chunks) sent.write(chunk);
    sent.end();
  });
}

/** Cuts bytes into pieces of one size. */
export function* cut(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Posts a body that has no end: goes on as long as the server takes it. */
export class EndlessPost {
  /** Bytes that were given to the socket. */
  bytes = 0;
  readonly response: Promise<RawResponse>;
  /** Settles when the connection is over. */
  readonly closed: Promise<void>;

  constructor(client: RawClient, chunk: Uint8Array) {
    const headers = { ...client.usualHeaders, connection: 'keep-alive', 'transfer-encoding': 'chunked' };
    const sent = httpRequest(client.url, { method: 'POST', headers, agent: false });
    this.response = new Promise((resolve, reject) => {
      sent.on('response', (message) => resolve(new RawResponse(message, sent)));
      // After the answer it is the server's right to close, and ours to go on writing until it does.
      sent.on('error', reject);
    });
    this.closed = new Promise((resolve) => void sent.on('close', resolve));
    const write = (): void => {
      while (!sent.destroyed && !sent.errored) {
        this.bytes += chunk.length;
        if (!sent.write(chunk)) return;
      }
    };
    sent.on('drain', write);
    write();
  }
}
