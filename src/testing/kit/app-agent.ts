import { Agent, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import { type Duplex, duplexPair, Readable } from 'node:stream';
import { Server as TlsServer } from 'node:tls';
import type { INestApplication } from '@nestjs/common';

/*
 * # HTTP without a port
 *
 * Each request gets a pair of streams: one half goes to the app's server as a connection, the other one to the client
 * of `node:http`. All layers of the app are the real ones: Node's parser, the adapter, its hooks, the router. Missing
 * members of a socket are added; above all, destroying one half ends the other one, which Node 20 does not do.
 */

/** A `fetch` that reaches one app. @publicApi */
export type McpAppFetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

const LOOPBACK = '127.0.0.1';
/** Requests have this Host: a loopback name, which every endpoint allows. */
const BASE = 'http://localhost';

/**
 * Connects clients of `node:http` to an app that does not listen. Each request has its own connection.
 *
 * @publicApi
 */
export class McpAppAgent extends Agent {
  readonly #open = new Set<Duplex>();

  private constructor(private readonly server: Server) {
    super({ keepAlive: false });
  }

  /**
   * Creates an agent.
   *
   * @param app is initialized, if it is not
   * @throws TypeError (rejects) for anything else, such as a `TestingModule`
   */
  static async of(app: INestApplication): Promise<McpAppAgent> {
    if (typeof (app as Partial<INestApplication> | undefined)?.getHttpAdapter !== 'function')
      throw new TypeError(NO_APP);
    const ready = READY.get(app) ?? getReady(app);
    READY.set(app, ready);
    await ready;
    return new McpAppAgent(app.getHttpServer() as Server);
  }

  /** Opens a connection for node:http. @internal */
  override createConnection(): Duplex {
    const [client, server] = socketPair();
    this.#open.add(client);
    client.once('close', () => this.#open.delete(client));
    this.server.emit(this.server instanceof TlsServer ? 'secureConnection' : 'connection', server);
    return client;
  }

  /** Destroys all connections, like a network failure. */
  cut(): void {
    for (const half of this.#open) half.destroy();
  }

  override destroy(): void {
    super.destroy();
    this.cut();
  }
}

const NO_APP =
  'An app that serves HTTP is needed: pass what createNestApplication() of the testing module returned, or NestFactory.create().';

/** Maps apps to the time when they can serve: Nest does not wait for an `init()` that runs already. */
const READY = new WeakMap<INestApplication, Promise<void>>();

async function getReady(app: INestApplication): Promise<void> {
  await app.init();
  const instance = app.getHttpAdapter().getInstance() as { ready?: () => PromiseLike<unknown> };
  // Fastify has no router before.
  if (typeof instance.ready === 'function') await instance.ready();
}

/** Returns a `fetch` over an agent. Paths are those of the app; redirects are not followed. */
export function fetchOver(agent: Agent): McpAppFetch {
  return async (input, init = {}) => {
    const request = new Request(new URL(input, BASE), init);
    const body = request.body ? Buffer.from(await request.arrayBuffer()) : undefined;
    const headers = Object.fromEntries(request.headers);
    const { method } = request;
    const signal = init.signal ?? undefined;
    return new Promise<Response>((resolve, reject) => {
      const sent = httpRequest(request.url, { agent, method, headers, signal }, (message) => {
        resolve(responseOf(message, method));
      });
      sent.on('error', reject);
      sent.end(body);
    });
  };
}

/** Responses with these statuses have no body. */
const BODILESS = [204, 205, 304];

function responseOf(message: IncomingMessage, method: string): Response {
  const { statusCode: status = 0, statusMessage: statusText = '', rawHeaders } = message;
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  // After the head, the reader of the body gets the error.
  message.on('error', () => {});
  const empty = method === 'HEAD' || BODILESS.includes(status);
  if (empty) message.resume();
  const body = empty ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>);
  return new Response(body, { status, statusText, headers });
}

/** Connects two halves. @returns the half of the client, and that of the server */
function socketPair(): [client: Duplex, server: Duplex] {
  const [client, server] = duplexPair().map(asSocket) as [Duplex, Duplex];
  // A disconnect of the client takes effect at once.
  client.once('close', () => server.destroy());
  // Data that a server has written before still arrives, and then the end.
  server.once('close', () => {
    if (!client.destroyed && !client.readableEnded) client.push(null);
  });
  return [client, server];
}

/** Adds the members of a socket that `node:http` and the adapters call. */
function asSocket(half: Duplex): Duplex {
  const self = (): Duplex => half;
  return Object.assign(half, {
    localAddress: LOOPBACK,
    remoteAddress: LOOPBACK,
    localPort: 0,
    remotePort: 0,
    localFamily: 'IPv4',
    remoteFamily: 'IPv4',
    connecting: false,
    setTimeout: self,
    setNoDelay: self,
    setKeepAlive: self,
    ref: self,
    unref: self,
    address: () => ({ address: LOOPBACK, family: 'IPv4', port: 0 }),
    destroySoon: () => {
      if (half.writable) half.end();
      if (half.writableFinished) half.destroy();
      else half.once('finish', () => half.destroy());
    },
  });
}
