import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Clock, ClockTimer } from '../common/clock.js';
import { McpError } from '../wire/errors.js';
import { abandonBody, closeAfterAnswer } from './abandon-body.js';
import { httpMessages } from './http.messages.js';

/*
 * # Reading the body
 *
 * The endpoint reads its bodies itself, after the app's guards, counting: so its limit holds for chunked bodies too, and is
 * not the limit of the app's other routes (E6). What was collected is let go the moment a body is refused.
 */

const A_TURN = Promise.resolve();

/** Makes the reading of a body fail, with an error that carries the given headers. @internal */
export type InterruptBody = (reasonWith: (headers: Record<string, string>) => McpError) => void;

/** How to read a body. @internal */
export interface BodyReaderOptions {
  /** The largest body that is taken, in bytes. */
  readonly maxBytes: number;
  /** Time for the whole body, in milliseconds from the call. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Bodies that are being read, for whoever must end that before its time. */
  readonly underWay?: Set<InterruptBody>;
  /**
   * `request.body`, for the case that a parser of the app has taken the body in spite of the edge (Express: one whose type
   * is a function; either: middleware that reads whatever comes). A string or Buffer is the body; anything else is
   * written as JSON again, so that numbers beyond the doubles and repeated keys are as that parser left them. Ignored
   * while the raw stream is unread.
   */
  readonly parsed?: unknown;
}

/**
 * The body of a request as text.
 *
 * @param request the raw one, `readBody` is called once for it
 * @returns the text, without a byte order mark; empty when there is no body
 * @throws McpError `UNSUPPORTED_MEDIA_TYPE` for a `Content-Encoding`, `PAYLOAD_TOO_LARGE`, `REQUEST_TIMEOUT`, `PARSE_ERROR`
 *   for what is not UTF-8, `BAD_REQUEST` when the client goes away before the end, `INTERNAL_ERROR` when something else has
 *   taken the body and kept it. The answer must be sent with the error's headers
 * @see behaviour.md E6, E7, E11
 * @internal
 */
export async function readBody(request: IncomingMessage, options: BodyReaderOptions): Promise<string> {
  const { maxBytes, clock } = options;
  const encoding = request.headers['content-encoding'] ?? '';
  // An inflated body would pass the limit uncounted.
  if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
    const headers = abandonBody(request, clock);
    throw new McpError('UNSUPPORTED_MEDIA_TYPE', httpMessages.encodedBody(encoding), { headers });
  }
  if (request.readableDidRead || request.readableEnded) return takenBody(request, options);
  if (Number(request.headers['content-length']) > maxBytes) throw tooLarge(request, options);
  // Node tells of a head before it reads on: a body that came with it is there a turn later.
  await A_TURN;
  return decoded(arrived(request) ?? (await new BodyCollector(request, options).bytes));
}

/**
 * What a parser of the app has made of the body, on either adapter: see {@link BodyReaderOptions.parsed}.
 *
 * @param request Express' `Request` or Fastify's `FastifyRequest`
 * @internal
 */
export function parsedBodyOf(request: unknown): unknown {
  const { body, raw } = request as { body?: unknown; raw?: IncomingMessage & { body?: unknown } };
  return body ?? raw?.body;
}

/** A body that is there as a whole, as nearly all are: it needs no listeners and no timer. */
function arrived(request: IncomingMessage): Buffer | undefined {
  const { destroyed, headers, readableLength: length } = request;
  if (destroyed || length === 0 || length !== Number(headers['content-length'])) return undefined;
  const bytes = request.read() as Buffer;
  // Node has yet to say that it ends, and somebody must hear it.
  request.resume();
  return bytes;
}

function takenBody(request: IncomingMessage, options: BodyReaderOptions): string {
  const { parsed, maxBytes } = options;
  if (parsed === undefined && request.headers['content-length'] !== '0') {
    throw new McpError('INTERNAL_ERROR', httpMessages.bodyTaken());
  }
  if (Buffer.isBuffer(parsed)) {
    if (parsed.length > maxBytes) throw tooLarge(request, options);
    return decoded(parsed);
  }
  const text = typeof parsed === 'string' ? parsed : (JSON.stringify(parsed) ?? '');
  if (Buffer.byteLength(text) > maxBytes) throw tooLarge(request, options);
  return text;
}

/** The whole at once: no character is cut at the border of a chunk (E11). A byte order mark is for who reads the text. */
function decoded(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new McpError('PARSE_ERROR', httpMessages.bodyNotUtf8());
  return bytes.toString('utf8');
}

function tooLarge(request: IncomingMessage, { maxBytes, clock }: BodyReaderOptions): McpError {
  return new McpError('PAYLOAD_TOO_LARGE', httpMessages.bodyTooLarge(maxBytes), {
    headers: closeAfterAnswer(request, clock),
  });
}

function tooSlow(request: IncomingMessage, { timeoutMs, clock }: BodyReaderOptions): McpError {
  return new McpError('REQUEST_TIMEOUT', httpMessages.bodyTooSlow(timeoutMs), {
    headers: closeAfterAnswer(request, clock),
  });
}

/** Collects one body; by the time `bytes` is settled it has let go of the request and of its timer. */
class BodyCollector {
  readonly bytes: Promise<Buffer>;
  /** A lone chunk as it came; from the second one on a buffer of our own, since each tiny chunk would keep Node's alive. */
  private buffer: Buffer = Buffer.alloc(0);
  private length = 0;
  private readonly timer: ClockTimer | undefined;
  private settle!: { resolve(bytes: Buffer): void; reject(error: McpError): void };

  constructor(
    private readonly request: IncomingMessage,
    private readonly options: BodyReaderOptions,
  ) {
    this.bytes = new Promise((resolve, reject) => (this.settle = { resolve, reject }));
    if (request.destroyed) {
      this.fail(cut());
      return;
    }
    options.underWay?.add(this.interrupt);
    this.timer = options.clock.setTimeout(this.onTimeout, options.timeoutMs);
    request.on('end', this.onEnd).on('close', this.onCut).on('error', this.onCut).on('data', this.onData);
  }

  private readonly onData = (chunk: Buffer): void => {
    const length = this.length + chunk.length;
    if (length > this.options.maxBytes) {
      this.fail(tooLarge(this.request, this.options));
      return;
    }
    if (this.length === 0) this.buffer = chunk;
    else this.append(chunk, length);
    this.length = length;
  };

  private append(chunk: Buffer, length: number): void {
    if (this.buffer.length < length) {
      const larger = Buffer.allocUnsafe(Math.min(Math.max(2 * length, 4096), this.options.maxBytes));
      this.buffer.copy(larger, 0, 0, this.length);
      this.buffer = larger;
    }
    chunk.copy(this.buffer, this.length);
  }

  private readonly onEnd = (): void => {
    this.release();
    this.settle.resolve(this.buffer.subarray(0, this.length));
  };

  private readonly onCut = (): void => this.fail(cut());

  private readonly interrupt: InterruptBody = (reasonWith) => {
    this.fail(reasonWith(closeAfterAnswer(this.request, this.options.clock)));
  };

  private readonly onTimeout = (): void => this.fail(tooSlow(this.request, this.options));

  private fail(error: McpError): void {
    this.release();
    this.buffer = Buffer.alloc(0);
    this.settle.reject(error);
  }

  private release(): void {
    const { request, options } = this;
    options.clock.clear(this.timer);
    options.underWay?.delete(this.interrupt);
    request.off('end', this.onEnd).off('close', this.onCut).off('error', this.onCut).off('data', this.onData);
  }
}

function cut(): McpError {
  return new McpError('BAD_REQUEST', httpMessages.bodyCut());
}
