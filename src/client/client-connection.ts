import type { Transport } from '@modelcontextprotocol/server';
import { Subject } from 'rxjs';
import type { JsonRpcMessage } from '../core/protocol/json-rpc.js';
import { McpHttpStatusError } from './client.errors.js';
import type { ResolvedClientOptions } from './client.options.js';
import type { ClientSession, McpReconnectEvent } from './client-session.js';
import { HttpEndpoint } from './http-endpoint.js';
import { faultOf, ListedPages } from './large-messages.js';
import { delayMs, Idempotency } from './retry.js';
import { ServerRequests } from './server-requests.js';
import { LinkedAbort, pause } from './waiting.js';

/** The requests and streams of one transport share it. `life` aborts all of them. */
export class ClientConnection {
  readonly endpoint: HttpEndpoint;
  readonly idempotency: Idempotency;
  readonly life: LinkedAbort;
  readonly listedPages: ListedPages;
  readonly serverRequests = new ServerRequests((error) => this.report(error));
  readonly reconnects$ = new Subject<McpReconnectEvent>();

  constructor(
    url: URL,
    readonly options: ResolvedClientOptions,
    readonly session: ClientSession,
    private readonly transport: Pick<Transport, 'onmessage' | 'onerror'>,
  ) {
    this.endpoint = new HttpEndpoint(url, options);
    this.listedPages = new ListedPages(options);
    this.idempotency = new Idempotency(options.replay);
    this.life = new LinkedAbort(options.clock);
  }

  /**
   * Passes a message of the server to the client, unless it is a request too many.
   *
   * @throws NOT_CONNECTED once the transport closes
   */
  deliver(message: JsonRpcMessage): void {
    this.session.checkOpen();
    const fault = faultOf(message);
    if (fault !== undefined) return this.report(new Error(fault));
    if (!this.serverRequests.admit(message)) return;
    try {
      this.transport.onmessage?.(message);
    } catch (error) {
      this.report(error);
    }
  }

  /** Passes an error that belongs to no single call to `onerror`. */
  report(error: unknown): void {
    try {
      this.transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
    } catch {
      // An error of the error handler is ignored.
    }
  }

  /**
   * Emits another attempt on `reconnects$`, then waits until it is due.
   *
   * @param retryMs the delay that the stream asks for; a `Retry-After` of the failure takes precedence
   * @throws (rejects) NOT_CONNECTED once the transport closes; the reason of the signal
   */
  async waitToRetry(event: Omit<McpReconnectEvent, 'delayMs'>, signal: AbortSignal, retryMs?: number): Promise<void> {
    this.session.check();
    const { reconnect, random, clock } = this.options;
    const { failures, cause } = event;
    const asked = (cause instanceof McpHttpStatusError ? cause.retryAfterMs : undefined) ?? retryMs;
    const ms = delayMs(reconnect, failures, asked, random);
    this.reconnects$.next({ ...event, delayMs: ms });
    await pause(ms, clock, signal);
  }
}
