import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ClockTimer, McpClock } from '../../common/clock.js';
import type { MaybePromise } from '../../common/promises.js';
import { type HeldBody, SMALL_BODY_BYTES } from '../../calls/held-bytes.js';
import { McpError, shown } from '../../protocol/errors.js';

/*
 * # Reading the body
 *
 * The endpoint reads its bodies itself, after the app's guards, and counts the bytes: its limit also holds for chunked
 * bodies, and is independent of the limit of the app's other routes (E6).
 *
 * A request may be refused while its body is still arriving. Closing the socket then makes the unread bytes a reset,
 * and the client loses the answer. So `readBody` leaves the rest of the body unread, and `discardBody` reads it after
 * the answer.
 */

const A_TURN = Promise.resolve();
// Read when the module is loaded: tests that fake time would never read on.
const { setImmediate: nextTurn } = globalThis;

/** Limits the rest of a refused body; above them the connection is closed. @internal */
export const DISCARDED_BODY = Object.freeze({ maxBytes: 16 * 1024 * 1024, timeoutMs: 2_000 });

/** So many chunks are joined into one, because each chunk takes more memory than its bytes. */
const MANY_CHUNKS = 1_000;

/** The rate of a body is measured over so many milliseconds, again and again: a body that pauses for longer is refused. */
const RATE_PERIOD_MS = 5_000;

/** Makes the reading of a body fail. @internal */
export type InterruptBody = (reason: McpError) => void;

/** Says how to read a body. @internal */
export interface BodyReaderOptions {
  /** A larger body is refused, in bytes. */
  readonly maxBytes: number;
  /** The whole body must arrive within so many milliseconds from the call. */
  readonly timeoutMs: number;
  /** A body that counts ({@link held}) must arrive at this rate. @default 0: at any */
  readonly minBytesPerSecond?: number;
  readonly clock: McpClock;
  /** Holds bodies that are being read, for a shutdown that does not wait for them. */
  readonly underWay?: Set<InterruptBody>;
  /**
   * Express' `Request` or Fastify's `FastifyRequest`. Its `body` counts if a parser of the app has read the raw stream despite
   * the edge (on Express, a parser whose type is a function; on both, middleware that reads every body). A string or Buffer
   * is the body; any other value is serialized as JSON again, with numbers and repeated keys as that parser left them.
   */
  readonly platform?: object;
  /** Counts the bytes as they arrive (E15). */
  readonly held?: HeldBody | undefined;
}

/**
 * Reads the body of a request as text.
 *
 * @param request the raw one, `readBody` is called once for it
 * @returns the text, without a byte order mark; empty when there is no body
 * @throws McpError `UNSUPPORTED_MEDIA_TYPE` for a `Content-Encoding`, `PAYLOAD_TOO_LARGE`, `REQUEST_TIMEOUT`,
 *   `PARSE_ERROR` for what is not UTF-8, `BAD_REQUEST` when the client disconnects before the end, `INTERNAL_ERROR`
 *   when another parser has read the body without setting `request.body`, `UNAVAILABLE` above `maxHeldBytes`,
 *   `TOO_MANY_REQUESTS` above `maxHeldBytesPerPrincipal`. Call {@link discardBody} before the error is answered
 * @see docs/protocol-rules.md E6, E7, E11, E15
 * @internal
 */
export function readBody(request: IncomingMessage, options: BodyReaderOptions): MaybePromise<string> {
  const { maxBytes } = options;
  const encoding = request.headers['content-encoding'] ?? '';
  // A decompressed body could exceed the limit without being counted.
  if (encoding !== '' && encoding.toLowerCase() !== 'identity') {
    const text = `The body has the Content-Encoding ${shown(encoding)}, which is not accepted. Send the JSON without an encoding.`;
    throw new McpError('UNSUPPORTED_MEDIA_TYPE', text);
  }
  if (request.readableDidRead || request.readableEnded) return takenBody(request, options);
  if (Number(request.headers['content-length']) > maxBytes) throw tooLarge(maxBytes);
  const bytes = arrived(request, options);
  return bytes ? decoded(bytes) : readLater(request, options);
}

/**
 * Goes on when a body that came in one packet with its head has arrived: Node emits the request before it reads the body.
 *
 * @internal
 */
export function whenArrived(goOn: () => void): void {
  void A_TURN.then(goOn);
}

async function readLater(request: IncomingMessage, options: BodyReaderOptions): Promise<string> {
  await A_TURN;
  return decoded(arrived(request, options) ?? (await collected(request, options)));
}

/**
 * Returns the body as a parser of the app left it, on either adapter: see {@link BodyReaderOptions.platform}.
 *
 * @internal
 */
export function parsedBodyOf(request: object): unknown {
  const { body, raw } = request as { body?: unknown; raw?: IncomingMessage & { body?: unknown } };
  // A parser may have read `null`.
  return body ?? raw?.body ?? body;
}

/** Returns a body that has arrived completely, as most have: it needs no listeners and no timer. */
function arrived(request: IncomingMessage, { held }: BodyReaderOptions): Buffer | undefined {
  if (request.destroyed || !isWhole(request)) return undefined;
  held?.take(request.readableLength);
  const bytes = request.read() as Buffer;
  // Node emits the end only to a stream that flows.
  request.resume();
  return bytes;
}

/** Returns whether the whole body is buffered; `complete` becomes true only later. */
function isWhole({ headers, readableLength }: IncomingMessage): boolean {
  return readableLength > 0 && readableLength === Number(headers['content-length']);
}

