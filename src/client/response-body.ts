import { createParser } from 'eventsource-parser';
import type { Clock, ClockTimer } from '../common/clock.js';
import { clientMessages } from './client.messages.js';
import { ClientTransportError } from './client.errors.js';

/** One server-sent event. */
export interface SseEvent {
  /** The event's own id; `undefined` if it has none. */
  readonly id: string | undefined;
  /** `undefined` means `message`. */
  readonly type: string | undefined;
  readonly data: string;
}

/** Who reads an event stream. */
export interface SseSink {
  /** May be asked to take the next one only after a microtask. */
  event(event: SseEvent): void;
  /** The server says how long to wait before coming back, in milliseconds. */
  retry(ms: number): void;
  /** Milliseconds of silence from now on after which the response is dead. */
  silenceMs(): number;
}

export interface ReadLimits {
  readonly clock: Clock;
  readonly maxMessageBytes: number;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

/** `text/event-stream` of `text/event-stream; charset=utf-8`. */
export function mediaTypeOf(response: Response): string | undefined {
  return response.headers.get('content-type')?.split(';', 1)[0]!.trim().toLowerCase();
}

/** Gives the connection free; what is still to come is of no interest. */
export function discard(response: Response): void {
  response.body?.cancel().catch(() => {});
}

/**
 * Reads a body as text.
 *
 * @throws (rejects) `MESSAGE_TOO_LARGE`, what the connection fails with, or the reason of the signal
 */
export async function readText(response: Response, limits: ReadLimits): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of chunksOf(response, limits)) {
    bytes += chunk.length;
    if (bytes > limits.maxMessageBytes) throw tooLarge(limits);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/**
 * Reads a body as server-sent events (WHATWG HTML §9.2.6), to its end.
 *
 * Events of one chunk are handed over one per microtask: the SDK's client hands notifications to their handlers in a
 * microtask, but takes answers at once, and progress would find its call answered (behaviour.md C12).
 *
 * @throws (rejects) `MESSAGE_TOO_LARGE`, `SILENT`, what the connection fails with, or the reason of the signal
 */
export async function readEvents(response: Response, sink: SseSink, limits: ReadLimits): Promise<void> {
  const { clock, maxMessageBytes, signal } = limits;
  const waiting: SseEvent[] = [];
  let overflow = false;
  const parser = createParser({
    onEvent: ({ id, event, data }) => waiting.push({ id, type: event, data }),
    onRetry: (ms) => sink.retry(ms),
    onError: ({ type }) => (overflow ||= type === 'max-buffer-size-exceeded'),
    maxBufferSize: maxMessageBytes,
  });
  const lines = new LineEnds();
  const decoder = new TextDecoder();
  const silence = new Silence(clock, sink);
  // At once, not when the reading has noticed: who ends a transport expects that no timer is left.
  const stop = (): void => silence.end();
  signal.addEventListener('abort', stop, { once: true });
  try {
    for await (const chunk of chunksOf(response, limits, silence.signal)) {
      silence.rearm();
      parser.feed(lines.complete(decoder.decode(chunk, { stream: true })));
      for (let event = waiting.shift(); event; event = waiting.shift()) {
        if (signal.aborted) throw signal.reason;
        sink.event(event);
        await MICROTASK;
      }
      if (overflow) throw tooLarge(limits);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    silence.end();
  }
}

const MICROTASK = Promise.resolve();

function tooLarge({ maxMessageBytes }: ReadLimits): ClientTransportError {
  return new ClientTransportError('MESSAGE_TOO_LARGE', clientMessages.tooLarge(maxMessageBytes));
}

/**
 * The parser waits for what follows a CR, lest CR LF be taken for two line ends; a server that writes CR alone would have
 * its events handed over late, and the last one never. So a CR is completed at once, and a LF that follows is dropped.
 */
class LineEnds {
  #endedWithCr = false;

  complete(text: string): string {
    if (text === '') return text;
    const rest = this.#endedWithCr && text.startsWith('\n') ? text.slice(1) : text;
    if (rest === '') this.#endedWithCr = false;
    else this.#endedWithCr = rest.endsWith('\r');
    return this.#endedWithCr ? `${rest}\n` : rest;
  }
}

/** Aborts when nothing has come for too long. */
class Silence {
  readonly #controller = new AbortController();
  #timer: ClockTimer | undefined;
  #over = false;

  constructor(
    private readonly clock: Clock,
    private readonly sink: SseSink,
  ) {
    this.rearm();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  rearm(): void {
    this.clock.clear(this.#timer);
    if (this.#over) return;
    const ms = this.sink.silenceMs();
    if (ms === Infinity) return;
    this.#timer = this.clock.setTimeout(() => {
      this.#controller.abort(new ClientTransportError('SILENT', clientMessages.silent(ms)));
    }, ms);
  }

  end(): void {
    this.#over = true;
    this.clock.clear(this.#timer);
  }
}

/** The chunks of a body, until it ends or a signal is aborted; in the end the connection is given free. */
async function* chunksOf(
  response: Response,
  { signal }: ReadLimits,
  other?: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (!response.body) return;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const signals = other ? [signal, other] : [signal];
  // A read that waits ends with the cancellation: as if the body were over, hence the look at the signals.
  const stop = (): void => void reader.cancel().catch(() => {});
  for (const each of signals) each.addEventListener('abort', stop, { once: true });
  try {
    for (;;) {
      const aborted = signals.find((each) => each.aborted);
      if (aborted) throw aborted.reason;
      const { value, done } = await reader.read();
      if (!done) yield value;
      else if (!signals.some((each) => each.aborted)) return;
    }
  } finally {
    for (const each of signals) each.removeEventListener('abort', stop);
    stop();
  }
}
