import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';

/**
 * What happens to one request on its way.
 *
 * - `page`: a gateway answers by itself, with an HTML page; the server never hears of the request
 * - `lost`: the server is asked, and a gateway answers in its place
 * - `reset`: the connection breaks before the server is asked
 * - `cut`: the connection breaks after so many bytes of the answer's body
 * - `hang`: nothing more arrives after so many bytes of the answer's body, and neither side is told
 * - `idle`: the connection breaks when nothing has come for so long
 * - `slow`: each piece of the answer takes so long
 */
export type Fault =
  | { is: 'none' }
  | { is: 'page' | 'lost'; status: number }
  | { is: 'reset' }
  | { is: 'cut' | 'hang'; afterBytes: number }
  | { is: 'idle' | 'slow'; ms: number };

interface ProxyOptions {
  /** @default 127.0.0.1 */
  address?: string;
  /** Chooses what happens to a request of HTTP. Each request then has a connection of its own. */
  fault?: (method: string) => Fault;
}

/**
 * The network between clients and one or more servers, byte for byte: it passes on, holds back, breaks and fails.
 *
 *     open ⇄ held (nothing passes, no side is told) ; open ──cut()──▶ open, without its connections ; any ──close()──▶ refused
 *
 * Of several servers each connection goes to the next one.
 */
export class Proxy {
  readonly #links = new Set<Link>();
  #held = false;
  #turn = 0;