function takenBody(request: IncomingMessage, options: BodyReaderOptions): string {
  const { platform = {}, maxBytes, held } = options;
  const parsed = parsedBodyOf(platform);
  if (parsed === undefined && request.headers['content-length'] !== '0') {
    const text =
      'A parser or middleware of this app read the body before the MCP endpoint did, and set no "request.body". Exclude the path of the endpoint from it.';
    throw new McpError('INTERNAL_ERROR', text);
  }
  if (Buffer.isBuffer(parsed)) {
    if (parsed.length > maxBytes) throw tooLarge(maxBytes);
    held?.take(parsed.length);
    return decoded(parsed);
  }
  const text = typeof parsed === 'string' ? parsed : (JSON.stringify(parsed) ?? '');
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes) throw tooLarge(maxBytes);
  held?.take(bytes);
  return text;
}

/**
 * Decodes all bytes at once, so that no character is cut at the end of a chunk (E11). `readMessages` handles a byte
 * order mark.
 */
function decoded(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  throw new McpError('PARSE_ERROR', 'The body is not valid UTF-8. Send one JSON-RPC 2.0 message as JSON, in UTF-8.');
}

/** Collects chunks until the end, the limit or an interruption; the request stays open. */
async function collected(request: IncomingMessage, options: BodyReaderOptions): Promise<Buffer> {
  const { maxBytes, timeoutMs, clock, underWay, held, minBytesPerSecond = 0 } = options;
  let interrupt!: InterruptBody;
  const interrupted = new Promise<never>((_, reject) => (interrupt = reject));
  const timer = clock.setTimeout(() => {
    const text = `The body did not arrive within ${timeoutMs} ms. Send it faster, or raise "bodyTimeoutMs".`;
    interrupt(new McpError('REQUEST_TIMEOUT', text));
  }, timeoutMs);
  underWay?.add(interrupt);
  let over = false;
  let length = 0;
  const arrived = (): number => length;
  let rate: ClockTimer | undefined;
  const all = async (): Promise<Buffer> => {
    let chunks: Buffer[] = [];
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      if (over) break;
      length += chunk.length;
      if (length > maxBytes) throw tooLarge(maxBytes);
      held?.take(chunk.length);
      // Small bodies keep no one out, and have the whole time.
      if (length > SMALL_BODY_BYTES && minBytesPerSecond > 0)
        rate ??= watchRate(minBytesPerSecond, clock, arrived, interrupt);
      if (chunks.push(chunk) > MANY_CHUNKS) chunks = [Buffer.concat(chunks)];
    }
    return Buffer.concat(chunks);
  };
  try {
    return await Promise.race([all(), interrupted]);
  } catch (error) {
    if (error instanceof McpError) throw error;
    throw new McpError(
      'BAD_REQUEST',
      'The connection was closed before the whole body had arrived. Repeat the request.',
    );
  } finally {
    over = true;
    clock.clear(timer);
    clock.clear(rate);
    underWay?.delete(interrupt);
  }
}

/** Interrupts a body that arrives too slowly. @returns the timer, which ends with the body */
function watchRate(
  minBytesPerSecond: number,
  clock: McpClock,
  arrived: () => number,
  interrupt: InterruptBody,
): ClockTimer {
  const least = (minBytesPerSecond * RATE_PERIOD_MS) / 1_000;
  let before = arrived();
  const isSlow = (): boolean => arrived() - before < least;
  return clock.setInterval(() => {
    const judge = (): void => {
      if (isSlow()) {
        const text = `The body arrived too slowly: ${arrived() - before} bytes in ${RATE_PERIOD_MS} ms, where ${least} are the minimum ("minBodyBytesPerSecond"). Send it faster.`;
        interrupt(new McpError('REQUEST_TIMEOUT', text));
      }
      before = arrived();
    };
    // If the process was busy, bytes may wait in the system: the turn that begins now reads them.
    if (isSlow()) nextTurn(judge);
    else judge();
  }, RATE_PERIOD_MS);
}

function tooLarge(maxBytes: number): McpError {
  const text = `The body is larger than ${maxBytes} bytes. Send less at once, or raise "maxBodyBytes".`;
  return new McpError('PAYLOAD_TOO_LARGE', text);
}

/** A request of HTTP/1, or an `Http2ServerRequest` with the property that is needed. */
type MaybeHttp2 = IncomingMessage & { readonly stream?: Duplex };

/**
 * Reads and discards the rest of the body of a refused request, within limits. If the body ends within them, the
 * connection serves the next request; otherwise the connection is closed, on HTTP/2 only the stream.
 *
 * @param request the raw one
 * @param response the raw one, before its head is written
 * @param last closes the connection in any case, as when the server stops
 * @see docs/protocol-rules.md E6
 * @internal
 */
export function discardBody(request: MaybeHttp2, response: ServerResponse, clock: McpClock, last = false): void {
  // A flowing request was already read to its end, although Node has not emitted the end yet.
  const over = request.complete || request.destroyed || request.readableFlowing === true || isWhole(request);
  request.resume();
  const { stream, socket } = request;
  const carrier = stream ?? socket;
  // A request that a test has injected has no connection.
  if (over || !('destroy' in carrier)) return;
  let left = DISCARDED_BODY.maxBytes;
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    // Stops reading: the client has the rest of the time to read the answer.
    if (left < 0) request.pause();
  });
  const timer = clock.setTimeout(() => carrier.destroy(), DISCARDED_BODY.timeoutMs);
  const release = (): void => {
    clock.clear(timer);
    carrier.off('close', release);
  };
  carrier.once('close', release);
  if (stream) return;
  const keep = response.shouldKeepAlive && !last;
  // With "close", also when the client asked for it, Node destroys the socket as soon as the answer is out.
  response.setHeader('Connection', 'keep-alive');
  if (keep) request.once('close', release);
  else response.once('finish', () => socket.end());
}
