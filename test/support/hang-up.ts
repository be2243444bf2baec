import { request as httpRequest } from 'node:http';
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
