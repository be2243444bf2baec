import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * What happens to one request on its way.
 *
 * - `page`: a gateway answers by itself, with an HTML page; the server never hears of the request
 * - `lost`: the server is asked, and a gateway answers in its place
 * - `reset`: the connection breaks before the server is asked
 * - `cut`: the connection breaks after so many bytes of the answer
 * - `hang`: nothing comes any more after so many bytes of the answer, and nobody is told
 * - `idle`: the connection breaks when nothing has come for so long
 * - `slow`: each piece of the answer takes so long
 */
export type Fault =
  | { is: 'none' }
  | { is: 'page' | 'lost'; status: number }
  | { is: 'reset' }
  | { is: 'cut' | 'hang'; afterBytes: number }
  | { is: 'idle' | 'slow'; ms: number };

export type FaultKind = Fault['is'];

/** An HTTP proxy that fails in all the ways in which what lies between a client and a server does. */
export class ChaosProxy {
  /** How often each fault was chosen. */
  readonly counts = new Map<FaultKind, number>();
  readonly #open = new Set<ServerResponse>();

  private constructor(
    private readonly server: Server,
    /** Where clients connect. */
    readonly url: string,
    /** What is behind; another one from now on when it is set. */
    public target: URL,
    private readonly choose: (method: string) => Fault,
  ) {
    server.on('request', (request, response) => {
      this.#open.add(response);
      response.on('close', () => this.#open.delete(response));
      this.#serve(request, response);
    });
  }

  static async start(target: URL, choose: (method: string) => Fault): Promise<ChaosProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return new ChaosProxy(server, `http://127.0.0.1:${port}${target.pathname}`, target, choose);
  }

  /** Faults so far. */
  get faults(): number {
    return [...this.counts].reduce((sum, [kind, count]) => (kind === 'none' ? sum : sum + count), 0);
  }

  /** Breaks every connection. */
  cut(): void {
    for (const response of this.#open) response.destroy();
  }

  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    this.server.closeAllConnections();
    await closed;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const fault = this.choose(request.method!);
    this.counts.set(fault.is, (this.counts.get(fault.is) ?? 0) + 1);
    switch (fault.is) {
      case 'page':
        request.resume();
        return page(response, fault.status);
      case 'reset':
        request.socket.resetAndDestroy();
        return;
      case 'lost':
        this.#forward(request, response, (answer) => {
          answer.resume();
          answer.destroy();
          page(response, fault.status);
        });
        return;
      default:
        this.#forward(request, response, (answer, upstream) => {
          response.writeHead(answer.statusCode!, answer.headers);
          response.flushHeaders();
          new Passage(response, fault).start(answer, upstream);
        });
    }
  }

  #forward(
    request: IncomingMessage,
    response: ServerResponse,
    answered: (answer: IncomingMessage, upstream: ClientRequest) => void,
  ): void {
    const { method, headers } = request;
    const upstream = httpRequest(this.target, { method, headers, agent: false }, (answer) =>
      answered(answer, upstream),
    );
    upstream.on('error', () => response.destroy());
    response.on('close', () => upstream.destroy());
    request.pipe(upstream);
  }
}

/** The body of one answer, on its way to the client. */
class Passage {
  #bytes = 0;
  #hangs = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly response: ServerResponse,
    private readonly fault: Fault,
  ) {}

  start(answer: IncomingMessage, upstream: ClientRequest): void {
    const { response } = this;
    answer.on('error', () => response.destroy());
    answer.on('data', (chunk: Buffer) => this.#pass(chunk));
    answer.on('end', () => this.#later(() => response.end()));
    response.on('close', () => {
      clearTimeout(this.#timer);
      upstream.destroy();
    });
    this.#watch();
  }

  #pass(chunk: Buffer): void {
    const { fault, response } = this;
    this.#watch();
    if (this.#hangs) return;
    if (fault.is !== 'cut' && fault.is !== 'hang') return this.#later(() => response.write(chunk));
    const rest = Math.max(0, fault.afterBytes - this.#bytes);
    this.#bytes += chunk.length;
    response.write(chunk.subarray(0, rest), () => {
      if (this.#bytes < fault.afterBytes) return;
      if (fault.is === 'cut') response.destroy();
      else this.#hangs = true;
    });
  }

  /** In order, as timers of one length are. */
  #later(task: () => void): void {
    const run = (): void => {
      if (!this.#hangs && !this.response.destroyed) task();
    };
    if (this.fault.is === 'slow') setTimeout(run, this.fault.ms).unref();
    else run();
  }

  #watch(): void {
    if (this.fault.is !== 'idle') return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.response.destroy(), this.fault.ms).unref();
  }
}

function page(response: ServerResponse, status: number): void {
  response.writeHead(status, { 'content-type': 'text/html', 'retry-after': '0' });
  response.end(`<!doctype html><title>${status}</title><h1>Something went wrong</h1>`);
}
