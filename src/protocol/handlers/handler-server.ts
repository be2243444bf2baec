import { Server, type Implementation, type ServerOptions, type Transport } from '@modelcontextprotocol/server';
import type { HandlerRequests } from './handler-requests.js';

const NONE: readonly string[] = [];

/**
 * A server that is given a handler when a client first asks for its method: a session uses two or three of ten, and each of
 * them costs 0.3 KiB for as long as the session lives.
 */
export class HandlerServer extends Server {
  #handled = NONE;

  constructor(
    serverInfo: Implementation,
    options: ServerOptions,
    private readonly requests: HandlerRequests,
  ) {
    super(serverInfo, options);
  }

  override connect(transport: Transport): Promise<void> {
    const { onmessage } = transport;
    // The SDK calls what it finds there, before it looks for the handler.
    transport.onmessage = (message, extra) => {
      onmessage?.(message, extra);
      if ('method' in message) this.#handle(message.method);
    };
    return super.connect(transport);
  }

  #handle(method: string): void {
    if (this.#handled.includes(method) || !this.requests.install(this, method)) return;
    this.#handled = [...this.#handled, method];
  }
}
