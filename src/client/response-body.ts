import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { McpClock } from '../core/common/clock.js';
import { McpClientTransportError } from './client.errors.js';
import { LinkedAbort, nextTurn } from './waiting.js';

/** Reads an event stream. */
export interface SseSink {
  event(event: EventSourceMessage): void;
  /** Takes `retry:` of the server, in milliseconds. */
  retry(ms: number): void;
  /** Returns the milliseconds without a byte, from now on, after which the response is closed. */
  silenceMs(): number;
}

export interface ReadLimits {
  readonly maxMessageBytes: number;
  /** Ends the reading when it aborts. */
  readonly signal: AbortSignal;
}

/** Returns `text/event-stream` for `text/event-stream; charset=utf-8`. */
export function mediaTypeOf(response: Response): string | undefined {
  return response.headers.get('content-type')?.split(';', 1)[0]!.trim().toLowerCase();
}

/** Frees the connection of a response that is not read. */
export function closeUnread(response: Response): void {
  response.body?.cancel().catch(() => {});
}

/**
 * Reads a body as text.
 *
 * @throws (rejects) `MESSAGE_TOO_LARGE`, `NO_ANSWER`, or the reason of the signal
 */
export async function readText(response: Response, limits: ReadLimits): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const chunk of chunksOf(response, limits.signal)) {
    bytes += chunk.length;
    if (bytes > limits.maxMessageBytes) throw tooLarge(limits);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/**
 * Reads a body as server-sent events (WHATWG HTML §9.2.6), to its end.
 *
 * Events of one chunk are handed over one per microtask: the SDK's client handles notifications in a microtask, but
 * answers at once, so progress could arrive after the answer of its call (rule C12).
 *
 * @throws (rejects) `MESSAGE_TOO_LARGE`, `SILENT`, `NO_ANSWER`, what the sink throws, or the reason of the signal
 */
export async function readEvents(
  response: Response,
  sink: SseSink,
  limits: ReadLimits & { readonly clock: McpClock },
): Promise<void> {
  const { clock, maxMessageBytes } = limits;
  const waiting: EventSourceMessage[] = [];
  let overflow = false;
  const parser = createParser({
    onEvent: (event) => waiting.push(event),
    onRetry: (ms) => sink.retry(ms),
    onError: ({ type }) => (overflow ||= type === 'max-buffer-size-exceeded'),
    maxBufferSize: maxMessageBytes,
  });
  const decoder = new TextDecoder();
  let endedWithCr = false;
  let events = 0;
  const reading = new LinkedAbort(clock, limits.signal);
  const { signal } = reading;
  const awaitMore = (): void => {
    const ms = sink.silenceMs();
    reading.deadline(ms, () => new McpClientTransportError('SILENT', `no data arrived for ${ms} ms`));
  };
  try {
    awaitMore();
    for await (const chunk of chunksOf(response, signal)) {
      const text = decoder.decode(chunk, { stream: true });
      if (text === '') continue;
      // The parser would wait for the character after a CR: it is completed to CRLF at once, and a following LF is dropped.
      const rest: string = endedWithCr && text.startsWith('\n') ? text.slice(1) : text;
      endedWithCr = rest.endsWith('\r');
      parser.feed(endedWithCr ? `${rest}\n` : rest);
      for (let event = waiting.shift(); event; event = waiting.shift()) {
        signal.throwIfAborted();
        sink.event(event);
        await (++events % EVENTS_PER_TURN === 0 ? nextTurn() : MICROTASK);
      }
      if (overflow) throw tooLarge(limits);
      awaitMore();
    }
  } finally {
    reading.release();
  }
}

const MICROTASK = Promise.resolve();
/** After so many events other work of the process has its turn: the chunks of a fast server would leave it none. */
const EVENTS_PER_TURN = 256;

function tooLarge({ maxMessageBytes }: ReadLimits): McpClientTransportError {
  const message = `The server sent a message of more than ${maxMessageBytes} bytes ("maxMessageBytes"). It was not read; raise the option to receive it.`;
  return new McpClientTransportError('MESSAGE_TOO_LARGE', message);
}

/** Yields the chunks of a body, until it ends or the signal aborts; then the connection is freed. */
async function* chunksOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  if (!response.body) return;
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  // After a cancellation a pending read ends like the end of the body, hence the check of the signal.
  const stop = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener('abort', stop, { once: true });
  try {
    for (;;) {
      signal.throwIfAborted();
      const { value, done } = await reader.read().catch((cause: unknown) => {
        signal.throwIfAborted();
        throw new McpClientTransportError(
          'NO_ANSWER',
          'The connection was lost before the end of the response.',
          { cause },
          true,
        );
      });
      signal.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}
