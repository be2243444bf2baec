import type { Transport } from '@modelcontextprotocol/server';
import { Subject } from 'rxjs';
import type { JsonRpcMessage } from '../wire/json-rpc.js';
import { HttpStatusError } from './client.errors.js';
import type { ResolvedClientOptions } from './client.options.js';
import type { ClientSession, ReconnectEvent } from './client-session.js';
import { HttpEndpoint } from './http-endpoint.js';
import { delayMs, Idempotency } from './retry.js';
import { LinkedAbort, pause } from './waiting.js';

/** What the requests and streams of one transport share. Everything under way ends with `life`. */
export class ClientConnection {
  readonly endpoint: HttpEndpoint;
  readonly idempotency: Idempotency;
  readonly life: LinkedAbort;
  readonly reconnects$ = new Subject<ReconnectEvent>();

  constructor(
    url: URL,
    readonly options: ResolvedClientOptions,
    readonly session: ClientSession,
    private readonly transport: Pick<Transport, 'onmessage' | 'onerror'>,
  ) {
    this.endpoint = new HttpEndpoint(url, options);
    this.idempotency = new Idempotency(options.replay);
    this.life = new LinkedAbort(options.clock);
  }

  /** Hands a message of the server to the client. @throws NOT_CONNECTED once the transport closes */
  deliver(message: JsonRpcMessage): void {
    this.session.checkOpen();
    try {
      this.transport.onmessage?.(message);
    } catch (error) {
      this.report(error);
    }
  }

  /** Tells the client of an error that is not of one call. */
  report(error: unknown): void {
    try {
      this.transport.onerror?.(error instanceof Error ? error : new Error(String(error)));
    } catch {
      // An error of the error handler has no other one to go to.
    }
  }

  /**
   * Announces another attempt, and waits for its time.
   *
   * @param retryMs what the stream asked for; a `Retry-After` of the failure comes first
   * @throws (rejects) NOT_CONNECTED once the transport closes; the reason of the signal
   */
  async waitToRetry(event: Omit<ReconnectEvent, 'delayMs'>, signal: AbortSignal, retryMs?: number): Promise<void> {
    this.session.check();
    const { reconnect, random, clock } = this.options;
    const { failures, cause } = event;
    const asked = (cause instanceof HttpStatusError ? cause.retryAfterMs : undefined) ?? retryMs;
    const ms = delayMs(reconnect, failures, asked, random);
    this.reconnects$.next({ ...event, delayMs: ms });
    await pause(ms, clock, signal);
  }
}