  private constructor(
    private readonly server: Server,
    private targets: readonly URL[],
    /** Where clients connect: the URL of the first target with the address of the proxy. */
    readonly url: URL,
    private readonly fault?: ProxyOptions['fault'],
  ) {
    server.on('connection', (client) => this.#accept(client));
  }

  static async start(
    targets: URL | readonly URL[],
    { address = '127.0.0.1', fault }: ProxyOptions = {},
  ): Promise<Proxy> {
    // A client that has said all may still listen.
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }).listen(0, address);
    await once(server, 'listening');
    const all = [targets].flat();
    const url = new URL(all[0]!);
    url.hostname = address.includes(':') ? `[${address}]` : address;
    url.port = String((server.address() as AddressInfo).port);
    return new Proxy(server, all, url, fault);
  }

  hold(): void {
    this.#held = true;
    for (const link of this.#links) link.hold();
  }

  release(): void {
    this.#held = false;
    for (const link of this.#links) link.release();
  }

  /** Breaks all connections, in both directions. */
  cut(): void {
    for (const link of this.#links) link.destroy();
  }

  /** Breaks all connections; the next ones lead to another server. */
  switchTo(target: URL): void {
    this.targets = [target];
    this.cut();
  }

  /**
   * Breaks all connections as soon as one of them has brought this text from the server. The text still reaches the client,
   * what comes after it does not.
   *
   * @returns settles when the connections are cut
   */
  cutAfter(text: string): Promise<void> {
    return new Promise((resolve) => {
      const hit = (): void => {
        this.cut();
        resolve();
      };
      for (const link of this.#links) link.watch(text, hit);
    });
  }

  /** Breaks all connections, and refuses new ones. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.cut();
    await closed;
  }

  #accept(client: Socket): void {
    const target = this.targets[this.#turn++ % this.targets.length]!;
    const link = new Link(client, target, this.fault);
    client.on('close', () => this.#links.delete(link));
    this.#links.add(link);
    if (!this.#held) link.release();
  }
}

/** One connection and its continuation, which is made when the first bytes may pass. */
class Link {
  #server: Socket | undefined;
  #held = true;
  #fault: Fault = { is: 'none' };
  #idle: NodeJS.Timeout | undefined;
  /** What the server has sent, as far as it is looked at. */
  #brought = '';
  #watch: { text: string; hit: () => void } | undefined;

  constructor(
    private readonly client: Socket,
    private readonly target: URL,
    private readonly choose: ProxyOptions['fault'],
  ) {
    this.#mind(client);
    client.on('close', () => {
      clearTimeout(this.#idle);
      this.#server?.destroy();
    });
  }

  hold(): void {
    this.#held = true;
    this.client.pause();
    this.#server?.pause();
  }

  release(): void {
    const isNew = !this.#server && this.#held;
    this.#held = false;
    if (isNew && this.choose) this.client.once('data', (head: Buffer) => this.#ask(head));
    else if (isNew) this.#connect();
    this.client.resume();
    this.#server?.resume();
  }

  destroy(): void {
    this.client.destroy();
    this.#server?.destroy();
  }

  watch(text: string, hit: () => void): void {
    this.#watch = { text, hit };
    this.#brought = '';
  }

  #ask(head: Buffer): void {
    this.#fault = this.choose!(head.toString('latin1', 0, head.indexOf(' ')));
    if (this.#fault.is === 'reset') this.client.resetAndDestroy();
    else if (this.#fault.is === 'page') {
      this.client.resume();
      this.#page(this.#fault.status);
    } else this.#connect().write(head);
  }

  #connect(): Socket {
    const { port, hostname } = this.target;
    const host = hostname.replace(/^\[|\]$/g, '');
    const server = (this.#server = connect({ port: Number(port), host, allowHalfOpen: true }));
    this.#mind(server);
    this.client.on('data', (bytes: Buffer) => this.#pass(bytes, this.client, server));
    this.client.on('end', () => server.end());
    server.on('data', (bytes: Buffer) => this.#answer(this.choose ? last(bytes) : bytes, server));
    server.on('end', () => this.#later(() => this.client.end()));
    // What a server has said before it closed, or cut the connection, is still on its way.
    server.on('close', () => this.#later(() => this.client.destroySoon()));
    return server;
  }

  #mind(socket: Socket): void {
    socket.setNoDelay(true);
    socket.on('error', () => {});
  }

  #pass(bytes: Buffer, from: Socket, to: Socket): void {
    if (to.write(bytes) || from.isPaused()) return;
    from.pause();
    to.once('drain', () => {
      if (!this.#held) from.resume();
    });
  }

  #answer(bytes: Buffer, server: Socket): void {
    const fault = this.#fault;
    // oxlint-disable-next-line typescript/switch-exhaustiveness-check -- the others never come here
    switch (fault.is) {
      case 'lost':
        server.destroy();
        return this.#page(fault.status);
      case 'cut':
      case 'hang':
        return this.#passUpTo(fault, bytes);
      case 'slow':
        return this.#later(() => this.client.write(bytes));
      case 'idle':
        clearTimeout(this.#idle);
        this.#idle = setTimeout(() => this.client.destroy(), fault.ms).unref();
    }
    this.#pass(bytes, server, this.client);
    if (this.#watch) this.#look(bytes, server, this.#watch);
  }

  #passUpTo({ is, afterBytes }: Fault & { is: 'cut' | 'hang' }, bytes: Buffer): void {
    const before = this.#brought.length;
    this.#brought += bytes.toString('latin1');
    const head = this.#brought.indexOf('\r\n\r\n');
    const end = head < 0 ? Infinity : head + 4 + afterBytes;
    this.client.write(bytes.subarray(0, Math.max(0, end - before)), () => {
      if (is === 'cut' && this.#brought.length >= end) this.client.destroy();
    });
  }

  #look(bytes: Buffer, server: Socket, { text, hit }: { text: string; hit: () => void }): void {
    this.#brought += bytes.toString('latin1');
    if (!this.#brought.includes(text)) return;
    this.#watch = undefined;
    server.pause();
    // The callback comes when everything before it has been handed to the system.
    this.client.write('', hit);
  }

  /** In order, as timers of one length are. A connection that hangs is not ended either. */
  #later(task: () => void): void {
    if (this.#fault.is === 'slow') setTimeout(task, this.#fault.ms).unref();
    else if (this.#fault.is !== 'hang') task();
  }

  #page(status: number): void {
    const page = `<!doctype html><title>${status}</title><h1>Something went wrong</h1>`;
    const head = [`HTTP/1.1 ${status} x`, 'content-type: text/html', 'retry-after: 0', 'connection: close'];
    this.client.end([...head, `content-length: ${page.length}`, '', page].join('\r\n'));
  }
}

/** An answer after which its client makes a new connection. */
function last(bytes: Buffer): Buffer {
  const text = bytes.toString('latin1');
  if (!text.startsWith('HTTP/1.1')) return bytes;
  return Buffer.from(text.replace(/^connection: keep-alive/im, 'connection: close'), 'latin1');
}
