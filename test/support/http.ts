import { request as httpRequest, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { LIMIT_MS } from './eventually.js';
import { wayTo } from './ways.js';

export interface RawRequest {
  method?: string;
  headers?: Record<string, string | string[]>;
  /** An object is sent as JSON, a string or Buffer as it is. */
  body?: unknown;
  /** The request is left open: write to `sent` yourself. */
  keepOpen?: boolean;
}

/** One HTTP exchange on a connection of its own, read as slowly as the test likes. */
export class RawResponse {
  constructor(
    readonly message: IncomingMessage,
    readonly sent: ClientRequest,
  ) {}

  get status(): number {
    return this.message.statusCode!;
  }
  get headers(): IncomingHttpHeaders {
    return this.message.headers;
  }
  header(name: string): string | undefined {
    return this.message.headers[name.toLowerCase()] as string | undefined;
  }
  async text(): Promise<string> {
    let text = '';
    this.message.setEncoding('utf8');
    for await (const chunk of this.message) text += chunk as string;
    return text;
  }
  /** Reads the answer. On a busy machine it may be an event stream, as it came after `sseAfterMs`: its last message. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  async json(): Promise<any> {
    const text = await this.text();
    const isStream = this.header('content-type')?.startsWith('text/event-stream');
    const last = isStream ? [...text.matchAll(/^data: (\{.*)$/gm)].at(-1) : undefined;
    return JSON.parse(last?.[1] ?? text);
  }
  /** Reads the body as server-sent events. */
  sse(): SseStream {
    return new SseStream(this);
  }
  /** Cuts the connection. */
  destroy(): void {
    this.sent.destroy();
    this.message.destroy();
  }
}

interface SseEvent {
  id: string | undefined;
  event: string | undefined;
  data: string;
  retry?: number;
  /** The message, if there is one. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  message?: any;
}

/** Server-sent events as they come; priming events and comments apart. */
export class SseStream {
  readonly events: SseEvent[] = [];
  readonly comments: string[] = [];
  /** Ids of events without data: priming events. */
  readonly primes: string[] = [];
  retryMs: number | undefined;
  /** The whole body as text. */
  body = '';
  ended: 'end' | 'cut' | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(readonly response: RawResponse) {
    const parser = createParser({
      onEvent: (event: EventSourceMessage) => {
        const { id, data } = event;
        if (data === '') this.primes.push(id ?? '');
        else this.events.push({ id, event: event.event, data, message: JSON.parse(data) });
      },
      onComment: (comment) => this.comments.push(comment),
      onRetry: (ms) => (this.retryMs = ms),
    });
    const { message } = response;
    message.setEncoding('utf8');
    message.on('data', (chunk: string) => {
      this.body += chunk;
      parser.feed(chunk);
      this.#wake();
    });
    message.on('end', () => this.#over('end'));
    message.on('error', () => this.#over('cut'));
    message.on('close', () => this.#over('cut'));
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  get messages(): any[] {
    return this.events.map(({ message }) => message);
  }

  /** Waits until the condition holds; fails if the stream ends before. */
  async until(condition: (stream: this) => boolean, limitMs = LIMIT_MS): Promise<this> {
    const deadline = setTimeout(() => this.#wake(), limitMs);
    const start = Date.now();
    try {
      while (!condition(this)) {
        if (this.ended) throw new Error(`The stream ended (${this.ended}) before the condition held: ${this.body}`);
        if (Date.now() - start >= limitMs) throw new Error(`The condition did not hold in time: ${this.body}`);
        await new Promise<void>((resolve) => this.#waiting.add(resolve));
      }
    } finally {
      clearTimeout(deadline);
    }
    return this;
  }

  /** Waits for `count` events with messages. */
  count(count: number): Promise<this> {
    return this.until(({ events }) => events.length >= count);
  }

  /** Waits for the head: a comment or a priming event. */
  opened(): Promise<this> {
    return this.until(({ body }) => body.length > 0);
  }

  /** Waits for the end. @returns how it ended */
  async end(limitMs = LIMIT_MS): Promise<'end' | 'cut'> {
    const start = Date.now();
    const deadline = setTimeout(() => this.#wake(), limitMs);
    while (!this.ended) {
      if (Date.now() - start >= limitMs) throw new Error(`The stream did not end: ${this.body}`);
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
    clearTimeout(deadline);
    return this.ended;
  }

  destroy(): void {
    this.response.destroy();
  }

  #over(how: 'end' | 'cut'): void {
    this.ended ??= how;
    this.#wake();
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}

/** Sends a request and waits for the head of the answer. */
export function send(
  url: string,
  { method = 'POST', headers = {}, body, keepOpen }: RawRequest = {},
): Promise<RawResponse> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(url, { method, headers, agent: wayTo(url) }, (message) => {
      resolve(new RawResponse(message, sent));
    });
    sent.on('error', reject);
    if (keepOpen) {
      sent.flushHeaders();
      return;
    }
    if (body === undefined) sent.end();
    else sent.end(typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body));
  });
}
