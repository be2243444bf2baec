import { SessionLostError } from './client.errors.js';
import type { ExchangeHost } from './exchange-host.js';
import { messagesOf } from './event-messages.js';
import { LinkedAbort } from './linked-abort.js';
import { getHeaders } from './request-headers.js';
import { discard, mediaTypeOf, readEvents, type SseEvent } from './response-body.js';
import { waitToRetry } from './wait-to-retry.js';

/**
 * # The GET for what the server sends on its own
 *
 *     opening ──200──▶ open ──ends, or is cut──▶ pausing ──▶ opening
 *        ├──405──▶ over: the server has none
 *        └──any other failure──▶ pausing (behaviour.md C10: never fatal, never given up)
 *
 * Invariants: one GET at a time; the cursor survives all but its refusal; failures are reported once in a row.
 */
export class StandaloneStream {
  #run: LinkedAbort | undefined;

  constructor(
    private readonly host: ExchangeHost,
    private readonly life: AbortSignal,
  ) {}

  /** Begins, or begins anew for another session. */
  start(): void {
    this.stop();
    const run = new LinkedAbort(this.life, this.host.options.clock);
    this.#run = run;
    new StandaloneRun(this.host, run.signal).loop().catch((error: unknown) => {
      if (!run.signal.aborted) this.host.report(error);
    });
  }

  stop(): void {
    this.#run?.abort(new Error('superseded'));
    this.#run?.release();
    this.#run = undefined;
  }
}

/** The stream within one session. */
class StandaloneRun {
  #cursor: string | undefined;
  #retryMs: number | undefined;
  #events = 0;
  #opened = false;

  constructor(
    private readonly host: ExchangeHost,
    private readonly signal: AbortSignal,
  ) {}

  async loop(): Promise<void> {
    for (let failures = 0; ;) {
      const before = this.#events;
      const result = await this.#open();
      if (result === 'over') return;
      const { cause, askedMs } = result;
      const quiet = cause === undefined;
      if (!quiet && failures === 0) this.host.report(cause);
      failures = this.#events > before ? 0 : failures + 1;
      await waitToRetry(this.host, { kind: 'standalone', failures, cause }, askedMs ?? this.#retryMs, this.signal);
    }
  }

  async #open(): Promise<{ cause?: unknown; askedMs?: number | undefined } | 'over'> {
    const { endpoint, options, session } = this.host;
    const link = new LinkedAbort(this.signal, options.clock).within(options.openTimeoutMs);
    try {
      const headers = getHeaders(session.headers, this.#cursor);
      const response = await endpoint.send({ method: 'GET', headers, signal: link.signal });
      link.inTime();
      if (response.status === 405) {
        discard(response);
        return 'over';
      }
      if (!response.ok) return await this.#refused(response);
      if (mediaTypeOf(response) !== 'text/event-stream') return { cause: endpoint.unexpectedContent(response, 'GET') };
      this.#opened = true;
      const { clock, maxMessageBytes } = options;
      await readEvents(response, this, { clock, maxMessageBytes, signal: link.signal });
      return {};
    } catch (error) {
      this.signal.throwIfAborted();
      return { cause: error };
    } finally {
      link.release();
    }
  }

  async #refused(response: Response): Promise<{ cause: unknown; askedMs?: number | undefined }> {
    const { endpoint, options, session } = this.host;
    const { sessionId } = session.headers;
    const error = await endpoint.errorOf(response, 'GET', this.signal);
    // Forgotten, or never understood: without it the stream begins where the server thinks best.
    if (error.status === 400) this.#cursor = undefined;
    // A server may have no GET at all and say so by 404: only one that had it has lost the session.
    if (error.status === 404 && this.#opened && sessionId !== undefined && options.recover) {
      // What follows ends this run, and begins another.
      await this.host.sessionLost(new SessionLostError(sessionId, false), { replayed: false }, this.signal);
    }
    return { cause: error, askedMs: error.retryAfterMs };
  }

  event(event: SseEvent): void {
    const { id } = event;
    this.#events++;
    if (id !== undefined) this.#cursor = id === '' ? undefined : id;
    for (const message of messagesOf(event, (error) => this.host.report(error))) this.host.deliver(message);
  }

  retry(ms: number): void {
    this.#retryMs = ms;
  }

  silenceMs(): number {
    return this.host.options.silenceMs;
  }
}
