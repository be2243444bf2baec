import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

type WebHandler = (request: Request) => Promise<Response>;

/** Serves a web-standard handler by `node:http`: bytes in, bytes out, and nothing decided in between. */
export class NodeBridge {
  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(handler: WebHandler): Promise<NodeBridge> {
    const server = createServer((incoming, response) => {
      serve(handler, incoming, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new NodeBridge(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  }

  close(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.server.close((error) => (error ? reject(error) : resolve()));
      this.server.closeAllConnections();
    });
  }
}

async function serve(handler: WebHandler, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const answer = await handler(await webRequest(incoming, gone.signal));
  const headers: Record<string, string> = {};
  for (const [name, value] of answer.headers) headers[name] = value;
  response.writeHead(answer.status, headers);
  response.flushHeaders();
  for await (const chunk of answer.body ?? []) response.write(chunk);
  response.end();
}

async function webRequest(incoming: IncomingMessage, signal: AbortSignal): Promise<Request> {
  const { method = 'GET', rawHeaders, url = '/' } = incoming;
  const headers = new Headers();
  // Raw, since Node's object has dropped some of the headers that came twice.
  for (let index = 0; index < rawHeaders.length; index += 2) headers.append(rawHeaders[index]!, rawHeaders[index + 1]!);
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const body = method === 'GET' || method === 'HEAD' ? undefined : new Uint8Array(Buffer.concat(chunks));
  return new Request(new URL(url, 'http://127.0.0.1'), { method, headers, signal, ...(body && { body }) });
}
