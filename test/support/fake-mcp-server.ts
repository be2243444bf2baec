import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'vitest';

/** One request as it came. */
interface SeenRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** The JSON body; `undefined` without one. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  readonly body: any;
}

/** Which requests a rule is for. What is left out may be anything; `null` demands that it is missing. */
interface FakeMatch {
  readonly method?: 'POST' | 'GET' | 'DELETE';
  /** The JSON-RPC method of the body; `response` for an answer to a request of the server. */
  readonly rpc?: string;
  readonly session?: string | null;
  readonly lastEventId?: string | null;
}

/** Answers one request. */
export type FakeAnswer = (response: ServerResponse, request: SeenRequest) => void | Promise<void>;

interface Rule {
  readonly match: FakeMatch;
  readonly answer: FakeAnswer;
  times: number;
}

/**
 * A server that answers what a test has written down, and nothing else: each rule once, in the order in which they were
 * written. It knows which requests were not made, and which came without a rule.
 */
export class FakeMcpServer {
  readonly requests: SeenRequest[] = [];
  readonly unexpected: string[] = [];
  readonly #rules: Rule[] = [];
  readonly #open = new Set<ServerResponse>();

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {
    server.on('request', (request, response) => {
      this.#open.add(response);
      response.on('close', () => this.#open.delete(response));
      let text = '';
      request.setEncoding('utf8');
      request.on('data', (chunk: string) => (text += chunk));
      request.on('end', () => {
        const body: unknown = text === '' ? undefined : JSON.parse(text);
        void this.#answer({ method: request.method!, headers: request.headers, body }, response);
      });
    });
  }

  static async start(): Promise<FakeMcpServer> {
    const server = createServer({ keepAliveTimeout: 100 }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FakeMcpServer(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  }

  /** Responses that are not over. */
  get open(): number {
    return this.#open.size;
  }

  on(match: FakeMatch, answer: FakeAnswer, times = 1): this {
    this.#rules.push({ match, answer, times });
    return this;
  }

  /** An `initialize` that begins a session, its notification, and no standalone stream. */
  begins(session: string | null = 's1', protocolVersion = '2025-11-25'): this {
    return this.on({ rpc: 'initialize' }, initialized(session, protocolVersion))
      .on({ rpc: 'notifications/initialized', session }, status(202))
      .on({ method: 'GET', session, lastEventId: null }, status(405));
  }

  /** Requests of one kind, in their order. */
  seen(match: FakeMatch): SeenRequest[] {
    return this.requests.filter((request) => matches(match, request));
  }

  /** Waits until there are as many. */
  async arrived(match: FakeMatch, count = 1): Promise<SeenRequest> {
    await expect.poll(() => this.seen(match).length).toBeGreaterThanOrEqual(count);
    return this.seen(match)[count - 1]!;
  }

  /** Waits until no response is open any more. */
  async quiet(): Promise<void> {
    await expect.poll(() => this.open).toBe(0);
  }

  /** Stops; fails if a request was not made that was written down, or one came that was not. */
  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    this.server.closeAllConnections();
    await closed;
    const missing = this.#rules.filter(({ times }) => times > 0 && times !== Infinity).map(({ match }) => match);
    expect({ missing, unexpected: this.unexpected }).toEqual({ missing: [], unexpected: [] });
  }

  async #answer(request: SeenRequest, response: ServerResponse): Promise<void> {
    this.requests.push(request);
    const rule = this.#rules.find((each) => each.times > 0 && matches(each.match, request));
    if (!rule) {
      const { method, body, headers } = request;
      this.unexpected.push(`${method} ${body?.method ?? ''} ${headers['last-event-id'] ?? ''}`.trim());
      response.writeHead(500).end('no rule');
      return;
    }
    rule.times--;
    await rule.answer(response, request);
  }
}

function matches(match: FakeMatch, { method, headers, body }: SeenRequest): boolean {
  const rpc = body === undefined ? undefined : (body.method ?? 'response');
  return (
    (match.method === undefined || match.method === method) &&
    (match.rpc === undefined || match.rpc === rpc) &&
    agrees(match.session, headers['mcp-session-id']) &&
    agrees(match.lastEventId, headers['last-event-id'])
  );
}

const agrees = (wanted: string | null | undefined, found: unknown): boolean =>
  wanted === undefined || (wanted ?? undefined) === found;

// ---- answers --------------------------------------------------------------------------------------------------------

/** A status without a JSON-RPC body. */
export function status(code: number, headers: Record<string, string> = {}, body = ''): FakeAnswer {
  return (response) => void response.writeHead(code, headers).end(body);
}

/** A JSON body. */
export function json(body: unknown, code = 200, headers: Record<string, string> = {}): FakeAnswer {
  return (response) =>
    void response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** The result of the request that came. */
export function result(value: object, headers: Record<string, string> = {}): FakeAnswer {
  return (response, request) =>
    json({ jsonrpc: '2.0', id: request.body.id, result: value }, 200, headers)(response, request);
}

export function initialized(session: string | null = 's1', protocolVersion = '2025-11-25'): FakeAnswer {
  const value = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'fake', version: '1.0.0' } };
  return result(value, session === null ? {} : { 'mcp-session-id': session });
}

/** What an event stream says; a function gets the request that came. */
type FakeFrames = string | ((request: SeenRequest) => string);

/** An event stream: each text is a chunk of its own. `end`: it ends; `cut`: the connection breaks; `open`: it stays open. */
export function sse(frames: FakeFrames[], after: 'end' | 'cut' | 'open' = 'end', headers = {}): FakeAnswer {
  return async (response, request) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
    response.flushHeaders();
    for (const frame of frames) {
      await written(response, typeof frame === 'string' ? frame : frame(request));
    }
    if (after === 'end') response.end();
    else if (after === 'cut') response.destroy();
  };
}

const written = (response: ServerResponse, text: string): Promise<void> =>
  new Promise((resolve) => {
    response.write(text, () => setImmediate(resolve));
  });

/** One frame. */
export function frame(message: object | string, id?: string): string {
  const data = typeof message === 'string' ? message : JSON.stringify(message);
  return `event: message\n${id === undefined ? '' : `id: ${id}\n`}data: ${data}\n\n`;
}

/** The frame of the answer to the request that came. */
export const answerFrame =
  (value: object, id?: string) =>
  (request: SeenRequest): string =>
    frame({ jsonrpc: '2.0', id: request.body.id, result: value }, id);

export const progress = (progressToken: string | number, n: number): object => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken, progress: n },
});

/** A response that the test finishes when it wants. */
export function held(): { answer: FakeAnswer; arrived: Promise<ServerResponse>; request: () => SeenRequest } {
  let seen: SeenRequest | undefined;
  let tell!: (response: ServerResponse) => void;
  const arrived = new Promise<ServerResponse>((resolve) => (tell = resolve));
  return {
    answer: (response, request) => {
      seen = request;
      tell(response);
    },
    arrived,
    request: () => seen!,
  };
}
