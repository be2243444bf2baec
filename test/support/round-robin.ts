import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';

/**
 * A balancer that gives each connection to the next node, byte for byte. The clients of tests open one for each request,
 * so each request goes to the next node, and nothing of HTTP is lost on the way: what a client cuts is cut behind it too.
 */
export class RoundRobin {
  readonly #open = new Set<Socket>();
  #turn = 0;

  private constructor(
    private readonly server: Server,
    readonly port: number,
  ) {}

  /** @param targets base URLs of the nodes */
  static async start(targets: readonly URL[], address: string): Promise<RoundRobin> {
    // A client that has said all may still listen.
    const server = createServer({ allowHalfOpen: true }).listen(0, address);
    await once(server, 'listening');
    const balancer = new RoundRobin(server, (server.address() as AddressInfo).port);
    server.on('connection', (client) => {
      const { port, hostname } = targets[balancer.#turn++ % targets.length]!;
      const host = hostname.replace(/^\[|\]$/g, '');
      balancer.#link(client, connect({ port: Number(port), host, allowHalfOpen: true }));
    });
    return balancer;
  }

  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const socket of this.#open) socket.destroy();
    await closed;
  }

  #link(client: Socket, node: Socket): void {
    for (const [socket, other] of [
      [client, node],
      [node, client],
    ] as const) {
      this.#open.add(socket);
      socket.setNoDelay(true);
      socket.pipe(other);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#open.delete(socket);
        // What a node has said before it closed, or cut the connection, is still on its way.
        if (socket === client) other.destroy();
        else other.destroySoon();
      });
    }
  }
}
