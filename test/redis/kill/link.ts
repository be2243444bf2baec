import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/**
 * The network between one side and a port: it passes bytes on, holds them back, or breaks.
 *
 *     open ⇄ held (nothing passes, no side is told) ; open ──cut()──▶ open, without its connections ; any ──destroy()──▶ refused
 */
export class Link {
  readonly #pairs = new Set<Pair>();
  readonly #server: Server;
  #held = false;

  private constructor(private readonly target: number) {
    this.#server = createServer({ pauseOnConnect: true }, (socket) => this.#accept(socket));
  }

  static async to(target: number): Promise<Link> {
    const link = new Link(target);
    await once(link.#server.listen(0, '127.0.0.1'), 'listening');
    return link;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  hold(): void {
    this.#held = true;
    for (const pair of this.#pairs) pair.hold();
  }

  release(): void {
    this.#held = false;
    for (const pair of this.#pairs) pair.release();
  }

  /** Breaks what is connected. */
  cut(): void {
    for (const pair of this.#pairs) pair.destroy();
  }

  /** Breaks what is connected, and refuses everything from now on. */
  destroy(): void {
    this.#server.close();
    this.cut();
  }

  #accept(socket: Socket): void {
    const pair = new Pair(socket, this.target, () => this.#pairs.delete(pair));
    this.#pairs.add(pair);
    if (!this.#held) pair.release();
  }
}

class Pair {
  #far: Socket | undefined;

  constructor(
    private readonly near: Socket,
    private readonly target: number,
    private readonly closed: () => void,
  ) {
    this.#watch(near);
  }

  hold(): void {
    this.near.pause();
    this.#far?.pause();
  }

  release(): void {
    if (!this.#far) {
      this.#far = connect(this.target, '127.0.0.1');
      this.#watch(this.#far);
      this.#pass(this.near, this.#far);
      this.#pass(this.#far, this.near);
    }
    this.near.resume();
    this.#far.resume();
  }

  destroy(): void {
    this.near.destroy();
    this.#far?.destroy();
    this.closed();
  }

  #watch(socket: Socket): void {
    socket.setNoDelay(true);
    socket.on('error', () => this.destroy());
    socket.on('close', () => this.destroy());
  }

  #pass(from: Socket, to: Socket): void {
    from.on('data', (bytes) => to.write(bytes));
    from.on('end', () => to.end());
  }
}
