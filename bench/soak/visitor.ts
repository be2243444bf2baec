import { EventStream } from '../harness/event-stream.js';
import { HttpConnection } from '../harness/http-connection.js';

/** A client during one visit: what it opens is closed when it leaves, however the visit went. */
export class Visitor {
  readonly #opened: Promise<{ close(): void }>[] = [];

  /** @param random numbers in [0, 1) */
  constructor(
    private readonly port: number,
    readonly random: () => number,
  ) {}

  connect(): Promise<HttpConnection> {
    return this.#keep(HttpConnection.open(this.port));
  }

  /** A response of events, to a request with a body. */
  listen(head: string, body: string): Promise<EventStream> {
    return this.#keep(EventStream.open(this.port, head, body));
  }

  /** The standalone stream of a session, or what is left of another. @param headers of the session */
  get(headers: string): Promise<EventStream> {
    return this.#keep(EventStream.get(this.port, headers));
  }

  /** Also what is still being opened. */
  leave(): void {
    for (const opened of this.#opened)
      opened.then(
        (one) => one.close(),
        () => {},
      );
  }

  #keep<T extends { close(): void }>(opened: Promise<T>): Promise<T> {
    this.#opened.push(opened);
    return opened;
  }
}
