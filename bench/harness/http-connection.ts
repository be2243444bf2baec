import { connect, type Socket } from 'node:net';

/**
 * One HTTP/1.1 connection, kept alive, one exchange at a time. Written by hand because the load generator must be lighter than
 * the fastest server: `node:http` takes more CPU for a request than Fastify for its answer. It understands what the servers of
 * the bench send (a length, chunks, or no body; ASCII), and nothing else.
 *
 * State: `idle` (no exchange), else one exchange in `head`, `length`, `chunk` (waiting for a size line), `chunk-data`.
 * Invariant: `#rest` holds only what could not be understood yet.
 */

export interface Head {
  readonly status: number;
  /** Status line and headers as they came. */
  readonly text: string;
}

/** Where an answer goes, piece by piece. */
export interface Sink {
  head(head: Head): void;
  body(piece: string): void;
  end(): void;
  failed(error: Error): void;
}

export interface Answer extends Head {
  readonly body: string;
}

type State =
  | { is: 'idle' }
  | { is: 'head'; sink: Sink }
  | { is: 'length' | 'chunk-data'; sink: Sink; left: number }
  | { is: 'chunk'; sink: Sink };

const IDLE: State = { is: 'idle' };

/** How long a server surely keeps a connection that is not used, in milliseconds: for Node.js it is 5 seconds. */
const KEPT_MS = 2_000;

export class HttpConnection {
  #state: State = IDLE;
  #rest = '';
  #usedAt = performance.now();

  private constructor(private readonly socket: Socket) {
    socket.setEncoding('latin1');
    socket.setNoDelay(true);
    socket.on('data', (text: string) => this.#take(text));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('The server closed the connection.')));
  }

  static open(port: number): Promise<HttpConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new HttpConnection(socket));
      });
    });
  }

  /** Whether there can be another exchange. */
  get fresh(): boolean {
    return !this.socket.destroyed && performance.now() - this.#usedAt < KEPT_MS;
  }

  /** @param head request line and headers, each line ended, without `Host` and `Content-Length` */
  send(head: string, body: string, sink: Sink): void {
    if (this.#state.is !== 'idle') throw new Error('A connection carries one exchange at a time.');
    this.#state = { is: 'head', sink };
    const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`;
    this.socket.write(`${head}Host: 127.0.0.1\r\n${length}\r\n${body}`, 'latin1');
  }

  exchange(head: string, body = ''): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let received: Head;
      let text = '';
      this.send(head, body, {
        head: (head) => (received = head),
        body: (piece) => (text += piece),
        end: () => resolve({ ...received, body: text }),
        failed: reject,
      });
    });
  }

  close(): void {
    this.#state = IDLE;
    this.socket.destroy();
  }

  #fail(error: Error): void {
    const state = this.#state;
    this.#state = IDLE;
    if (state.is !== 'idle') state.sink.failed(error);
  }

  #take(text: string): void {
    this.#rest = this.#rest === '' ? text : this.#rest + text;
    while (this.#step());
  }

  /** @returns whether there may be more to understand */
  #step(): boolean {
    const state = this.#state;
    switch (state.is) {
      case 'idle':
        return false;
      case 'head':
        return this.#readHead(state.sink);
      case 'chunk':
        return this.#readSize(state.sink);
      case 'length':
      case 'chunk-data':
        return this.#readBody(state);
    }
  }

  #readHead(sink: Sink): boolean {
    const end = this.#rest.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const text = this.#rest.slice(0, end);
    this.#rest = this.#rest.slice(end + 4);
    const length = headerOf(text, 'content-length');
    if (length !== undefined) this.#state = { is: 'length', sink, left: Number(length) };
    else if (headerOf(text, 'transfer-encoding') === 'chunked') this.#state = { is: 'chunk', sink };
    else this.#state = { is: 'length', sink, left: 0 };
    sink.head({ status: Number(text.slice(9, 12)), text });
    if (this.#state.is === 'length' && this.#state.left === 0) this.#end(sink);
    return this.#rest !== '';
  }

  #readBody(state: Extract<State, { left: number }>): boolean {
    const piece = this.#rest.slice(0, state.left);
    if (piece === '') return false;
    this.#rest = this.#rest.slice(piece.length);
    state.left -= piece.length;
    // What follows the data of a chunk is the end of its line.
    const ended = state.left === 0;
    if (ended && state.is === 'chunk-data') this.#state = { is: 'chunk', sink: state.sink };
    state.sink.body(piece);
    if (ended && state.is === 'length') this.#end(state.sink);
    return this.#rest !== '';
  }

  #readSize(sink: Sink): boolean {
    // The line after a chunk's data is empty.
    const start = this.#rest.startsWith('\r\n') ? 2 : 0;
    const end = this.#rest.indexOf('\r\n', start);
    if (end < 0) return false;
    const left = Number.parseInt(this.#rest.slice(start, end), 16);
    if (left > 0) {
      this.#rest = this.#rest.slice(end + 2);
      this.#state = { is: 'chunk-data', sink, left };
      return true;
    }
    if (!this.#rest.startsWith('\r\n', end + 2)) return false;
    this.#rest = this.#rest.slice(end + 4);
    this.#end(sink);
    return false;
  }

  #end(sink: Sink): void {
    this.#state = IDLE;
    this.#usedAt = performance.now();
    sink.end();
  }
}

const PATTERNS = new Map<string, RegExp>();

/** @param name in lower case */
export function headerOf(head: string, name: string): string | undefined {
  let pattern = PATTERNS.get(name);
  if (!pattern) PATTERNS.set(name, (pattern = new RegExp(`\\r\\n${name}: *([^\\r]*)`, 'i')));
  return pattern.exec(head)?.[1];
}
