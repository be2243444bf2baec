import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';

/** What one connection has brought from the server since `cutAfter` was called. */
export type Seen = (bytes: Buffer) => boolean;

/**
 * A TCP proxy that passes everything on until it is told to cut: what lies between a client and a server, and fails.
 * It listens before and after a cut, so that the client can come back, also to another server.
 */
export class CuttingProxy {
  readonly #links = new Set<Link>();
  #cuts = 0;

  private constructor(
    private readonly server: Server,
    private target: URL,
    /** Where clients connect: the target's URL with the proxy's port. */
    readonly url: URL,
  ) {}

  /** @param target what is behind the proxy; its path is kept */
  static async start(target: URL): Promise<CuttingProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = new URL(target);
    url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const proxy = new CuttingProxy(server, target, url);
    server.on('connection', (client) => proxy.#link(client));
    return proxy;
  }

  /** Open connections of clients. */
  get connections(): number {
    return this.#links.size;
  }

  /** How often connections were cut. */
  get cuts(): number {
    return this.#cuts;
  }

  /** Cuts all connections, in both directions. What was passed on before still arrives. */
  cut(): void {
    this.#cuts++;
    for (const link of this.#links) link.destroy();
  }

  /** Cuts all connections; the next ones lead to another server. */
  switchTo(target: URL): void {
    this.target = target;
    this.cut();
  }

  /**
   * Cuts all connections as soon as one of them has brought certain bytes from the server. They still reach the client,
   * what comes after them does not.
   *
   * @param seen asked after each chunk, with all that the connection has brought since now
   * @returns settles when the connections are cut
   */
  cutAfter(seen: Seen): Promise<void> {
    return new Promise((resolve) => {
      const watch: Watch = {
        seen,
        hit: () => {
          for (const link of this.#links) link.watch = undefined;
          this.#watch = undefined;
          this.cut();
          resolve();
        },
      };
      this.#watch = watch;
      for (const link of this.#links) link.watch = watch;
    });
  }
  #watch: Watch | undefined;

  /** Cuts what is open and stops listening. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const link of this.#links) link.destroy();
    await closed;
  }

  #link(client: Socket): void {
    const upstream = connect(Number(this.target.port), this.target.hostname);
    const link = new Link(client, upstream, () => this.#links.delete(link));
    link.watch = this.#watch;
    this.#links.add(link);
  }
}

interface Watch {
  readonly seen: Seen;
  hit(): void;
}

/** One connection and its continuation. */
class Link {
  #brought: Buffer[] = [];
  #watch: Watch | undefined;

  constructor(
    private readonly client: Socket,
    private readonly upstream: Socket,
    onClosed: () => void,
  ) {
    client.pipe(upstream);
    upstream.pipe(client);
    // After `pipe`, so that a chunk is on its way before it is looked at.
    upstream.on('data', (chunk: Buffer) => this.#look(chunk));
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on('error', () => this.destroy());
      socket.on('close', () => this.destroy());
    }
    client.on('close', onClosed);
  }

  set watch(watch: Watch | undefined) {
    this.#watch = watch;
    this.#brought = [];
  }

  destroy(): void {
    this.client.destroy();
    this.upstream.destroy();
  }

  #look(chunk: Buffer): void {
    const watch = this.#watch;
    if (!watch) return;
    this.#brought.push(chunk);
    if (!watch.seen(Buffer.concat(this.#brought))) return;
    this.#watch = undefined;
    this.upstream.unpipe(this.client);
    // The callback comes when everything before it has been handed to the system.
    this.client.write('', () => watch.hit());
  }
}
