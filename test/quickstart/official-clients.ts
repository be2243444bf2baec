import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { filter, firstValueFrom, Subject } from 'rxjs';

/** A message that a client received. */
export interface Received {
  id?: string | number;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
}

export interface CallOptions {
  signal?: AbortSignal;
  onprogress?: (progress: { progress: number; total?: number; message?: string }) => void;
}

/** What the tests need of either official client. */
export interface OfficialClient {
  readonly sessionId: string | undefined;
  /** What comes from the server, after the answer to `initialize`. Hot. */
  readonly received$: Subject<Received>;
  /** The status of each HTTP answer. */
  readonly answers: { method: string; status: number }[];
  tools(): Promise<string[]>;
  resources(): Promise<{ uri: string; name: string }[]>;
  /** The text of a resource. */
  read(uri: string): Promise<string>;
  subscribe(uri: string): Promise<void>;
  /** What is proposed for a variable of a resource template. */
  complete(template: string, variable: string, value: string): Promise<string[]>;
  /** The text that a tool answers. */
  call(tool: string, args?: Record<string, unknown>, options?: CallOptions): Promise<string>;
  terminate(): Promise<void>;
  close(): Promise<void>;
}

export interface OfficialClientKind {
  readonly name: string;
  connect(url: URL): Promise<OfficialClient>;
}

/** The document that the user of every client chooses, and what its model says of one. */
export const CHOICE = 'docs/guide.md';
export const SUMMARY = 'It is about nothing.';

const INFO = { name: 'quickstart-test', version: '1.0.0' };
const CAPABILITIES = { capabilities: { elicitation: {}, sampling: {} } };
const elicited = { action: 'accept' as const, content: { name: CHOICE } };
const sampled = {
  model: 'none',
  role: 'assistant' as const,
  content: { type: 'text' as const, text: SUMMARY },
};

interface AnyTransport {
  onmessage?: ((message: never, extra?: never) => void) | undefined;
  readonly sessionId?: string | undefined;
  terminateSession(): Promise<void>;
}

/** What is the same for both. */
class Wiretap {
  readonly received$ = new Subject<Received>();
  readonly answers: { method: string; status: number }[] = [];

  readonly fetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const response = await fetch(url, init);
    this.answers.push({ method: init?.method ?? 'GET', status: response.status });
    return response;
  };

  /** To be called after `connect`, which installs the callback. */
  listen(transport: AnyTransport): void {
    const handle = transport.onmessage;
    transport.onmessage = (message: never, extra?: never) => {
      this.received$.next(message);
      handle?.call(transport, message, extra);
    };
  }
}

const v2: OfficialClientKind = {
  name: '@modelcontextprotocol/client 2.4',
  async connect(url) {
    const tap = new Wiretap();
    // Without `versionNegotiation` it is legacy.
    const client = new ClientV2(INFO, CAPABILITIES);
    client.setRequestHandler('elicitation/create', () => elicited);
    client.setRequestHandler('sampling/createMessage', () => sampled);
    const transport = new TransportV2(url, { fetch: tap.fetch });
    await client.connect(transport);
    tap.listen(transport);
    return facade(tap, transport, {
      tools: async () => (await client.listTools()).tools,
      resources: async () => (await client.listResources()).resources,
      read: async (uri) => (await client.readResource({ uri })).contents,
      subscribe: (uri) => client.subscribeResource({ uri }),
      complete: (params) => client.complete(params),
      call: async (name, args, options) => (await client.callTool({ name, arguments: args }, options)).content,
      close: () => client.close(),
    });
  },
};

const v1: OfficialClientKind = {
  name: '@modelcontextprotocol/sdk 1.32',
  async connect(url) {
    const tap = new Wiretap();
    const client = new ClientV1(INFO, CAPABILITIES);
    client.setRequestHandler(ElicitRequestSchema, () => elicited);
    client.setRequestHandler(CreateMessageRequestSchema, () => sampled);
    const transport = new TransportV1(url, { fetch: tap.fetch });
    await client.connect(transport);
    tap.listen(transport);
    return facade(tap, transport, {
      tools: async () => (await client.listTools()).tools,
      resources: async () => (await client.listResources()).resources,
      read: async (uri) => (await client.readResource({ uri })).contents,
      subscribe: (uri) => client.subscribeResource({ uri }),
      complete: (params) => client.complete(params),
      call: async (name, args, options) =>
        (await client.callTool({ name, arguments: args }, undefined, options)).content,
      close: () => client.close(),
    });
  },
};

/** Both, in legacy mode. */
export const OFFICIAL_CLIENTS: readonly OfficialClientKind[] = [v2, v1];

interface Completion {
  ref: { type: 'ref/resource'; uri: string };
  argument: { name: string; value: string };
}

interface Calls {
  tools(): Promise<{ name: string }[]>;
  resources(): Promise<{ uri: string; name: string }[]>;
  read(uri: string): Promise<unknown>;
  subscribe(uri: string): Promise<unknown>;
  complete(params: Completion): Promise<{ completion: { values: string[] } }>;
  call(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown>;
  close(): Promise<void>;
}

function facade(tap: Wiretap, transport: AnyTransport, calls: Calls): OfficialClient {
  const { received$, answers } = tap;
  return {
    received$,
    answers,
    get sessionId() {
      return transport.sessionId;
    },
    tools: async () => (await calls.tools()).map(({ name }) => name),
    resources: calls.resources,
    read: async (uri) => textOf(await calls.read(uri)),
    subscribe: async (uri) => void (await calls.subscribe(uri)),
    complete: async (uri, name, value) => {
      const params = { ref: { type: 'ref/resource' as const, uri }, argument: { name, value } };
      return (await calls.complete(params)).completion.values;
    },
    call: async (tool, args = {}, options = {}) => textOf(await calls.call(tool, args, options)),
    terminate: () => transport.terminateSession(),
    close: calls.close,
  };
}

function textOf(parts: unknown): string {
  return (parts as { text: string }[]).map(({ text }) => text).join('\n');
}

/** The next notification of a method; to be called before what causes it. */
export function notified({ received$ }: OfficialClient, method: string): Promise<Received> {
  return firstValueFrom(received$.pipe(filter((message) => message.method === method)));
}
