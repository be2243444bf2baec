import { type Head, HttpConnection } from './http-connection.js';
import { sseSplitter } from './sse.js';

/** Whoever waits for events: gets them one by one, or the error that ended the stream. */
interface Waiting {
  event(data: string): void;
  failed(error: Error): void;
}

/**
 * A response of events that stays open, on a connection of its own.
 *
 * Events that come while nobody waits are kept: they may come with the head.
 */
export class EventStream {
  #waiting: Waiting | undefined;
  readonly #kept: string[] = [];
  /** Where the stream has come to, for those who want to come back. */
  lastEventId: string | undefined;
  /** Events with data that have come. */
  received = 0;

  private constructor(private readonly connection: HttpConnection) {}

  /** The standalone stream of a session, or what is left of another. @param headers of the session */
  static get(port: number, headers: string): Promise<EventStream> {
    return EventStream.open(port, `GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\n${headers}`);
  }

  /** @param head of the request. Resolves when the head of the response is there. */
  static async open(port: number, head: string, body = ''): Promise<EventStream> {
    const stream = new EventStream(await HttpConnection.open(port));
    const { status, text } = await stream.#begin(head, body);
    if (status !== 200) throw new Error(`The stream was refused: ${text}`);
    return stream;
  }

  /** Resolves when `count` events with data have come, each accepted by `check`. */
  async receive(count: number, check: (message: unknown, index: number) => boolean): Promise<void> {
    let received = 0;
    await new Promise<void>((resolve, reject) => {
      const event = (data: string): void => {
        if (!check(JSON.parse(data), received)) reject(new Error(`Unexpected event ${received}: ${data}`));
        else if (++received === count) resolve();
      };
      this.#waiting = { event, failed: reject };
      for (const data of this.#kept.splice(0)) event(data);
    });
    this.#waiting = undefined;
  }

  close(): void {
    this.connection.close();
  }

  #begin(head: string, body: string): Promise<Head> {
    const split = sseSplitter((data, id) => {
      this.lastEventId = id ?? this.lastEventId;
      if (data === '') return;
      this.received++;
      if (this.#waiting) this.#waiting.event(data);
      else this.#kept.push(data);
    });
    return new Promise((resolve, reject) => {
      const failed = (error: Error): void => (this.#waiting ? this.#waiting.failed(error) : reject(error));
      const end = (): void => failed(new Error('The stream ended too early.'));
      this.connection.send(head, body, { head: resolve, body: split, end, failed });
    });
  }
}
