import { request as httpRequest } from 'node:http';
import type { ModernClient, ModernMessage } from './modern-client.js';
import type { RawClient } from './raw-client.js';

/** A POST whose answer its sender does not wait for. */
export class ForsakenPost {
  readonly #request;

  constructor(client: Pick<RawClient, 'url' | 'usualHeaders'>, body: unknown) {
    this.#request = httpRequest(client.url, { method: 'POST', headers: client.usualHeaders, agent: false });
    this.#request.on('error', () => {});
    this.#request.end(JSON.stringify(body));
  }

  /** Cuts the connection. */
  async hangUp(): Promise<void> {
    const closed = new Promise((resolve) => this.#request.once('close', resolve));
    this.#request.destroy();
    await closed;
  }
}

/** A message as some support for sessions wants its sender. */
export function senderOf(client: ModernClient, message: ModernMessage): Pick<RawClient, 'url' | 'usualHeaders'> {
  return { url: client.url, usualHeaders: client.headersOf(message) };
}

/** A call whose answer its sender does not wait for. */
export function forsakenCall(client: ModernClient, name: string, options: object = {}): ForsakenPost {
  const message = client.message('tools/call', { name, arguments: {} }, options);
  return new ForsakenPost(senderOf(client, message), message);
}
